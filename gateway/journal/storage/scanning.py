"""The frames of a file, and what lies between them.

    Found    a frame, whole
    Gap      bytes that are no frame: damaged ones, or the end of a file that was being written when the process stopped

Where a frame should be and is none, the next one is looked for at every multiple of 8. What looks like one has to have
the right checksums, which begin with the salt of the file: nothing inside a request does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.journal.format.frames import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    POLICY,
    REQUEST,
    FrameHeader,
    align_to_page,
    is_payload_intact,
    read_frame_header,
)
from gateway.journal.interface import Range

WINDOW_BYTES: Final = 2**20  # bytes that are read at once
_ALIGNMENT: Final = 8

ReadAt = Callable[[int, int], bytes]  # size, offset


class JournalFrame(NamedTuple):
    """A whole frame. `payload` may be a view of a window, to be copied by who keeps it."""

    offset: int
    header: FrameHeader
    payload: memoryview

    @property
    def end(self) -> int:
        """Where the next frame may be."""
        return self.offset + self.header.size


class InvalidRange(NamedTuple):
    """Bytes from `start` to before `end` that are no frames. `zeros`: all are 0. `head`: whose payload it was."""

    start: int
    end: int
    is_zeros: bool = False
    header: FrameHeader | None = None


class _Window:
    """Part of a file in memory."""

    def __init__(self, read: ReadAt, end: int) -> None:
        self._read = read
        self._start = 0
        self._view = memoryview(b"")
        self.end = end

    def read(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` on, fewer at the end of the file."""
        size = min(size, self.end - offset)
        if offset < self._start or offset + size > self._start + len(self._view):
            self._view = memoryview(self._read(min(max(size, WINDOW_BYTES), self.end - offset), offset))
            self._start = offset
            if len(self._view) < size:  # the file is shorter than it was thought to be
                self.end = offset + len(self._view)
        skip = offset - self._start
        return self._view[skip : skip + size]


def scan(read: ReadAt, seed: int, start: int, end: int) -> Iterator[JournalFrame | InvalidRange]:
    """What is in a file from `start` to `end`, in order; `start` must be where a frame begins, or a page.

    A file that ends in the middle of a frame, or is zeros from some page on, ends with gaps.
    """
    window = _Window(read, end)
    offset = start
    while offset < window.end:
        part = _next_part(window, seed, offset)
        if part is None:
            offset = align_to_page(offset)  # nothing but the padding behind a group
        else:
            yield part
            offset = part.end


def _next_part(window: _Window, seed: int, offset: int) -> JournalFrame | InvalidRange | None:
    head = read_frame_header(window.read(offset, FRAME_HEADER_BYTES), 0, seed)
    if head is not None:
        return _read_frame(window, offset, head) or InvalidRange(
            offset, min(offset + head.size, window.end), header=head
        )
    boundary = min(align_to_page(offset), window.end)
    if boundary > offset and not has_nonzero(window.read(offset, boundary - offset)):
        return None
    return _find_invalid_range(window, seed, offset)


def _read_frame(window: _Window, offset: int, head: FrameHeader) -> JournalFrame | None:
    frame = window.read(offset, head.size)
    if len(frame) < head.size or not is_payload_intact(frame, 0, head):
        return None
    return JournalFrame(offset, head, frame[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + head.length])


def _find_invalid_range(window: _Window, seed: int, start: int) -> InvalidRange:
    """What reaches from `start`, where no frame is, to the next header of one, or to the end."""
    zeros = True
    offset = start
    while offset < window.end:
        piece = bytes(window.read(offset, WINDOW_BYTES))
        if has_nonzero(piece):
            at = _find_header(piece, seed, skip_first=offset == start)
            zeros = zeros and at is not None and not has_nonzero(piece[:at])
            if at is not None:
                return InvalidRange(start, offset + at, is_zeros=zeros)
        # A header may begin in the last bytes of this piece.
        at_end = offset + len(piece) >= window.end
        offset += len(piece) if at_end else len(piece) - FRAME_HEADER_BYTES
    return InvalidRange(start, window.end, is_zeros=zeros)


def _find_header(piece: bytes, seed: int, *, skip_first: bool) -> int | None:
    """Where in `piece` the first header of a frame is; not at its very first byte when it is tried already."""
    at = piece.find(FRAME_MAGIC, int(skip_first))
    while at >= 0:
        if at % _ALIGNMENT == 0 and read_frame_header(piece, at, seed) is not None:
            return at
        at = piece.find(FRAME_MAGIC, at + 1)
    return None


def has_nonzero(piece: bytes | memoryview) -> bool:
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
    headers: tuple[FrameHeader, ...] = ()

    @property
    def project_id(self) -> int | None:
        """Of the first one, if its header is whole."""
        return next((head.project_id for head in self.headers if head.sequence == self.first), None)

    @property
    def request_headers(self) -> Mapping[int, FrameHeader]:
        """The headers of requests that are whole, by sequence."""
        return {head.sequence: head for head in self.headers if head.kind == REQUEST}

    def missing(self, expected: int) -> Range:
        """What is missing; at the end of the file all up to the number that is `expected` there. Perhaps nothing."""
        return self.first, expected if self.last is None else self.last


def frames_and_damage(read: ReadAt, seed: int, start: int, end: int, number: int) -> Iterator[JournalFrame | Damage]:
    """The frames of a file whose numbers (`Head.sequence`) ascend one by one after `number`, and its damage.

    A policy has the number of the request behind it. A frame with a number that was there already counts as damage: it
    is a copy of something older. Zeros at the end are none.
    """
    gaps: list[InvalidRange] = []
    for part in scan(read, seed, start, end):
        if isinstance(part, InvalidRange):
            gaps.append(part)
        elif part.header.sequence <= number:
            gaps.append(InvalidRange(part.offset, part.end))
        else:
            if gaps or part.header.sequence > number + 1:
                yield _build_damage(gaps, part, number + 1)
                gaps = []
            number = part.header.sequence - (part.header.kind == POLICY)
            yield part
    if gaps and not all(gap.is_zeros for gap in gaps):
        yield Damage(gaps[0].start, gaps[-1].end, number + 1, None, _intact_headers(gaps))


def _build_damage(gaps: list[InvalidRange], found: JournalFrame, expected: int) -> Damage:
    start, end = (gaps[0].start, gaps[-1].end) if gaps else (found.offset, found.offset)
    return Damage(start, end, expected, found.header.sequence - 1, _intact_headers(gaps))


def _intact_headers(gaps: Sequence[InvalidRange]) -> tuple[FrameHeader, ...]:
    return tuple(gap.header for gap in gaps if gap.header is not None)
