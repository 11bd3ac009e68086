"""A segment read from end to end: where its requests are, what they are decoded with, and what of it is damaged."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from gateway.journal.format import frames as fmt
from gateway.journal.storage.block_index import BlockIndex, SegmentBlock
from gateway.journal.storage.files import Files
from gateway.journal.storage.page_reader import ReadErrorFlag, build_reader
from gateway.journal.storage.scanning import WINDOW_BYTES, Damage, JournalFrame, frames_and_damage
from gateway.journal.storage.segments import Segment

T = TypeVar("T")
CooperativeSteps = Generator[None, None, T]  # work that may be laid aside at every step; a step reads about a megabyte


class IndexResult(NamedTuple):
    """What was found in a segment."""

    segment: Segment  # as its frames tell
    last_synced: int  # requests up to this one were on disk once, for another group came after them
    damages: Sequence[Damage]
    unreadable: bool  # the disk did not give all of it


def index_segment(files: Files, segment: Segment, length: int | None, limit: int) -> CooperativeSteps[IndexResult]:
    """Read a segment: its first `length` bytes, or all of it. The length that is found is that of its frames.

    Requests with sequences over `limit` are passed over: another segment has those.
    """
    found = Segment(segment.path, segment.first, segment.seed)
    found.block_index = BlockIndex()
    damages: list[Damage] = []
    unreadable = ReadErrorFlag()
    fd = files.open(segment.path)
    try:
        end = min(files.size(fd), length or fmt.MAX_SEQUENCE)
        stepped = synced = 0
        for part in frames_and_damage(
            build_reader(files, fd, unreadable), segment.seed, fmt.PAGE, end, segment.first - 1
        ):
            if isinstance(part, Damage):
                damages.append(part)
                continue
            _index_frame(found, found.block_index, part, limit)
            synced = part.header.group - 1
            if part.end - stepped >= WINDOW_BYTES:
                stepped = part.end
                yield
    finally:
        files.close(fd)
    found.length = min(fmt.align_to_page(found.length), max(end, fmt.PAGE))
    return IndexResult(found, synced, damages, unreadable.is_set)


def _index_frame(segment: Segment, blocks: BlockIndex, found: JournalFrame, limit: int) -> None:
    head = found.header
    segment.length = found.end
    if head.kind == fmt.REQUEST and head.sequence <= limit:
        slow = bool(head.flags & fmt.FLAG_SLOW)
        segment.add(blocks, head.sequence, found.offset, head, head.size, slow=slow)
    elif head.kind == fmt.POLICY and (policy := fmt.read_policy(bytes(found.payload))) is not None:
        segment.policies[head.policy_id] = policy


def blocks_from(segment: Segment, first: int) -> Iterator[SegmentBlock]:
    """The blocks of a segment that have sequences from `first` on, up to its last request when the first is taken.

    Between the steps of a reader others write: the last block grows, and another begins behind it. Who went on with
    that one would pass over what the block before it got meanwhile.
    """
    blocks = segment.block_index
    if not blocks:
        return
    tail = len(blocks) - 1
    end = blocks.get(tail, segment.last, segment.length)
    for number in range(blocks.find(first), tail + 1):
        block = end if number == tail else blocks.get(number, segment.last, segment.length)
        # What is missing before the first request that could be read belongs to its block.
        yield block if number else block._replace(first=segment.first, start=fmt.PAGE)


def run_to_completion(steps: CooperativeSteps[T]) -> T:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
