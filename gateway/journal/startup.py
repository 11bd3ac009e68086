"""Opens a journal: loads the files of an earlier process, even if some are damaged or missing (`open_journal`).

    1  `_read_headers`: the header of every file. A newer format is refused before anything is changed
    2  `SegmentNames.restore`: renamed and copied segments
    3  `_replay_ledger`: the newest ledger with a readable record
    4 `_SegmentLoader`: the segments. The ledger describes sealed segments; the others are read from end to end 5
    `MissingSegments.report`: requests that no segment has 6 `JournalCore.tick`: a new ledger with the current state

Every step is idempotent: a crash during any of them leaves a state from which the next start gets the same result.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError
from gateway.journal import format as fmt
from gateway.journal.core import JournalCore
from gateway.journal.interface import RangeSet, RecoveredState
from gateway.journal.requeue import finish_requeue
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.consistency import SKIPPED_NUMBERS, Headers, MissingSegments, SegmentNames
from gateway.journal.storage.directories import DirectoryLock
from gateway.journal.storage.files import TEMPORARY_SUFFIX, JournalContext
from gateway.journal.storage.ledger import Ledger, ledger_numbers, ledger_path, read_ledger
from gateway.journal.storage.quarantine import DAMAGED_DIRECTORY as DAMAGED
from gateway.journal.storage.quarantine import QUARANTINE_DIRECTORY as QUARANTINE
from gateway.journal.storage.quarantine import CorruptionStore, remove_begun
from gateway.journal.storage.scanning import IndexResult, index_segment, read_header, run_to_completion
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment, parse_segment_name, segment_name, truncate

LEDGERS_PER_SEGMENT: Final = 16  # ledger size: the segment size divided by this
MIN_LEDGER_BYTES: Final = 64 * 2**10


class OpenResult(NamedTuple):
    """An open journal and what an earlier process left in it."""

    journal: JournalCore
    recovered: RecoveredState


def open_journal(directory_lock: DirectoryLock, context: JournalContext) -> OpenResult:
    """Open a journal whose directory is locked. Raises StartupError for I/O errors and for a newer format."""
    try:
        headers = _read_headers(directory_lock, context)
        finish_requeue(context.files, directory_lock.root, directory_lock.directory)
        _remove_temporary_files(directory_lock, context)
        corruption_store = CorruptionStore(context.files, directory_lock.root / DAMAGED, context.clock)
        names = SegmentNames(directory_lock.directory, context, corruption_store, headers, _salts(headers))
        restored = names.restore()
        return _open_journal(directory_lock, context, restored, corruption_store, names.unreadable)
    except OSError as error:
        raise StartupError(f"The journal {directory_lock.directory} cannot be opened: {error}.") from error


def _open_journal(
    directory_lock: DirectoryLock,
    context: JournalContext,
    headers: Headers,
    corruption_store: CorruptionStore,
    unreadable: Sequence[int],
) -> OpenResult:
    state, is_intact = _replay_ledger(directory_lock, context, headers)
    is_certain = is_intact and not _is_older(state, headers)
    is_end_known = bool(state.clean_at)
    firsts = [*filter(None, map(parse_segment_name, headers)), *state.sealed]
    unreadable_end = max(unreadable, default=0)
    if is_end_known or max(firsts, default=0) >= unreadable_end:
        unreadable_end = 0
    clean_at, checked, state.clean_at = state.clean_at, state.checked, 0
    salt = _salts(headers)[0] if any(headers.values()) else fmt.new_salt()
    newest = next(iter(ledger_numbers(headers)), 0)
    ledger_bytes = max(context.limits.segment_bytes // LEDGERS_PER_SEGMENT, MIN_LEDGER_BYTES)
    ledger = Ledger(context, directory_lock.directory, newest, ledger_bytes, salt, state)
    segment_set = SegmentSet(context, ledger, corruption_store)
    sealed = set(state.sealed)
    gone = _SegmentLoader(directory_lock, context, headers, segment_set, ledger, is_certain=is_certain).load_all()
    has_last = bool(segment_set.segments) and segment_set.segments[-1].first > max(sealed, default=0)
    missing = MissingSegments(directory_lock.directory, context, ledger, segment_set, corruption_store, gone)
    missing.report(unreadable_end, is_certain=is_certain, is_end_known=is_end_known)
    if headers and not is_end_known and not has_last:
        missing.skip_numbers()
    clean = (clean_at == state.next_sequence and checked) or not headers
    _reconcile(context, segment_set, state)
    remove_begun(context.files, directory_lock.root / QUARANTINE, state.begun)
    journal = JournalCore(directory_lock, context, ledger, segment_set, corruption_store, salt)
    journal.tick()  # writes a new ledger; if that fails, a later tick tries again
    journal.retention.take_released()
    for number in ledger_numbers(headers) if ledger.is_flushed else ():
        context.files.unlink(ledger_path(directory_lock.directory, number))
    return OpenResult(journal, _recovered_state(segment_set, state, clean=clean))


def _read_headers(directory_lock: DirectoryLock, context: JournalContext) -> Headers:
    """Headers of the ledgers, newest first, and of the segments, in order. Raises StartupError for a newer format."""
    names = context.files.list_directory(directory_lock.directory)
    ledgers = [ledger_path(directory_lock.directory, number).name for number in ledger_numbers(names)]
    segments = [name for name in names if parse_segment_name(name) is not None]
    headers = {}
    for name in [*ledgers, *segments]:
        path = directory_lock.directory / name
        headers[name] = read_header(context.files, path)
        _reject_newer(str(path), headers[name])
    return headers


def _reject_newer(path: str, header: fmt.FileHeader | None) -> None:
    if header is not None and header.version > fmt.VERSION:
        raise StartupError(
            f"{path} has version {header.version} of the journal's format, written by a newer release. This release "
            f"reads version {fmt.VERSION}. Start the newer release again, and let it store the requests of the journal."
        )


def _remove_temporary_files(directory_lock: DirectoryLock, context: JournalContext) -> None:
    for name in context.files.list_directory(directory_lock.directory):
        if name.endswith(TEMPORARY_SUFFIX):
            context.files.unlink(directory_lock.directory / name)


def _salts(headers: Headers) -> list[bytes]:
    """All salts in use; the salt of the newest ledger comes first. If no salt is readable, no frame can be recognized,
    and a placeholder of zeros is returned.
    """
    return list(dict.fromkeys(header.salt for header in headers.values() if header is not None)) or [bytes(8)]


def _replay_ledger(directory_lock: DirectoryLock, context: JournalContext, headers: Headers) -> tuple[BatchState, bool]:
    """The state that the newest ledger describes, or the next older ledger if it has no readable record; and whether
    the newest ledger is intact.
    """
    state = BatchState()
    is_intact = bool(ledger_numbers(headers))
    if headers and not is_intact:
        context.metrics.damaged_frames.inc()
        context.log.error(
            "the ledger of a journal is missing: all requests in the journal are sent to ClickHouse again, so some may "
            "be stored twice",
            journal=str(directory_lock.directory),
        )
    for number in ledger_numbers(headers):
        path = ledger_path(directory_lock.directory, number)
        ledger = read_ledger(context.files, path, _salts(headers))
        if ledger.damaged_records:
            is_intact = False
            context.metrics.damaged_frames.inc(ledger.damaged_records)
            context.log.error("a journal ledger is damaged", ledger=str(path), records=ledger.damaged_records)
        for record in ledger.records:
            state.apply(record)
        if ledger.damaged_records:
            state.clean_at = 0
        if ledger.records:
            break
    return state, is_intact


def _is_older(state: BatchState, headers: Headers) -> bool:
    """Whether a segment was begun after the ledger was last written. If so, the ledger is an older copy: it is always
    flushed before a new segment is begun."""
    firsts = (header.first for header in headers.values() if header is not None and header.kind == fmt.SEGMENT)
    return max(firsts, default=0) > state.next_sequence


class _SegmentLoader:
    """Loads the segments of a journal into its `SegmentSet`."""

    def __init__(
        self,
        directory_lock: DirectoryLock,
        context: JournalContext,
        headers: Headers,
        segment_set: SegmentSet,
        ledger: Ledger,
        *,
        is_certain: bool,
    ) -> None:
        self._directory = directory_lock.directory
        self._files = context.files
        self._headers = headers
        self._segment_set = segment_set
        self._ledger = ledger
        self._is_certain = is_certain

    def load_all(self) -> Mapping[int, fmt.SealRecord]:
        """Load all segments, in order of their sequences; returns the records of sealed segments whose files are
        missing."""
        state = self._ledger.state
        firsts = [first for name in self._headers if (first := parse_segment_name(name)) is not None]
        sealed = state.sealed
        known = sorted({*firsts, *sealed})
        for first, following in zip_longest(known, known[1:]):
            path = self._directory / segment_name(first)
            if path.name not in self._headers:
                continue
            header, facts = self._headers[path.name], sealed.get(first)
            if header is not None and facts is not None:
                self._segment_set.add(Segment.from_record(path, fmt.checksum_seed(header.salt), facts))
            else:
                self._load_unsealed(path, first, following, facts)
            state.observe(first - 1)
        loaded = {segment.first for segment in self._segment_set.segments}
        state.sealed = {first: facts for first, facts in state.sealed.items() if first in loaded}
        return {first: facts for first, facts in sealed.items() if first not in loaded}

    def _load_unsealed(self, path: Path, first: int, following: int | None, facts: fmt.SealRecord | None) -> None:
        """Load a segment that was not sealed, or whose header is damaged."""
        limit = fmt.MAX_SEQUENCE if following is None else following - 1
        found = self._index(path, first, limit, facts)
        segment = found.segment
        expected = self._expected_last(found, following, facts)
        is_end_known = facts is not None or following is not None
        self._segment_set.record_damage(segment, found, expected, is_end_known=is_end_known)
        if found.beyond:
            self._segment_set.report_overlap(segment, found.beyond)
        segment.last = max(segment.last, expected)
        if segment.last < segment.first:  # the segment has no request, and the next segment gets its name
            self._files.unlink(segment.path)
            return
        if not segment.keep:
            truncate(self._files, segment.path, segment.length)
        self._segment_set.add(segment)
        self._ledger.append(segment.to_record())

    def _index(self, path: Path, first: int, limit: int, facts: fmt.SealRecord | None) -> IndexResult:
        """Index a segment. If its salt is unreadable, try all salts in use, and take the one that finds the most
        requests."""
        header = self._headers[path.name]
        salts = _salts(self._headers) if header is None else [header.salt]
        length = None if facts is None else facts.length
        segments = (Segment(path, first, fmt.checksum_seed(salt)) for salt in salts)
        found = [run_to_completion(index_segment(self._files, segment, length, limit)) for segment in segments]
        return max(found, key=lambda indexed: indexed.segment.requests)

    def _expected_last(self, index: IndexResult, following: int | None, facts: fmt.SealRecord | None) -> int:
        """The last sequence known to have been on disk, from the segment's record, the next segment or the ledger."""
        if facts is not None:
            return facts.last
        # A segment that was put back need not have sequences that were reported as missing or skipped.
        end = self._ledger.state.next_sequence if following is None else following
        before = self._ledger.state.missing.last_missing(end - 1)
        if before - index.segment.last >= SKIPPED_NUMBERS:
            return index.segment.last
        if following is None:
            return before
        has_damaged_end = any(damage.last is None for damage in index.damages)
        # Segments in between may have been removed; only an intact ledger shows whether there were any.
        return before if self._is_certain or has_damaged_end else index.segment.last


def _reconcile(context: JournalContext, segment_set: SegmentSet, state: BatchState) -> None:
    """Make the state agree with the segments that exist: drop requests whose segments are missing from begun and
    retained batches, and set the time when each finished segment was finished.
    """
    ranges = [(segment.first, segment.last) for segment in segment_set.segments if segment.last >= segment.first]
    state.reconcile(ranges)
    existing = RangeSet(ranges)
    for batch_id, retained in list(state.retained.items()):
        if not all(existing.covers(first, last) for first, last in retained.batch.ranges):
            del state.retained[batch_id]
    now_ms, now = context.clock() // 10**6, context.monotonic()
    for segment in segment_set.segments:
        if state.finished.covers(segment.first, segment.last):
            finished_ms = state.finished_ms(segment.first, segment.last) or now_ms
            segment.finished_at = now - min(max(now_ms - finished_ms, 0) / 1000, context.limits.hold_s)


def _recovered_state(segment_set: SegmentSet, state: BatchState, *, clean: bool) -> RecoveredState:
    available = (state.last_available(segment.first, segment.last) for segment in reversed(segment_set.segments))
    last = next((sequence for sequence in available if sequence is not None), 0)
    batches = [retained.batch for retained in state.retained.values()]
    return RecoveredState(list(state.begun.values()), batches, clean, last)
