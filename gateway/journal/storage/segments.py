"""Segments: the files with requests. One is being written, the others are only read."""

import contextlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gateway.journal import format as fmt
from gateway.journal.interface import JournaledRequest
from gateway.journal.storage.files import Files, write_all, write_atomic
from proto.otlp.policy import Policy

BLOCK_BYTES: Final = 256 * 2**10
FRESH: Final = 1
SLOW: Final = 2
_SECOND_NS: Final = 10**9


class SegmentBlock(NamedTuple):
    """Requests of a segment that are read together: those with sequences from `first` to `last`, in file order."""

    first: int
    last: int
    start: int  # offsets in the segment
    end: int
    received_s: int  # receive time of the first of them, seconds since 1970
    lanes: int  # FRESH, SLOW or both
    items: int  # accepted items of the requests that were intact when they were indexed


class BlockIndex:
    """The index of one segment. A new block begins after 256 KiB, or with a new second of the receive time."""

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._starts = array("Q")
        self._seconds = array("Q")
        self._lanes = array("B")
        self._items = array("Q")
        self._full_at = -1  # offset at which the next block begins
        self._second = -1

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, sequence: int, offset: int, received_ns: int, items: int, *, slow: bool) -> None:
        """Add the next request of the segment."""
        second = received_ns // _SECOND_NS
        if offset >= self._full_at or second != self._second:
            self._firsts.append(sequence)
            self._starts.append(offset)
            self._seconds.append(second)
            self._lanes.append(0)
            self._items.append(0)
            self._full_at, self._second = offset + BLOCK_BYTES, second
        self._lanes[-1] |= SLOW if slow else FRESH
        self._items[-1] += items

    def find(self, sequence: int) -> int:
        """The number of the block that has a sequence, or would have it."""
        return max(bisect_right(self._firsts, sequence) - 1, 0)

    def get(self, number: int, last: int, end: int) -> SegmentBlock:
        """The block with this number. `last`, `end`: of the segment, for its last block."""
        if number + 1 < len(self._firsts):
            last, end = self._firsts[number + 1] - 1, self._starts[number + 1]
        return SegmentBlock(
            self._firsts[number],
            last,
            self._starts[number],
            end,
            self._seconds[number],
            self._lanes[number],
            self._items[number],
        )


SEGMENT_SUFFIX: Final = ".segment"
_DECLARATIONS: Final = 2  # groups of a segment that declare a policy
_PADDING: Final = tuple(bytes(length) for length in range(8))


class Segment:
    """A segment in memory: its path, its totals and its index."""

    def __init__(self, path: Path, first: int, seed: int) -> None:
        self.path = path
        self.first = first  # the sequence in its name
        self.seed = seed
        self.last = first - 1
        self.last_synced = fmt.MAX_SEQUENCE  # all requests up to this one were on disk once
        self.length = fmt.PAGE  # bytes of the file that are valid
        self.requests = 0
        self.items = 0
        self.lanes = 0
        self.projects: dict[int, int] = {}  # bytes of frames by project
        self.oldest_ns = 0
        self.keep = False
        self.is_sealed = True  # False: it is being written
        self.block_index: BlockIndex | None = None  # None: not indexed since the start
        self.policies: dict[int, Policy] = {}
        self.finished_at: float | None = None  # monotonic time; None while one of its requests is unfinished

    @classmethod
    def from_record(cls, path: Path, seed: int, facts: fmt.SealRecord) -> "Segment":
        """A segment that a ledger describes."""
        segment = cls(path, facts.first, seed)
        segment.restore(facts)
        return segment

    def restore(self, facts: fmt.SealRecord) -> None:
        """Set the totals from a record: of the ledger, or from before a failed write."""
        self.last, self.length = facts.last, facts.length
        self.requests, self.items = facts.requests, facts.items
        self.projects, self.oldest_ns, self.keep = dict(facts.projects), facts.oldest_ns, facts.keep
        self.lanes = (FRESH if facts.fresh else 0) | (SLOW if facts.slow else 0)

    def to_record(self) -> fmt.SealRecord:
        """The current totals as a record."""
        return fmt.SealRecord(
            self.first,
            self.last,
            self.length,
            self.requests,
            self.items,
            dict(self.projects),
            fresh=bool(self.lanes & FRESH),
            slow=bool(self.lanes & SLOW),
            oldest_ns=self.oldest_ns,
            keep=self.keep,
        )

    def add(
        self,
        blocks: BlockIndex,
        sequence: int,
        offset: int,
        request: JournaledRequest | fmt.FrameHeader,
        size: int,
        *,
        slow: bool,
    ) -> None:
        """Count and index a request whose frame of `size` bytes is at `offset`."""
        blocks.add(sequence, offset, request.received_ns, request.accepted, slow=slow)
        self.last = sequence
        self.requests += 1
        self.items += request.accepted
        self.lanes |= SLOW if slow else FRESH
        self.projects[request.project_id] = self.projects.get(request.project_id, 0) + size
        self.oldest_ns = self.oldest_ns or request.received_ns

    def received_ns(self, sequence: int) -> int:
        """Approximate receive time of a request: never later than the real one."""
        if not self.block_index:
            return self.oldest_ns
        return self.block_index.get(self.block_index.find(sequence), self.last, self.length).received_s * 10**9

    def blocks_from(self, first: int) -> Iterator[SegmentBlock]:
        """The blocks with sequences from `first` on, up to the last request at the moment when iteration begins.

        Requests may be written between the steps of a reader: the last block grows, and a new block begins after it. A
        reader that continued with the new block would miss the requests that were added to the previous block
        meanwhile.
        """
        blocks = self.block_index
        if not blocks:
            return
        tail = len(blocks) - 1
        end = blocks.get(tail, self.last, self.length)
        for number in range(blocks.find(first), tail + 1):
            block = end if number == tail else blocks.get(number, self.last, self.length)
            # Requests missing before the first readable one belong to the first block.
            yield block if number else block._replace(first=self.first, start=fmt.PAGE)


def segment_name(first: int) -> str:
    """The file name of the segment that begins with the sequence `first`."""
    return f"{first:020d}{SEGMENT_SUFFIX}"


def parse_segment_name(name: str) -> int | None:
    """The sequence in the name of a segment; None if the file is not a segment."""
    digits = name.removesuffix(SEGMENT_SUFFIX)
    return int(digits) if name.endswith(SEGMENT_SUFFIX) and len(digits) == 20 and digits.isdigit() else None


class Policies:
    """The policies of a segment and their ids. An id is derived from the content, so that a policy has the same id in
    all segments.

    Each policy is declared in the first two groups that use it: groups share no page, so no damage to one page loses
    both declarations.
    """

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[Policy, int]] = {}  # by id(policy), which is fast
        self._payloads: dict[int, bytes] = {}  # by id
        self._declared_in: dict[int, list[int]] = {}  # by id, until declared twice: groups that declare it

    def id_of(self, policy: Policy, group: int) -> tuple[int, bytes | None]:
        """The id of a policy, and its JSON if `group` (its first sequence) must declare it."""
        cached = self._by_identity.get(id(policy))
        if cached is None:
            cached = self._by_identity[id(policy)] = policy, self._register(policy)
        policy_id = cached[1]
        groups = self._declared_in.get(policy_id)
        if groups is None or group in groups:
            return policy_id, None
        groups.append(group)
        if len(groups) == _DECLARATIONS:
            del self._declared_in[policy_id]
        return policy_id, self._payloads[policy_id]

    def _register(self, policy: Policy) -> int:
        policy_id, payload = fmt.pack_policy(policy)
        while self._payloads.get(policy_id, payload) != payload:  # two policies with the same checksum
            policy_id = (policy_id + 1) % 2**32
        if policy_id not in self._payloads:
            self._declared_in[policy_id] = []
        self._payloads[policy_id] = payload
        return policy_id


class PackedGroup(NamedTuple):
    """An encoded group of requests."""

    pieces: list[bytes]
    offsets: list[int]  # of the frames of requests
    end: int
    policies: dict[int, Policy]  # declared in the group


def pack_group(
    requests: Sequence[JournaledRequest], first: int, offset: int, seed: int, policies: Policies
) -> PackedGroup:
    """Encode requests as a group for `offset`; the first request gets the sequence `first`."""
    pieces: list[bytes] = []
    offsets: list[int] = []
    declared: dict[int, Policy] = {}
    for sequence, request in enumerate(requests, first):
        policy_id, payload = policies.id_of(request.policy, first)
        if payload is not None:
            frame = fmt.pack_frame(seed, fmt.POLICY, payload, sequence=sequence, group=first, policy_id=policy_id)
            pieces.append(frame)
            declared[policy_id] = request.policy
            offset += len(frame)
        body = request.body
        pieces += fmt.pack_request_header(seed, request, sequence, first, policy_id), body
        if padding := -len(body) % 8:
            pieces.append(_PADDING[padding])
        offsets.append(offset)
        offset += fmt.frame_size(len(body))
    return PackedGroup(pieces, offsets, offset, declared)


class SegmentWriter:
    """Writes the open segment. After any error, the caller must call `abandon`."""

    def __init__(
        self, files: Files, directory: Path, first: int, salt: bytes, size: int, clock: Callable[[], int]
    ) -> None:
        """Create the segment and allocate `size` bytes; it is on disk when this returns. Raises OSError."""
        path = directory / segment_name(first)
        self.segment = Segment(path, first, fmt.checksum_seed(salt))
        self.segment.is_sealed = False
        self.block_index = self.segment.block_index = BlockIndex()
        self._files = files
        self._policies = Policies()
        header = fmt.FileHeader(fmt.SEGMENT, first, clock(), salt)
        self._capacity = max(size, 2 * fmt.PAGE)
        self._fd = write_atomic(files, path, [fmt.pack_file_header(header)], self._capacity)

    def fits(self, size: int) -> bool:
        """Whether the allocated space has room for `size` more bytes."""
        return self.segment.length + size <= self._capacity

    def append(self, requests: Sequence[JournaledRequest], first: int) -> None:
        """Write a group and sync it. The requests are on disk when this returns, and are counted in `segment`."""
        segment = self.segment
        group = pack_group(requests, first, segment.length, segment.seed, self._policies)
        write_all(self._files, self._fd, group.pieces, segment.length)
        self._files.sync(self._fd)
        segment.policies |= group.policies
        for sequence, (request, offset) in enumerate(zip(requests, group.offsets, strict=True), first):
            size = fmt.frame_size(len(request.body))
            segment.add(self.block_index, sequence, offset, request, size, slow=request.slow)
        segment.length = fmt.align_to_page(group.end)  # set last: before this line, `abandon` cuts the group off

    def seal(self) -> Segment:
        """Close the segment and free the space that it does not use."""
        self.segment.is_sealed = True
        with contextlib.suppress(OSError):  # the file stays longer, with zeros at the end
            self._files.truncate(self._fd, self.segment.length)
        with contextlib.suppress(OSError):
            self._files.close(self._fd)
        return self.segment

    def abandon(self) -> bool:
        """Close the segment and cut off the last group; returns whether the cut is on disk. It uses another descriptor,
        because the old one may report success after a failed sync.
        """
        self.segment.is_sealed = True
        with contextlib.suppress(OSError):
            self._files.close(self._fd)
        return truncate(self._files, self.segment.path, self.segment.length)


def truncate(files: Files, path: Path, length: int) -> bool:
    """Truncate a file to `length` bytes; returns whether the new length is on disk."""
    try:
        fd = files.open(path, write=True)
        try:
            files.truncate(fd, length)
            files.sync(fd)
        finally:
            files.close(fd)
    except OSError:
        return False
    return True


def required_bytes(requests: Sequence[JournaledRequest]) -> int:
    """The maximum size of a group in bytes, without policies."""
    return sum(fmt.frame_size(len(request.body)) for request in requests) + fmt.PAGE
