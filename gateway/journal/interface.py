"""What a journal takes and gives: requests, places in it, batches, and the interface that its users are written to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from chassis.errors import StartupError
from proto.otlp.policy import Policy, Signal
from proto.otlp.responses import Media

MIB: Final = 2**20

TableDay = tuple[str, int]  # table, and day since 1970-01-01
Range = tuple[int, int]  # first and last sequence, both in it
OnPersisted = Callable[[int], None]  # told the sequence of a request once it is on disk


class JournaledRequest(NamedTuple):
    """An export request as it came on the wire, and what it is to be decoded with."""

    project_id: int
    signal: Signal
    media: Media
    encoding: str  # of the body: identity, gzip, deflate, zstd
    received_ns: int
    accepted: int  # items that its sender was, or is about to be, told are taken
    policy: Policy
    body: bytes
    slow: bool = False  # it takes the slow lane


class Entry(NamedTuple):
    """A request and its place. Sequences ascend from 1 and are never used twice in a journal."""

    sequence: int
    request: JournaledRequest


class Batch(NamedTuple):
    """Requests that are stored together, under tokens made of `batch_id`."""

    batch_id: int
    made_ms: int
    ranges: tuple[Range, ...]  # ascending, apart from each other
    skip: frozenset[TableDay] = frozenset()  # places that are stored already, under another batch
    rows: Mapping[TableDay, int] | None = None  # once it is finished


class DamagedRequests(NamedTuple):
    """A request that cannot be read any more and is not stored, as its header tells; or some, one behind the other, of
    which no header can be read.

    The items of these are known when the requests were whole when this process wrote them, or read their segment; of
    several such ranges that are found in a quarter of a megabyte the first one has all. They are not known where a
    request in there without a header is stored, or was lost before; nor of what was damaged at the start.
    """

    first: int
    last: int
    items: int = 0  # accepted ones; 0 also where that is not known
    signal: Signal | None = None


class RecoveredState(NamedTuple):
    """What an earlier process left."""

    unfinished: Sequence[Batch] = ()  # begun, and perhaps stored
    retained: Sequence[Batch] = ()  # finished, and their requests are still there
    clean: bool = True  # it ended in order, and what is held was still stored then
    last_unbatched: int = 0  # the last request that is in no batch; 0: there is none


class JournalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes; 0 of `max_bytes` and `min_free_bytes` is no limit, of `quarantine_days` for ever."""

    segment_bytes: int = 64 * MIB
    max_bytes: int = 16 * 2**10 * MIB
    min_free_bytes: int = 2**10 * MIB
    hold_s: float = 600.0
    quarantine_days: int = 30


class JournalLocked(StartupError):
    """Another process has this journal."""


class JournalLike(Protocol):
    """A journal as those see it who put requests in and store them. All but `open` are called on the event loop."""

    @property
    def durable(self) -> bool:
        """Whether what it has taken outlives the process."""

    @property
    def last_sequence(self) -> int:
        """The last sequence that is on disk; 0 when there is none."""

    def open(self) -> RecoveredState:
        """Begin, with what an earlier process left. Blocks. Raises StartupError."""

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Take a request; on disk when it returns, and its sequence.

        `landed` is called with the sequence on the event loop, in the order of sequences, also when nobody waits for
        the result any more. Raises ServiceUnavailable when it is not taken; then `read` never gives it either.
        """

    async def begin(self, batch: Batch) -> None:
        """Record the boundaries of a batch; on disk when it returns. `read` does not offer its requests from now on.

        Raises ServiceUnavailable when they could not be recorded. The batch may be begun again, or be finished all the
        same.
        """

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """A batch is stored, so many rows in each place. On disk with the next sync, within about a second."""

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """In one step a batch is gone and its parts are begun; one of them may keep its id.

        Raises ServiceUnavailable when that could not be recorded. It is split all the same, and on disk as that with
        the next record that is; it may be split again into the same parts until it is, or its user goes on with these:
        after a crash before then it is whole again, and what was stored of the parts is stored twice.
        """

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Put the requests of a begun batch into quarantine; on disk, and the batch finished, when it returns.

        How many are in quarantine now: those that cannot be read are not, and are told by `damaged`. Raises
        ServiceUnavailable; then it may be set aside again.
        """

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:
        """Requests on disk behind the sequence `after` that are in no batch, in order: so many bytes, but at least one
        if there is any. `slow`: only of this lane. Up to the last one it gives it leaves none out, though requests are
        written while it reads.
        """

    async def read_batch(self, batch: Batch) -> list[Entry]:
        """The requests of a batch, in order. One that cannot be read any more is missing."""

    def retained_batches(self) -> Sequence[Batch]:
        """Batches that are finished and whose requests are still there."""

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Requests that were found to be damaged since this was last asked, and are not stored. `read` and `members` do
        not give them, and a batch does not have them any more; one that had no others is finished.
        """

    def pause_retention(self, *, on: bool) -> None:
        """While on, nothing that is finished is removed for its age, nor stops being held: nobody can check now whether
        it is still stored. It may be removed for want of room. A journal starts with it on.
        """

    async def close(self) -> None:
        """Take nothing more, finish what is being written and end in order."""
