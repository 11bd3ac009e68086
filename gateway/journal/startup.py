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
from gateway.journal import format as fmt
from gateway.journal.claims import Claim
from gateway.journal.damage import DIRECTORY as DAMAGED
from gateway.journal.damage import Damaged
from gateway.journal.entries import Sealed
from gateway.journal.files import TEMPORARY
from gateway.journal.indexing import Indexed, finish, index
from gateway.journal.ledger import Ledger, ledger_path, numbers, read_ledger
from gateway.journal.opened import OpenJournal
from gateway.journal.progress import Progress
from gateway.journal.quarantine import DIRECTORY as QUARANTINE
from gateway.journal.quarantine import forget_begun
from gateway.journal.ranges import Ranges
from gateway.journal.reading import file_header
from gateway.journal.records import Recovered, Surroundings
from gateway.journal.requeue import settle
from gateway.journal.segments import Segment, cut, first_of, segment_name
from gateway.journal.shelf import Shelf

LEDGERS_OF_A_SEGMENT: Final = 16  # in size
MIN_LEDGER: Final = 64 * 2**10

Headers = Mapping[str, fmt.FileHeader | None]  # by name; None: damaged


class Started(NamedTuple):
    """A journal and what was in it."""

    journal: OpenJournal
    recovered: Recovered


def start(claim: Claim, around: Surroundings) -> Started:
    """Open a journal that is claimed. Raises StartupError."""
    try:
        headers = _headers(claim, around)
        settle(around.files, claim.root, claim.directory)
        _tidy(claim, around)
        return _start(claim, around, headers)
    except OSError as error:
        raise StartupError(f"The journal {claim.directory} cannot be opened: {error}.") from error


def _start(claim: Claim, around: Surroundings, headers: Headers) -> Started:
    progress = _progress(claim, around, headers)
    clean_at, checked, progress.clean_at = progress.clean_at, progress.checked, 0
    salt = _salts(headers)[0] if any(headers.values()) else fmt.new_salt()
    newest = next(iter(numbers(headers)), 0)
    ledger = Ledger(
        around.files,
        claim.directory,
        newest,
        max(around.limits.segment_bytes // LEDGERS_OF_A_SEGMENT, MIN_LEDGER),
        salt,
        progress,
        around.metrics,
        around.log,
        around.clock,
    )
    damaged = Damaged(around.files, claim.root / DAMAGED, around.clock)
    shelf = Shelf(around.files, ledger, damaged, around.metrics, around.log)
    _Filling(claim, around, headers, shelf, ledger).fill()
    clean = (clean_at == progress.next and checked) or not headers
    _settle(around, shelf, progress)
    forget_begun(around.files, claim.root / QUARANTINE, progress.begun)
    journal = OpenJournal(claim, around, ledger, shelf, damaged, salt)
    journal.tick()  # a new ledger; if the disk does not take it, it will be tried again
    journal.upkeep.take_released()
    for number in numbers(headers) if ledger.settled else ():
        around.files.unlink(ledger_path(claim.directory, number))
    return Started(journal, _recovered(shelf, progress, clean=clean))


def _headers(claim: Claim, around: Surroundings) -> Headers:
    """The headers of ledgers, newest first, and of segments, in order. Raises StartupError for one that is newer."""
    names = around.files.names(claim.directory)
    ledgers = [ledger_path(claim.directory, number).name for number in numbers(names)]
    segments = [name for name in names if first_of(name) is not None]
    headers = {}
    for name in [*ledgers, *segments]:
        path = claim.directory / name
        fd = around.files.open(path)
        try:
            headers[name] = file_header(around.files, fd)
        finally:
            around.files.close(fd)
        _refuse_newer(str(path), headers[name])
    return headers


def _refuse_newer(path: str, header: fmt.FileHeader | None) -> None:
    if header is not None and header.version > fmt.VERSION:
        raise StartupError(
            f"{path} has version {header.version} of the journal's format, written by a newer release; this one reads "
            f"version {fmt.VERSION}. Start the newer release again, and let it store what the journal holds."
        )


def _tidy(claim: Claim, around: Surroundings) -> None:
    for name in around.files.names(claim.directory):
        if name.endswith(TEMPORARY):
            around.files.unlink(claim.directory / name)


def _salts(headers: Headers) -> list[bytes]:
    """All salts in use, that of the newest ledger first. Where none can be read, no frame can be told either."""
    return list(dict.fromkeys(header.salt for header in headers.values() if header is not None)) or [bytes(8)]


def _progress(claim: Claim, around: Surroundings, headers: Headers) -> Progress:
    """What the newest ledger says, or the one before it if it says nothing."""
    progress = Progress()
    for number in numbers(headers):
        path = ledger_path(claim.directory, number)
        ledger = read_ledger(around.files, path, _salts(headers))
        if ledger.damaged:
            around.metrics.damaged_frames.inc(ledger.damaged)
            around.log.error("a ledger of the journal is damaged", ledger=str(path), records=ledger.damaged)
        for record in ledger.records:
            progress.apply(record)
        if ledger.damaged:
            progress.clean_at = 0
        if ledger.records:
            break
    return progress


class _Filling:
    """Puts the segments of a journal on its shelf."""

    def __init__(self, claim: Claim, around: Surroundings, headers: Headers, shelf: Shelf, ledger: Ledger) -> None:
        self._directory = claim.directory
        self._files, self._metrics, self._log = around.files, around.metrics, around.log
        self._headers = headers
        self._shelf = shelf
        self._ledger = ledger

    def fill(self) -> None:
        """All of them, in order."""
        progress = self._ledger.progress
        firsts = [first for name in self._headers if (first := first_of(name)) is not None]
        progress.sealed = {first: facts for first, facts in progress.sealed.items() if first in firsts}
        for first, following in zip_longest(firsts, firsts[1:]):
            path = self._directory / segment_name(first)
            header, facts = self._headers[path.name], progress.sealed.get(first)
            if header is not None and facts is not None:
                self._shelf.add(Segment.known(path, fmt.seed_of(header.salt), facts))
            else:
                self._read(path, first, following, facts)
            progress.mention(first - 1)

    def _read(self, path: Path, first: int, following: int | None, facts: Sealed | None) -> None:
        """A segment that was not sealed, or whose header is damaged."""
        limit = fmt.MAX_SEQUENCE if following is None else following - 1
        found = self._found(path, first, limit, facts)
        segment = found.segment
        expected = self._expected(limit, following, facts)
        if self._headers[path.name] is None and not segment.requests and found.damages:
            self._shelf.move_away(segment, expected, facts)
            return
        self._shelf.account(segment, found, expected)
        segment.last = max(segment.last, expected)
        if segment.last < segment.first:  # nothing was ever written to it; the next one has its name
            self._files.unlink(segment.path)
            return
        if not segment.keep:
            cut(self._files, segment.path, segment.length)
        self._shelf.add(segment)
        self._ledger.note(segment.facts())

    def _found(self, path: Path, first: int, limit: int, facts: Sealed | None) -> Indexed:
        """What is in it; where its salt cannot be read, with that of the salts in use that makes most sense."""
        header = self._headers[path.name]
        if header is None:
            self._metrics.damaged_frames.inc()
            self._log.error("the header of a segment of the journal is damaged", segment=str(path))
        salts = _salts(self._headers) if header is None else [header.salt]
        length = None if facts is None else facts.length
        segments = (Segment(path, first, fmt.seed_of(salt)) for salt in salts)
        found = [finish(index(self._files, segment, length, limit)) for segment in segments]
        return max(found, key=lambda indexed: indexed.segment.requests)

    def _expected(self, limit: int, following: int | None, facts: Sealed | None) -> int:
        """The last request that was on disk once, as far as anybody says so."""
        if facts is not None:
            return facts.last
        return limit if following is not None else self._ledger.progress.next - 1


def _settle(around: Surroundings, shelf: Shelf, progress: Progress) -> None:
    """Make what the records say agree with the segments that there are."""
    ranges = [(segment.first, segment.last) for segment in shelf.segments if segment.last >= segment.first]
    progress.settle(ranges)
    there = Ranges(ranges)
    for key, held in list(progress.held.items()):
        if not all(there.covers(first, last) for first, last in held.batch.ranges):
            del progress.held[key]
    now_ms, now = around.clock() // 10**6, around.monotonic()
    for segment in shelf.segments:
        if progress.finished.covers(segment.first, segment.last):
            ended = progress.finished_ms(segment.first, segment.last) or now_ms
            segment.finished_at = now - min(max(now_ms - ended, 0) / 1000, around.limits.hold_s)


def _recovered(shelf: Shelf, progress: Progress, *, clean: bool) -> Recovered:
    offered = (progress.last_offered(segment.first, segment.last) for segment in reversed(shelf.segments))
    last = next((sequence for sequence in offered if sequence is not None), 0)
    held = [held.batch for held in progress.held.values()]
    return Recovered(list(progress.begun.values()), held, clean, last)
