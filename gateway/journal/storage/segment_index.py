"""Indexes a segment by reading it from end to end: offsets of its requests, their policies, and damage."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from gateway.journal.format import frames as fmt
from gateway.journal.storage.block_index import BlockIndex, SegmentBlock
from gateway.journal.storage.files import Files
from gateway.journal.storage.page_reader import ReadErrorFlag, build_reader
from gateway.journal.storage.scanning import WINDOW_BYTES, Damage, JournalFrame, frames_and_damage
from gateway.journal.storage.segments import Segment

T = TypeVar("T")
CooperativeSteps = Generator[None, None, T]  # work that may be suspended after each step; a step reads about 1 MiB


class IndexResult(NamedTuple):
    """The result of reading a segment."""

    segment: Segment  # described by its frames alone
    last_synced: int  # requests up to this one were on disk once, because a later group exists
    damages: Sequence[Damage]
    unreadable: bool  # the disk failed to read a part of it
    beyond: int = 0  # intact requests above the limit: another segment has their sequences too


def index_segment(files: Files, segment: Segment, length: int | None, limit: int) -> CooperativeSteps[IndexResult]:
    """Read the first `length` bytes of a segment, or all of it. The length of the result is the end of its last frame,
    rounded up to a page.

    Requests with sequences above `limit` are only counted: they belong to another segment. Raises OSError.
    """
    found = Segment(segment.path, segment.first, segment.seed)
    found.block_index = BlockIndex()
    damages: list[Damage] = []
    error_flag = ReadErrorFlag()
    fd = files.open(segment.path)
    try:
        end = min(files.size(fd), length or fmt.MAX_SEQUENCE)
        stepped = synced = beyond = 0
        for part in frames_and_damage(
            build_reader(files, fd, error_flag), segment.seed, fmt.PAGE, end, segment.first - 1
        ):
            if isinstance(part, Damage):
                damages.append(part)
                continue
            _index_frame(found, found.block_index, part, limit)
            synced = part.header.group - 1
            beyond += part.header.kind == fmt.REQUEST and part.header.sequence > limit
            if part.end - stepped >= WINDOW_BYTES:
                stepped = part.end
                yield
    finally:
        files.close(fd)
    found.length = min(fmt.align_to_page(found.length), max(end, fmt.PAGE))
    return IndexResult(found, synced, damages, error_flag.is_set, beyond)


def _index_frame(segment: Segment, blocks: BlockIndex, frame: JournalFrame, limit: int) -> None:
    head = frame.header
    segment.length = frame.end
    if head.kind == fmt.REQUEST and head.sequence <= limit:
        slow = bool(head.flags & fmt.FLAG_SLOW)
        segment.add(blocks, head.sequence, frame.offset, head, head.size, slow=slow)
    elif head.kind == fmt.POLICY and (policy := fmt.read_policy(bytes(frame.payload))) is not None:
        segment.policies[head.policy_id] = policy


def blocks_from(segment: Segment, first: int) -> Iterator[SegmentBlock]:
    """The blocks of a segment with sequences from `first` on, up to what is its last request when iteration begins.

    Requests may be written between the steps of a reader: the last block grows, and a new one begins behind it. A
    reader that continued with the new block would miss what the previous one gained meanwhile.
    """
    blocks = segment.block_index
    if not blocks:
        return
    tail = len(blocks) - 1
    end = blocks.get(tail, segment.last, segment.length)
    for number in range(blocks.find(first), tail + 1):
        block = end if number == tail else blocks.get(number, segment.last, segment.length)
        # Requests missing before the first readable one belong to the first block.
        yield block if number else block._replace(first=segment.first, start=fmt.PAGE)


def run_to_completion(steps: CooperativeSteps[T]) -> T:
    """Run all steps; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
