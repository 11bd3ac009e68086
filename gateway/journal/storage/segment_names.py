"""Gives segments the names that their headers say, when a journal is opened.

The header of a segment has the sequence that is in its name. If the two differ, the file was renamed or copied. Read
under the wrong name, a copy would be stored twice, and the intact requests of a renamed segment would pass for damaged.

    renamed    gets its name back
    copied     of two files with the same sequence, the one with fewer requests is moved to `damaged/`
    foreign    a file with another salt than the ledger is from another journal; it is moved to `damaged/`

A crash in between leaves names that the next start restores.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from gateway.journal.format import frames as fmt
from gateway.journal.storage.context import JournalContext
from gateway.journal.storage.corruption_store import CorruptionStore
from gateway.journal.storage.page_reader import build_reader
from gateway.journal.storage.segment_index import index_segment, run_to_completion
from gateway.journal.storage.segments import Segment, parse_segment_name, segment_name

Headers = Mapping[str, fmt.FileHeader | None]  # by file name; None: the header is damaged


class SegmentNames:
    """The names of the segments of one journal. `salts`: in use, the ledger's first."""

    def __init__(
        self,
        directory: Path,
        context: JournalContext,
        corruption_store: CorruptionStore,
        headers: Headers,
        salts: Sequence[bytes],
    ) -> None:
        self._directory = directory
        self._files, self._log = context.files, context.log
        self._corruption_store = corruption_store
        self._headers = headers
        self._salts = salts
        self._metrics = context.metrics
        self.unreadable: list[int] = []  # the sequences in the names of segments that `restore` found unreadable

    def restore(self) -> Headers:
        """Rename segments and move others to `damaged/` until every name agrees with its header; returns the headers
        of the remaining files, segments in order. Raises OSError.
        """
        ledgers = {name: header for name, header in self._headers.items() if parse_segment_name(name) is None}
        claims: dict[int, list[str]] = {}
        for name in self._headers.keys() - ledgers.keys():
            if self._is_foreign(name):
                self._set_aside(name, "a file belongs to another journal; it is moved to damaged/ and not stored")
            else:
                claims.setdefault(self._first(name), []).append(name)
        names = {first: self._choose(first, copies) for first, copies in sorted(claims.items())}
        for first, name in list(names.items()):
            if self._headers[name] is None and not self._report_header(first, name):
                del names[first]
        self._rename({name: segment_name(first) for first, name in names.items() if name != segment_name(first)})
        return ledgers | {segment_name(first): self._headers[name] for first, name in names.items()}

    def _report_header(self, first: int, name: str) -> bool:
        """Report a damaged header. Without any request the segment is moved away; returns whether it has some."""
        self._metrics.damaged_frames.inc()
        self._log.error("the header of a journal segment is damaged", segment=str(self._directory / name))
        if self._count_requests(first, name):
            return True
        self._set_aside(name, "nothing of a journal segment can be read; it is moved to damaged/")
        self.unreadable.append(first)
        return False

    def _first(self, name: str) -> int:
        """The sequence that the name should have: by the header, or the first frame, which begins a group with it."""
        header = self._headers[name]
        if header is not None:
            return header.first
        fd = self._files.open(self._directory / name)
        try:
            page = build_reader(self._files, fd)(fmt.PAGE, fmt.PAGE)
        finally:
            self._files.close(fd)
        frames = (fmt.read_frame_header(page, 0, fmt.checksum_seed(salt)) for salt in self._salts)
        return next((head.group for head in frames if head is not None), parse_segment_name(name) or 0)

    def _is_foreign(self, name: str) -> bool:
        header = self._headers[name]
        if header is None:
            return False
        ledger_salts = [each.salt for each in self._headers.values() if each is not None and each.kind == fmt.LEDGER]
        return header.kind != fmt.SEGMENT or (bool(ledger_salts) and header.salt != ledger_salts[0])

    def _choose(self, first: int, copies: Sequence[str]) -> str:
        """The file with the most requests; of equal ones, the one that has its own name. Moves the others."""
        if len(copies) == 1:
            return copies[0]
        ranked = sorted(copies, key=lambda name: (self._count_requests(first, name), name == segment_name(first)))
        for name in ranked[:-1]:
            self._set_aside(name, "a journal segment exists twice; the file with fewer requests is moved to damaged/")
        return ranked[-1]

    def _count_requests(self, first: int, name: str) -> int:
        header = self._headers[name]
        salts = self._salts if header is None else [header.salt]
        segments = (Segment(self._directory / name, first, fmt.checksum_seed(salt)) for salt in salts)
        found = (run_to_completion(index_segment(self._files, each, None, fmt.MAX_SEQUENCE)) for each in segments)
        return max(each.segment.requests for each in found)

    def _set_aside(self, name: str, event: str) -> None:
        self._log.warning(event, segment=str(self._directory / name), name=segment_name(self._first(name)))
        self._corruption_store.set_aside(self._directory / name)

    def _rename(self, targets: dict[str, str]) -> None:
        """Rename files, by name. Where names are swapped, one file gets a free name meanwhile."""
        while targets:
            name = next((name for name, target in targets.items() if target not in targets), None)
            if name is None:
                name = next(iter(targets))
                target = next(free for n in count(fmt.MAX_SEQUENCE, -1) if (free := segment_name(n)) not in targets)
                targets[target] = targets.pop(name)
            else:
                target = targets.pop(name)
                self._log.warning(
                    "a journal segment gets its name back", segment=str(self._directory / name), name=target
                )
            self._files.rename(self._directory / name, self._directory / target)
            self._files.sync_directory(self._directory)  # before the next file gets the old name
