"""The frames of a file, and what lies between them.

    Found    a frame, whole
    Gap      bytes that are no frame: damaged ones, or the end of a file that was being written when the process stopped

Where a frame should be and is none, the next one is looked for at every multiple of 8. What looks like one has to have
the right checksums, which begin with the salt of the file: nothing inside a request does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.journal.format import (
    FRAME_BYTES,
    FRAME_MAGIC,
    POLICY,
    REQUEST,
    Head,
    page_up,
    payload_is_whole,
    read_head,
)
from gateway.journal.records import Range

WINDOW: Final = 2**20  # bytes that are read at once
_ALIGNMENT: Final = 8

ReadAt = Callable[[int, int], bytes]  # size, offset


class Found(NamedTuple):
    """A whole frame. `payload` may be a view of a window, to be copied by who keeps it."""

    offset: int
    head: Head
    payload: memoryview

    @property
    def end(self) -> int:
        """Where the next frame may be."""
        return self.offset + self.head.size


class Gap(NamedTuple):
    """Bytes from `start` to before `end` that are no frames. `zeros`: all are 0. `head`: whose payload it was."""

    start: int
    end: int
    zeros: bool = False
    head: Head | None = None


class _Window:
    """Part of a file in memory."""

    def __init__(self, read: ReadAt, end: int) -> None:
        self._read = read
        self._start = 0
        self._view = memoryview(b"")
        self.end = end

    def at(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` on, fewer at the end of the file."""
        size = min(size, self.end - offset)
        if offset < self._start or offset + size > self._start + len(self._view):
            self._view = memoryview(self._read(min(max(size, WINDOW), self.end - offset), offset))
            self._start = offset
            if len(self._view) < size:  # the file is shorter than it was thought to be
                self.end = offset + len(self._view)
        skip = offset - self._start
        return self._view[skip : skip + size]


def scan(read: ReadAt, seed: int, start: int, end: int) -> Iterator[Found | Gap]:
    """What is in a file from `start` to `end`, in order; `start` must be where a frame begins, or a page.

    A file that ends in the middle of a frame, or is zeros from some page on, ends with gaps.
    """
    window = _Window(read, end)
    offset = start
    while offset < window.end:
        part = _part(window, seed, offset)
        if part is None:
            offset = page_up(offset)  # nothing but the padding behind a group
        else:
            yield part
            offset = part.end


def _part(window: _Window, seed: int, offset: int) -> Found | Gap | None:
    head = read_head(window.at(offset, FRAME_BYTES), 0, seed)
    if head is not None:
        return _whole(window, offset, head) or Gap(offset, min(offset + head.size, window.end), head=head)
    boundary = min(page_up(offset), window.end)
    if boundary > offset and not any_set(window.at(offset, boundary - offset)):
        return None
    return _gap(window, seed, offset)


def _whole(window: _Window, offset: int, head: Head) -> Found | None:
    frame = window.at(offset, head.size)
    if len(frame) < head.size or not payload_is_whole(frame, 0, head):
        return None
    return Found(offset, head, frame[FRAME_BYTES : FRAME_BYTES + head.length])


def _gap(window: _Window, seed: int, start: int) -> Gap:
    """What reaches from `start`, where no frame is, to the next header of one, or to the end."""
    zeros = True
    offset = start
    while offset < window.end:
        piece = bytes(window.at(offset, WINDOW))
        if any_set(piece):
            at = _header_in(piece, seed, skip_first=offset == start)
            zeros = zeros and at is not None and not any_set(piece[:at])
            if at is not None:
                return Gap(start, offset + at, zeros=zeros)
        # A header may begin in the last bytes of this piece.
        at_end = offset + len(piece) >= window.end
        offset += len(piece) if at_end else len(piece) - FRAME_BYTES
    return Gap(start, window.end, zeros=zeros)


def _header_in(piece: bytes, seed: int, *, skip_first: bool) -> int | None:
    """Where in `piece` the first header of a frame is; not at its very first byte when it is tried already."""
    at = piece.find(FRAME_MAGIC, int(skip_first))
    while at >= 0:
        if at % _ALIGNMENT == 0 and read_head(piece, at, seed) is not None:
            return at
        at = piece.find(FRAME_MAGIC, at + 1)
    return None


def any_set(piece: bytes | memoryview) -> bool:
    """Whether any byte is not 0."""
    return bytes(piece) != bytes(len(piece))  # the quickest way by far


class Damage(NamedTuple):
    """Bytes from `start` to before `end` that are no frames, and the numbers that are missing: `first` to `last`.

    At the end of a file nobody knows what is missing; then `last` is None. `heads`: those of its frames that are whole.
    """

    start: int
    end: int
    first: int
    last: int | None
    heads: tuple[Head, ...] = ()

    @property
    def project_id(self) -> int | None:
        """Of the first one, if its header is whole."""
        return next((head.project_id for head in self.heads if head.sequence == self.first), None)

    @property
    def requests(self) -> Mapping[int, Head]:
        """The headers of requests that are whole, by sequence."""
        return {head.sequence: head for head in self.heads if head.kind == REQUEST}

    def missing(self, expected: int) -> Range:
        """What is missing; at the end of the file all up to the number that is `expected` there. Perhaps nothing."""
        return self.first, expected if self.last is None else self.last


def survey(read: ReadAt, seed: int, start: int, end: int, number: int) -> Iterator[Found | Damage]:
    """The frames of a file whose numbers (`Head.sequence`) ascend one by one after `number`, and its damage.

    A policy has the number of the request behind it. A frame with a number that was there already counts as damage: it
    is a copy of something older. Zeros at the end are none.
    """
    gaps: list[Gap] = []
    for part in scan(read, seed, start, end):
        if isinstance(part, Gap):
            gaps.append(part)
        elif part.head.sequence <= number:
            gaps.append(Gap(part.offset, part.end))
        else:
            if gaps or part.head.sequence > number + 1:
                yield _damage(gaps, part, number + 1)
                gaps = []
            number = part.head.sequence - (part.head.kind == POLICY)
            yield part
    if gaps and not all(gap.zeros for gap in gaps):
        yield Damage(gaps[0].start, gaps[-1].end, number + 1, None, _heads(gaps))


def _damage(gaps: list[Gap], found: Found, expected: int) -> Damage:
    start, end = (gaps[0].start, gaps[-1].end) if gaps else (found.offset, found.offset)
    return Damage(start, end, expected, found.head.sequence - 1, _heads(gaps))


def _heads(gaps: Sequence[Gap]) -> tuple[Head, ...]:
    return tuple(gap.head for gap in gaps if gap.head is not None)
