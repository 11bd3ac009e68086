"""From a request to its response: a slot while the response is built, buffer space while it is sent, and one execution
for all identical requests.

    requester     the user at the root of the ownership chain, in the organization
    identical? in progress, or cached and over a closed window: needs no slot slot one of `max_answers`, acquired in
    fair order; waits for `max_wait_s` -> 503 execution started by the first request that gets a slot; waiting and later
    requests join it send buffer part of `max_sending_bytes`, acquired in fair order; then the slot is released -> 503
    sending in chunks; the buffer space is released when the last client has read everything

ClickHouse's limits only apply during the read. Slots limit the rows and JSON in memory, and the send buffer limits the
responses that slow clients have not read, so that both leave room for other requesters.

`ResultCache` keeps results for seconds. The response of an `Execution` stays in memory until the last request has it.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any, Final, NamedTuple

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.http.access import authorization_context
from chassis.limits.fairness import FairSemaphore, QueueFull, Requester, ShareLimits
from query import metrics
from query.send_buffer import BufferedResponse, JsonResult, SendBuffer
from query.settings import QuerySettings


class QueryKey(NamedTuple):
    """A key that is equal for two requests if their responses have the same bytes, as long as no row is stored in
    between.

    `digest` covers all parameters of the query besides the project, with times resolved: a window relative to now
    changes every second. `to_ns`: the end of the window; None if there is none, and then the result is not cached.
    """

    kind: str
    project_id: int
    digest: bytes
    to_ns: int | None = None

    @classmethod
    def of(cls, kind: str, project_id: int, *parameters: object, to_ns: int | None = None) -> "QueryKey":
        """`parameters`: values whose `repr` shows their complete state, such as frozen structures."""
        return cls(kind, project_id, sha256(repr(parameters).encode("utf-8", "surrogatepass")).digest(), to_ns)


class _Entry(NamedTuple):
    result: JsonResult
    expires_at: float


class ResultCache:
    """At most `max_bytes` of results, each valid for `seconds` from the start of its read; evicts the least recently
    used.

    Times are read from a monotonic clock. A result larger than an eighth of `max_bytes` is not cached.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._entries: OrderedDict[QueryKey, _Entry] = OrderedDict()
        self.size_bytes = 0  # bytes

    def get(self, key: QueryKey, now: float) -> JsonResult | None:
        """Return the cached result, or None if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.expires_at:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.result

    def put(self, key: QueryKey, result: JsonResult, read_at: float) -> None:
        """Cache a result whose read began at `read_at`."""
        if not self._seconds or len(result.body) * 8 > self._max_bytes:
            return
        self._drop(key)
        self._entries[key] = _Entry(result, read_at + self._seconds)
        self.size_bytes += len(result.body)
        while self.size_bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: QueryKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= len(entry.result.body)


class Execution:
    """One run of a query, which starts at once. A request is attached until its task ends: aiohttp has then written the
    response or given up. When no request is attached, the execution is cancelled, or its buffered response is released.
    `requests` is the number of attached requests.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, BufferedResponse]) -> None:
        self.requests = 0
        self.task = asyncio.get_running_loop().create_task(coroutine)
        self.task.add_done_callback(self._on_done)

    def attach(self, request: asyncio.Task[Any]) -> None:
        """Count a request as waiting for the result until its task ends."""
        self.requests += 1
        request.add_done_callback(self._on_request_done)

    async def result(self) -> BufferedResponse:
        """Return the response or raise its exception; cancelling one caller does not affect the others."""
        return await asyncio.shield(self.task)

    def _on_request_done(self, _request: asyncio.Task[Any]) -> None:
        self.requests -= 1
        if self.requests:
            return
        if self.task.done():
            self._release()
        else:
            self.task.cancel()

    def _on_done(self, _task: asyncio.Task[BufferedResponse]) -> None:
        if not self.requests:
            self._release()

    def _release(self) -> None:
        if not self.task.cancelled() and self.task.exception() is None:
            self.task.result().release()


# Time from the end of a window until it counts as closed; items that arrive later are late.
ALLOWED_LATENESS_NS: Final = 60 * 10**9

ResultFactory = Callable[[], Awaitable[JsonResult]]


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request must run in a task")
    return task


class _QueuedRequest:
    """A request that waits for a slot, or for an execution that another request starts with the same key."""

    def __init__(self, request: asyncio.Task[Any], timeout: asyncio.Timeout) -> None:
        self.execution: Execution | None = None
        self._request = request
        self._timeout = timeout

    def join(self, execution: Execution) -> None:
        """Attach to `execution` and stop waiting for a slot."""
        execution.attach(self._request)
        self.execution = execution
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())


def requester_of(request: web.Request) -> Requester:
    """The requester of a request: agents and services count as the user who owns them, directly or indirectly."""
    context = authorization_context(request)
    return Requester(context.org_id, context.owning_user_id or context.principal_id)


class QueryScheduler:
    """Schedules all responses of a process. `clock` returns nanoseconds since 1970; `min_rate` is passed to
    `SendBuffer`."""

    def __init__(
        self, settings: QuerySettings, query_metrics: metrics.QueryMetrics, clock: Callable[[], int], min_rate: int = 0
    ) -> None:
        self._slots = FairSemaphore(settings.max_answers, ShareLimits.of(settings.max_answers), settings.max_waiting)
        self._max_wait_s = settings.max_wait_s
        self._max_waiting = settings.max_waiting
        self._send_buffer = SendBuffer(
            settings.max_sending_bytes,
            settings.max_wait_s,
            settings.max_waiting,
            settings.stall_s,
            query_metrics,
            min_rate,
        )
        self._cache = ResultCache(settings.cache_s, settings.max_cache_bytes)
        self._metrics = query_metrics
        self._clock = clock
        self._running: dict[QueryKey, Execution] = {}
        self._queued: dict[QueryKey, set[_QueuedRequest]] = {}
        query_metrics.register_gauge("requests_waiting", "Requests waiting for a slot.", lambda: self._slots.waiting)
        query_metrics.register_gauge("requests_running", "Requests that hold a slot.", lambda: self._slots.in_use)
        query_metrics.register_gauge(
            "cache_bytes", "Size of the cached responses in bytes.", lambda: self._cache.size_bytes
        )

    async def respond(self, request: web.Request, key: QueryKey, make: ResultFactory) -> web.Response:
        """Return the response to `key`. `make` builds it, unless an identical query is in progress or cached. The
        caller has already authorized the request.

        Raises the errors of `make`, and ServiceUnavailable.
        """
        requester, task = requester_of(request), _current_task()
        execution = self._find_execution(requester, key)
        if execution is not None:
            self._check_join_limit(execution)
            execution.attach(task)
        else:
            execution = await self._join_or_start(requester, key, make, task)
        response = await execution.result()
        return await response.to_response(request)

    async def _join_or_start(
        self, requester: Requester, key: QueryKey, make: ResultFactory, task: asyncio.Task[Any]
    ) -> Execution:
        """The execution that starts in the first slot that any request with this key gets."""
        execution = await self._acquire_slot(requester, key, task)
        if execution is None:
            execution = self._start_in_slot(requester, key, make)
            execution.attach(task)
        return execution

    def _check_join_limit(self, execution: Execution) -> None:
        if execution.requests > self._max_waiting:
            self._metrics.record_refusal(metrics.QUEUE_FULL)
            raise QueueFull(f"The queue is full: {self._max_waiting} requests like this one are waiting. Retry later.")

    def _find_execution(self, requester: Requester, key: QueryKey) -> Execution | None:
        """Return the execution in progress, or a new one that sends a cached result; None if there is neither."""
        execution = self._running.get(key)
        if execution is not None and execution.requests:
            self._metrics.record_response(metrics.COALESCED)
            return execution
        result = self._cache.get(key, time.monotonic())
        if result is None:
            return None
        self._metrics.record_response(metrics.CACHE)
        return self._start_execution(key, self._send_buffer.reserve(requester, result))

    def _start_in_slot(self, requester: Requester, key: QueryKey, make: ResultFactory) -> Execution:
        """Start the execution in the acquired slot, and release the slot when it is done."""
        self._metrics.record_response(metrics.ENGINE)
        execution = self._start_execution(key, self._compute(requester, key, make))
        execution.task.add_done_callback(lambda _task: self._slots.release(requester))
        return execution

    def _start_execution(self, key: QueryKey, coroutine: Coroutine[Any, Any, BufferedResponse]) -> Execution:
        execution = self._running[key] = Execution(coroutine)
        execution.task.add_done_callback(lambda _task: self._on_done(key, execution))
        for each in self._queued.pop(key, ()):
            self._metrics.record_response(metrics.COALESCED)
            each.join(execution)
        return execution

    def _on_done(self, key: QueryKey, execution: Execution) -> None:
        if self._running.get(key) is execution:
            del self._running[key]

    async def _compute(self, requester: Requester, key: QueryKey, make: ResultFactory) -> BufferedResponse:
        read_at, is_closed = (
            time.monotonic(),
            key.to_ns is not None and key.to_ns + ALLOWED_LATENESS_NS <= self._clock(),
        )
        result = await make()
        if is_closed:
            self._cache.put(key, result, read_at)
        return await self._send_buffer.reserve(requester, result)

    async def _acquire_slot(self, requester: Requester, key: QueryKey, task: asyncio.Task[Any]) -> Execution | None:
        """Acquire a slot and return None, or return the execution that another request started.

        Raises ServiceUnavailable if the queue is full, in total or for the requester, or after `max_wait_s`.
        """
        begin, timeout = time.monotonic(), asyncio.timeout(self._max_wait_s)
        queued = _QueuedRequest(task, timeout)
        try:
            async with timeout:
                await self._wait_for_slot(requester, key, queued)
        except QueueFull:
            self._metrics.record_refusal(metrics.QUEUE_FULL)
            raise
        except TimeoutError as error:
            if queued.execution is None:
                self._metrics.record_refusal(metrics.QUEUE_TIMEOUT)
                raise ServiceUnavailable(
                    f"No slot became free within {self._max_wait_s:g} seconds; send fewer concurrent requests, or "
                    "retry later."
                ) from error
        else:
            if queued.execution is not None:  # slot and execution arrived at the same moment
                self._slots.release(requester)
        finally:
            self._metrics.queue_seconds.observe(time.monotonic() - begin)
        return queued.execution

    async def _wait_for_slot(self, requester: Requester, key: QueryKey, queued: _QueuedRequest) -> None:
        self._queued.setdefault(key, set()).add(queued)
        try:
            await self._slots.acquire(requester)
        finally:
            others = self._queued.get(key)
            if others is not None:
                others.discard(queued)
                if not others:
                    del self._queued[key]
