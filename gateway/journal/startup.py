"""How a journal is opened: what an earlier process left is read, whatever state it is in.

    1  every file's header: a newer format is refused before anything is touched
    2  the ledger: the newest one that says anything
    3  the segments: those that the ledger knows as sealed are taken at its word, the others are read from end to end
    4  a new ledger with the state as it is

A crash in any of these leaves what there was before, and what is done again comes to the same.
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError
from gateway.journal.core import JournalCore
from gateway.journal.format import frames as fmt
from gateway.journal.format.ledger_records import SealRecord
from gateway.journal.format.ranges import RangeSet
from gateway.journal.interface import RecoveredState
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.context import JournalContext
from gateway.journal.storage.corruption_store import DAMAGED_DIRECTORY as DAMAGED
from gateway.journal.storage.corruption_store import CorruptionStore
from gateway.journal.storage.directory_lock import DirectoryLock
from gateway.journal.storage.files import TEMPORARY_SUFFIX
from gateway.journal.storage.ledger import Ledger, ledger_numbers, ledger_path, read_ledger
from gateway.journal.storage.page_reader import load_file_header
from gateway.journal.storage.quarantine import QUARANTINE_DIRECTORY as QUARANTINE
from gateway.journal.storage.quarantine import remove_begun
from gateway.journal.storage.segment_index import IndexResult, index_segment, run_to_completion
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment, parse_segment_name, segment_name, truncate
from gateway.journal.tools.requeue import finish_requeue

LEDGERS_PER_SEGMENT: Final = 16  # in size
MIN_LEDGER_BYTES: Final = 64 * 2**10

Headers = Mapping[str, fmt.FileHeader | None]  # by name; None: damaged


class OpenResult(NamedTuple):
    """A journal and what was in it."""

    journal: JournalCore
    recovered: RecoveredState


def open_journal(directory_lock: DirectoryLock, context: JournalContext) -> OpenResult:
    """Open a journal that is claimed. Raises StartupError."""
    try:
        headers = _read_headers(directory_lock, context)
        finish_requeue(context.files, directory_lock.root, directory_lock.directory)
        _remove_temporary_files(directory_lock, context)
        return _open_journal(directory_lock, context, headers)
    except OSError as error:
        raise StartupError(f"The journal {directory_lock.directory} cannot be opened: {error}.") from error


def _open_journal(directory_lock: DirectoryLock, context: JournalContext, headers: Headers) -> OpenResult:
    progress = _replay_ledger(directory_lock, context, headers)
    clean_at, checked, progress.clean_at = progress.clean_at, progress.checked, 0
    salt = _salts(headers)[0] if any(headers.values()) else fmt.new_salt()
    newest = next(iter(ledger_numbers(headers)), 0)
    ledger = Ledger(
        context.files,
        directory_lock.directory,
        newest,
        max(context.limits.segment_bytes // LEDGERS_PER_SEGMENT, MIN_LEDGER_BYTES),
        salt,
        progress,
        context.metrics,
        context.log,
        context.clock,
    )
    damaged = CorruptionStore(context.files, directory_lock.root / DAMAGED, context.clock)
    shelf = SegmentSet(context.files, ledger, damaged, context.metrics, context.log)
    _SegmentLoader(directory_lock, context, headers, shelf, ledger).load_all()
    clean = (clean_at == progress.next_sequence and checked) or not headers
    _reconcile(context, shelf, progress)
    remove_begun(context.files, directory_lock.root / QUARANTINE, progress.begun)
    journal = JournalCore(directory_lock, context, ledger, shelf, damaged, salt)
    journal.tick()  # a new ledger; if the disk does not take it, it will be tried again
    journal.retention.take_released()
    for number in ledger_numbers(headers) if ledger.is_flushed else ():
        context.files.unlink(ledger_path(directory_lock.directory, number))
    return OpenResult(journal, _recovered_state(shelf, progress, clean=clean))


def _read_headers(directory_lock: DirectoryLock, context: JournalContext) -> Headers:
    """The headers of ledgers, newest first, and of segments, in order. Raises StartupError for one that is newer."""
    names = context.files.list_directory(directory_lock.directory)
    ledgers = [ledger_path(directory_lock.directory, number).name for number in ledger_numbers(names)]
    segments = [name for name in names if parse_segment_name(name) is not None]
    headers = {}
    for name in [*ledgers, *segments]:
        path = directory_lock.directory / name
        fd = context.files.open(path)
        try:
            headers[name] = load_file_header(context.files, fd)
        finally:
            context.files.close(fd)
        _reject_newer(str(path), headers[name])
    return headers


def _reject_newer(path: str, header: fmt.FileHeader | None) -> None:
    if header is not None and header.version > fmt.VERSION:
        raise StartupError(
            f"{path} has version {header.version} of the journal's format, written by a newer release; this one reads "
            f"version {fmt.VERSION}. Start the newer release again, and let it store what the journal holds."
        )


def _remove_temporary_files(directory_lock: DirectoryLock, context: JournalContext) -> None:
    for name in context.files.list_directory(directory_lock.directory):
        if name.endswith(TEMPORARY_SUFFIX):
            context.files.unlink(directory_lock.directory / name)


def _salts(headers: Headers) -> list[bytes]:
    """All salts in use, that of the newest ledger first. Where none can be read, no frame can be told either."""
    return list(dict.fromkeys(header.salt for header in headers.values() if header is not None)) or [bytes(8)]


def _replay_ledger(directory_lock: DirectoryLock, context: JournalContext, headers: Headers) -> BatchState:
    """What the newest ledger says, or the one before it if it says nothing."""
    progress = BatchState()
    for number in ledger_numbers(headers):
        path = ledger_path(directory_lock.directory, number)
        ledger = read_ledger(context.files, path, _salts(headers))
        if ledger.damaged_records:
            context.metrics.damaged_frames.inc(ledger.damaged_records)
            context.log.error("a ledger of the journal is damaged", ledger=str(path), records=ledger.damaged_records)
        for record in ledger.records:
            progress.apply(record)
        if ledger.damaged_records:
            progress.clean_at = 0
        if ledger.records:
            break
    return progress


class _SegmentLoader:
    """Puts the segments of a journal on its shelf."""

    def __init__(
        self,
        directory_lock: DirectoryLock,
        context: JournalContext,
        headers: Headers,
        segment_set: SegmentSet,
        ledger: Ledger,
    ) -> None:
        self._directory = directory_lock.directory
        self._files, self._metrics, self._log = context.files, context.metrics, context.log
        self._headers = headers
        self._segment_set = segment_set
        self._ledger = ledger

    def load_all(self) -> None:
        """All of them, in order."""
        progress = self._ledger.state
        firsts = [first for name in self._headers if (first := parse_segment_name(name)) is not None]
        progress.sealed = {first: facts for first, facts in progress.sealed.items() if first in firsts}
        for first, following in zip_longest(firsts, firsts[1:]):
            path = self._directory / segment_name(first)
            header, facts = self._headers[path.name], progress.sealed.get(first)
            if header is not None and facts is not None:
                self._segment_set.add(Segment.from_record(path, fmt.checksum_seed(header.salt), facts))
            else:
                self._load_unsealed(path, first, following, facts)
            progress.observe(first - 1)

    def _load_unsealed(self, path: Path, first: int, following: int | None, facts: SealRecord | None) -> None:
        """A segment that was not sealed, or whose header is damaged."""
        limit = fmt.MAX_SEQUENCE if following is None else following - 1
        found = self._index(path, first, limit, facts)
        segment = found.segment
        expected = self._expected_last(limit, following, facts)
        if self._headers[path.name] is None and not segment.requests and found.damages:
            self._segment_set.move_unreadable_segment(segment, expected, facts)
            return
        self._segment_set.record_damage(segment, found, expected)
        segment.last = max(segment.last, expected)
        if segment.last < segment.first:  # nothing was ever written to it; the next one has its name
            self._files.unlink(segment.path)
            return
        if not segment.keep:
            truncate(self._files, segment.path, segment.length)
        self._segment_set.add(segment)
        self._ledger.append(segment.to_record())

    def _index(self, path: Path, first: int, limit: int, facts: SealRecord | None) -> IndexResult:
        """What is in it; where its salt cannot be read, with that of the salts in use that makes most sense."""
        header = self._headers[path.name]
        if header is None:
            self._metrics.damaged_frames.inc()
            self._log.error("the header of a segment of the journal is damaged", segment=str(path))
        salts = _salts(self._headers) if header is None else [header.salt]
        length = None if facts is None else facts.length
        segments = (Segment(path, first, fmt.checksum_seed(salt)) for salt in salts)
        found = [run_to_completion(index_segment(self._files, segment, length, limit)) for segment in segments]
        return max(found, key=lambda indexed: indexed.segment.requests)

    def _expected_last(self, limit: int, following: int | None, facts: SealRecord | None) -> int:
        """The last request that was on disk once, as far as anybody says so."""
        if facts is not None:
            return facts.last
        return limit if following is not None else self._ledger.state.next_sequence - 1


def _reconcile(context: JournalContext, segment_set: SegmentSet, state: BatchState) -> None:
    """Make what the records say agree with the segments that there are."""
    ranges = [(segment.first, segment.last) for segment in segment_set.segments if segment.last >= segment.first]
    state.reconcile(ranges)
    there = RangeSet(ranges)
    for key, held in list(state.retained.items()):
        if not all(there.covers(first, last) for first, last in held.batch.ranges):
            del state.retained[key]
    now_ms, now = context.clock() // 10**6, context.monotonic()
    for segment in segment_set.segments:
        if state.finished.covers(segment.first, segment.last):
            ended = state.finished_ms(segment.first, segment.last) or now_ms
            segment.finished_at = now - min(max(now_ms - ended, 0) / 1000, context.limits.hold_s)


def _recovered_state(segment_set: SegmentSet, state: BatchState, *, clean: bool) -> RecoveredState:
    offered = (state.last_available(segment.first, segment.last) for segment in reversed(segment_set.segments))
    last = next((sequence for sequence in offered if sequence is not None), 0)
    held = [held.batch for held in state.retained.values()]
    return RecoveredState(list(state.begun.values()), held, clean, last)
