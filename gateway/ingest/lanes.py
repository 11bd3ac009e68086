"""`Lane` groups requests into batches. A batch is dispatched when it is full or has lingered, and an insert slot is
free. While all slots are busy the queue grows, so that a slow ClickHouse gets larger blocks instead of more blocks.

`Ingest` is the interface of the durability modes. They differ in where a decoded request is when it is answered:

    journal   on disk, with others in one sync; stored in ClickHouse afterwards (`gateway.ingest.journaled`)
    store     rows in ClickHouse (`gateway.ingest.synchronous`)
    memory    in a bounded queue, which is lost when the process ends (`gateway.ingest.journaled`, without a journal)
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Final, NamedTuple, Protocol

from chassis.runtime.health import Dependency
from chassis.runtime.periodic import cancel_tasks
from gateway.inserts.pending_requests import PendingRequest
from gateway.journal import JournaledRequest
from gateway.settings import GatewaySettings
from proto.otlp.policy import NANOS_PER_DAY, DecodedPayload


class AcceptedRequest(NamedTuple):
    """A request with at least one accepted item: as received, its columns, and the length of its body on the wire."""

    request: JournaledRequest
    decoded: DecodedPayload
    wire_bytes: int


class Ingest(Protocol):
    """Accepts requests, with the promise of its durability mode. `admit` and `submit` raise ApiError if they refuse a
    request."""

    @property
    def needs_raw_body(self) -> bool:
        """Whether `submit` needs the body as received."""

    def admit(self) -> None:
        """Raise ServiceUnavailable, before the body is read, while no request can be accepted."""

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns when the promise of a 200 holds."""

    def dependencies(self) -> Sequence[Dependency]:
        """The dependencies that `/readyz` probes."""

    async def start(self) -> None:
        """Start to store accepted requests. Raises StartupError."""

    async def close(self) -> None:
        """Store as many requests as possible in time; afterwards every request is answered."""


class BatchQueue:
    """Requests that wait for a batch. Projects share the bytes of a batch: the next request belongs to the project with
    the fewest bytes in the batch (on a tie, the project served longest ago), so that no project waits for the whole
    queue of another project.
    """

    def __init__(self) -> None:
        self._projects: OrderedDict[int, OrderedDict[PendingRequest, None]] = OrderedDict()
        self.items = 0
        self.nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._projects)

    def add(self, request: PendingRequest) -> None:
        """Queue a request behind the other requests of its project."""
        self._projects.setdefault(request.decoded.project_id, OrderedDict())[request] = None
        self._count(request, 1)

    def discard(self, request: PendingRequest) -> None:
        """Remove a request, unless it is already in a batch."""
        queue = self._projects.get(request.decoded.project_id)
        if queue is None or request not in queue:
            return
        del queue[request]
        self._count(request, -1)
        if not queue:
            del self._projects[request.decoded.project_id]

    def take(self, items: int, nbytes: int, days: int) -> list[PendingRequest]:
        """Take the requests of one batch, until it reaches `items`, `nbytes` or `days` or the queue is empty. Requests
        are not split, so the last one may exceed the limits.
        """
        batch: list[PendingRequest] = []
        rest = self.items - items, self.nbytes - nbytes
        batch_days: set[int] = set()
        turns = [(0, turn, project) for turn, project in enumerate(self._projects)]
        while turns and self.items > rest[0] and self.nbytes > rest[1] and len(batch_days) < days:
            share, turn, project = turns[0]
            queue = self._projects[project]
            request, _ = queue.popitem(last=False)
            if queue:
                self._projects.move_to_end(project)
                heapq.heapreplace(turns, (share + request.decoded.nbytes, turn, project))
            else:
                del self._projects[project]
                heapq.heappop(turns)
            self._count(request, -1)
            batch.append(request)
            batch_days.update(request.decoded.days)
        return batch

    def _count(self, request: PendingRequest, sign: int) -> None:
        self.items += sign * request.decoded.accepted
        self.nbytes += sign * request.decoded.nbytes


MIN_LINGER_FRACTION: Final = 0.05  # of the linger


class LaneLimits(NamedTuple):
    """When a batch is full, how long it waits for more requests, and how many batches are inserted at once."""

    items: int
    nbytes: int
    days: int
    linger_s: float
    slots: int

    @classmethod
    def of(cls, settings: GatewaySettings, linger_s: float) -> "LaneLimits":
        """The limits of the ordinary lane."""
        return cls(settings.batch_rows, settings.batch_bytes, settings.max_days, linger_s, settings.max_batches)


class Lane:
    """Queues requests and writes them in batches, with insert slots of its own. `write` must not raise. When `write`
    has returned or was cancelled, `on_written` is called with the batch.
    """

    def __init__(
        self,
        write: Callable[[list[PendingRequest]], Coroutine[None, None, None]],
        limits: LaneLimits,
        on_written: Callable[[list[PendingRequest]], None] = lambda _batch: None,
    ) -> None:
        self._write = write
        self._after_write = on_written
        self._limits = limits
        self._queue = BatchQueue()
        self._linger_timer: asyncio.TimerHandle | None = None
        self._due = False  # the queued requests have waited long enough
        self._dispatched_at = float("-inf")  # when the last batch was dispatched, by the loop's clock
        self._last_duration_s = 0.0  # of writing the last batch
        self._writing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def writing(self) -> int:
        """Batches being inserted."""
        return len(self._writing)

    def expected_wait_s(self) -> float:
        """Seconds that a request received now is likely to wait until it is stored, by the duration of the last batch.
        0 while the lane is empty: the next insert may be faster.
        """
        if not self._writing and not self._queue:
            return 0.0
        slot_wait_s = self._limits.linger_s
        if len(self._writing) >= self._limits.slots:
            slot_wait_s = max(0.0, self._dispatched_at + self._last_duration_s - asyncio.get_running_loop().time())
        return slot_wait_s + self._last_duration_s

    def add(self, request: PendingRequest) -> None:
        """Queue a request, and dispatch a batch if one is due."""
        self._queue.add(request)
        self._dispatch()

    def discard(self, request: PendingRequest) -> None:
        """Remove a request that is answered: its memory is no longer reserved, and after a 503 its client sends it
        again.
        """
        self._queue.discard(request)
        if not self._queue:
            self._due = False  # the next request begins a new batch

    async def drain(self) -> None:
        """Write all queued requests, without lingering."""
        while self._queue or self._writing:
            self._flush_due()
            if self._writing:  # empty if all queued requests were abandoned
                await asyncio.wait(self._writing)

    async def close(self) -> None:
        """Cancel the batches being written, and write no more."""
        self._closed = True
        self._cancel_linger()
        await cancel_tasks(*self._writing)

    def _is_full(self) -> bool:
        return self._queue.items >= self._limits.items or self._queue.nbytes >= self._limits.nbytes

    def _wait_s(self) -> float:
        """Seconds that a new batch waits. Batches are dispatched at least one linger apart, so that there are few
        blocks. After a pause a batch waits only for requests that were sent at the same time.
        """
        linger = self._limits.linger_s
        return max(linger * MIN_LINGER_FRACTION, linger - (asyncio.get_running_loop().time() - self._dispatched_at))

    def _flush_due(self) -> None:
        self._cancel_linger()
        self._due = True
        self._dispatch()

    def _dispatch(self) -> None:
        """Write batches while one is due and a slot is free; for the rest of the queue, start the linger timer."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        while len(self._writing) < self._limits.slots and self._queue and (self._due or self._is_full()):
            batch = self._queue.take(self._limits.items, self._limits.nbytes, self._limits.days)
            self._dispatched_at = loop.time()
            waiting = [request for request in batch if not request.is_abandoned]
            if waiting:
                task = loop.create_task(self._write(waiting), context=Context())  # belongs to no single request
                self._writing.add(task)
                task.add_done_callback(partial(self._on_written, waiting, loop.time()))
        if not self._queue:
            self._due = False  # the next request begins a new batch
            self._cancel_linger()
        elif not self._due and self._linger_timer is None:
            self._linger_timer = loop.call_later(self._wait_s(), self._flush_due)

    def _cancel_linger(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _on_written(self, batch: list[PendingRequest], started: float, task: "asyncio.Task[None]") -> None:
        self._writing.discard(task)
        if not task.cancelled():
            self._last_duration_s = asyncio.get_running_loop().time() - started
        self._after_write(batch)
        self._dispatch()


class SlowLaneRule:
    """Matches requests with an item of a day that ended at least `after_days` ago, or with at least `after_symbols`
    distinct keys and names (docs/adr/004-slow-lane.md). 0 disables either. `clock` gives nanoseconds since 1970.
    """

    def __init__(self, after_days: int, after_symbols: int, clock: Callable[[], int]) -> None:
        self._after_days = after_days
        self._after_symbols = after_symbols
        self._clock = clock

    def matches(self, decoded: DecodedPayload) -> bool:
        """Whether the request, with all of its items, takes the slow lane."""
        if 0 < self._after_symbols <= decoded.symbols:
            return True
        days = self._after_days
        return days > 0 and decoded.days[0] < self._clock() // NANOS_PER_DAY - days
