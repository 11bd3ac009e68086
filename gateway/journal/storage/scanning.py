"""Reads files of a journal: pages, frames and the invalid bytes between them, the index of a segment.

    build_reader       reads page by page where the disk fails; unreadable pages are zeros, which are no frame
    scan               `JournalFrame`: an intact frame. `InvalidRange`: bytes that are not a frame: damage, or the end
                       of a file that was being written when the process stopped. `docs/journal.md` calls it a gap
    frames_and_damage frames, and `Damage`: missing sequences index_segment offsets of a segment's requests, their
    policies, and damage

Where a frame is expected and missing, the scan searches every multiple of 8 for the next one. A candidate must have a
valid checksum, which is seeded with the salt of the file, so bytes inside a request are not taken for a frame.
"""

import errno
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from gateway.journal.format import (
    FLAG_SLOW,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    MAX_SEQUENCE,
    PAGE,
    POLICY,
    REQUEST,
    FileHeader,
    FrameHeader,
    align_to_page,
    is_payload_intact,
    read_file_header,
    read_frame_header,
    read_policy,
)
from gateway.journal.interface import Range
from gateway.journal.storage.files import Files
from gateway.journal.storage.segments import BlockIndex, Segment

T = TypeVar("T")

WINDOW_BYTES: Final = 2**20  # bytes per read
_ALIGNMENT: Final = 8

ReadAt = Callable[[int, int], bytes]  # size, offset


class JournalFrame(NamedTuple):
    """An intact frame. `payload` may be a view of the read window; copy it to keep it."""

    offset: int
    header: FrameHeader
    payload: memoryview

    @property
    def end(self) -> int:
        """The offset at which the next frame may begin."""
        return self.offset + self.header.size


class InvalidRange(NamedTuple):
    """Bytes from `start` to before `end` that are not a frame. `is_zeros`: all are 0. `header`: the intact header of a
    frame whose payload is damaged.
    """

    start: int
    end: int
    is_zeros: bool = False
    header: FrameHeader | None = None


class _Window:
    """The part of a file that is in memory; it moves as the scan reads."""

    def __init__(self, read: ReadAt, end: int) -> None:
        self._read = read
        self._start = 0
        self._view = memoryview(b"")
        self.end = end

    def read(self, offset: int, size: int) -> memoryview:
        """`size` bytes at `offset`; fewer at the end of the file."""
        size = min(size, self.end - offset)
        if offset < self._start or offset + size > self._start + len(self._view):
            self._view = memoryview(self._read(min(max(size, WINDOW_BYTES), self.end - offset), offset))
            self._start = offset
            if len(self._view) < size:  # the file is shorter than expected
                self.end = offset + len(self._view)
        skip = offset - self._start
        return self._view[skip : skip + size]


def scan(read: ReadAt, seed: int, start: int, end: int) -> Iterator[JournalFrame | InvalidRange]:
    """The frames and invalid ranges of a file from `start` to `end`, in order. `start` must be the beginning of a frame
    or of a page.

    A file that ends within a frame, or has only zeros from some page on, ends with invalid ranges.
    """
    window = _Window(read, end)
    offset = start
    while offset < window.end:
        part = _next_part(window, seed, offset)
        if part is None:
            offset = align_to_page(offset)  # only padding at the end of a group
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
    """The range from `start`, where no frame begins, to the next valid frame header, or to the end."""
    zeros = True
    offset = start
    while offset < window.end:
        piece = bytes(window.read(offset, WINDOW_BYTES))
        if has_nonzero(piece):
            at = _find_header(piece, seed, skip_first=offset == start)
            zeros = zeros and at is not None and not has_nonzero(piece[:at])
            if at is not None:
                return InvalidRange(start, offset + at, is_zeros=zeros)
        # A header may begin within the last bytes of this piece.
        at_end = offset + len(piece) >= window.end
        offset += len(piece) if at_end else len(piece) - FRAME_HEADER_BYTES
    return InvalidRange(start, window.end, is_zeros=zeros)


def _find_header(piece: bytes, seed: int, *, skip_first: bool) -> int | None:
    """The offset of the first valid frame header in `piece`. `skip_first`: offset 0 was checked before."""
    at = piece.find(FRAME_MAGIC, int(skip_first))
    while at >= 0:
        if at % _ALIGNMENT == 0 and read_frame_header(piece, at, seed) is not None:
            return at
        at = piece.find(FRAME_MAGIC, at + 1)
    return None


def has_nonzero(piece: bytes | memoryview) -> bool:
    """Whether any byte is not 0."""
    return bytes(piece) != bytes(len(piece))  # the fastest way by far


class Damage(NamedTuple):
    """Bytes from `start` to before `end` that are not frames, and the sequences that are missing: `first` to `last`.

    At the end of a file the last missing sequence is unknown: `last` is None. `headers`: the intact headers in it.
    """

    start: int
    end: int
    first: int
    last: int | None
    headers: tuple[FrameHeader, ...] = ()

    @property
    def project_id(self) -> int | None:
        """The project of the first missing request, if its header is intact."""
        return next((head.project_id for head in self.headers if head.sequence == self.first), None)

    @property
    def request_headers(self) -> Mapping[int, FrameHeader]:
        """The intact headers of requests, by sequence."""
        return {head.sequence: head for head in self.headers if head.kind == REQUEST}

    def missing(self, expected: int) -> Range:
        """The missing sequences, at the end of a file up to `expected`. May be empty (last < first)."""
        return self.first, expected if self.last is None else self.last


def frames_and_damage(read: ReadAt, seed: int, start: int, end: int, number: int) -> Iterator[JournalFrame | Damage]:
    """The frames of a file, whose sequences (`FrameHeader.sequence`) ascend one by one after `number`, and its damage.

    A policy has the sequence of the request that follows it. A frame with a sequence that has occurred already counts
    as damage: it is a copy of older data. Zeros at the end do not count as damage.
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


def _build_damage(gaps: list[InvalidRange], frame: JournalFrame, expected: int) -> Damage:
    start, end = (gaps[0].start, gaps[-1].end) if gaps else (frame.offset, frame.offset)
    return Damage(start, end, expected, frame.header.sequence - 1, _intact_headers(gaps))


def _intact_headers(gaps: Sequence[InvalidRange]) -> tuple[FrameHeader, ...]:
    return tuple(gap.header for gap in gaps if gap.header is not None)


# Read errors of a device, or of a file system with checksums.
_READ_ERRNOS: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})


class ReadErrorFlag:
    """Set when a page was unreadable."""

    def __init__(self) -> None:
        self.is_set = False


def build_reader(files: Files, fd: int, error_flag: ReadErrorFlag | None = None) -> ReadAt:
    """A function that reads from a file. Unreadable pages (`_READ_ERRNOS`) are zeros and set `error_flag`; it raises
    other OSErrors.
    """

    def read(size: int, offset: int) -> bytes:
        try:
            return _read_full(files, fd, size, offset)
        except OSError as error:
            if error.errno not in _READ_ERRNOS:
                raise
        if error_flag is not None:
            error_flag.is_set = True
        return _read_by_page(files, fd, size, offset)

    return read


def load_file_header(files: Files, fd: int) -> FileHeader | None:
    """The header of a file of any version; None if it is damaged."""
    return read_file_header(build_reader(files, fd)(PAGE, 0))


def read_header(files: Files, path: Path) -> FileHeader | None:
    """The header of the file at `path`; None if it is damaged. Raises FileNotFoundError, OSError."""
    with files.opened(path) as fd:
        return load_file_header(files, fd)


def read_json(files: Files, path: Path, kind: type[T]) -> T | None:
    """The content of a JSON file; None if it does not exist or is invalid. Raises OSError."""
    try:
        with files.opened(path) as fd:
            return msgspec.json.decode(build_reader(files, fd)(files.size(fd), 0), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _read_full(files: Files, fd: int, size: int, offset: int) -> bytes:
    """Exactly `size` bytes, fewer only at the end of the file."""
    pieces = []
    while size and (piece := files.read(fd, size, offset)):
        pieces.append(piece)
        size -= len(piece)
        offset += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_by_page(files: Files, fd: int, size: int, offset: int) -> bytes:
    pieces = []
    end = min(offset + size, files.size(fd))
    while offset < end:
        part = min(align_to_page(offset + 1), end) - offset
        try:
            pieces.append(_read_full(files, fd, part, offset))
        except OSError:
            pieces.append(bytes(part))
        offset += part
    return b"".join(pieces)


CooperativeSteps = Generator[None, None, T]  # work that may be suspended after each step; a step reads about 1 MiB


class IndexResult(NamedTuple):
    """The result of reading a segment."""

    segment: Segment  # described by its frames alone
    last_synced: int  # requests up to this sequence were on disk once, because a later group exists
    damages: Sequence[Damage]
    unreadable: bool  # the disk failed to read a part of it
    beyond: int = 0  # intact requests above the limit: their sequences are in another segment too


def index_segment(files: Files, segment: Segment, length: int | None, limit: int) -> CooperativeSteps[IndexResult]:
    """Read the first `length` bytes of a segment, or all of it. The length of the result is the end of its last frame,
    rounded up to a page.

    Requests with sequences above `limit` are only counted: they belong to another segment. Raises OSError.
    """
    found = Segment(segment.path, segment.first, segment.seed)
    found.block_index = BlockIndex()
    damages: list[Damage] = []
    error_flag = ReadErrorFlag()
    with files.opened(segment.path) as fd:
        end = min(files.size(fd), length or MAX_SEQUENCE)
        stepped = synced = beyond = 0
        for part in frames_and_damage(build_reader(files, fd, error_flag), segment.seed, PAGE, end, segment.first - 1):
            if isinstance(part, Damage):
                damages.append(part)
                continue
            _index_frame(found, found.block_index, part, limit)
            synced = part.header.group - 1
            beyond += part.header.kind == REQUEST and part.header.sequence > limit
            if part.end - stepped >= WINDOW_BYTES:
                stepped = part.end
                yield
    found.length = min(align_to_page(found.length), max(end, PAGE))
    return IndexResult(found, synced, damages, error_flag.is_set, beyond)


def _index_frame(segment: Segment, blocks: BlockIndex, frame: JournalFrame, limit: int) -> None:
    head = frame.header
    segment.length = frame.end
    if head.kind == REQUEST and head.sequence <= limit:
        slow = bool(head.flags & FLAG_SLOW)
        segment.add(blocks, head.sequence, frame.offset, head, head.size, slow=slow)
    elif head.kind == POLICY and (policy := read_policy(bytes(frame.payload))) is not None:
        segment.policies[head.policy_id] = policy


def run_to_completion(steps: CooperativeSteps[T]) -> T:
    """Run all steps; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
