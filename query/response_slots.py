"""The way of an answer: a place while it is made, room while it is sent, one execution for all who ask the same.

    who asks        the user at the root of what he owns, in his organization
    the same?       asked now, or made seconds ago over a window that is closed: no place is needed
    a place         of `max_answers`, in turns; waits for `max_wait_s`                                        -> 503
    made            by whoever has a place first; the others, who wait for theirs or come later, join it
    room            of `max_sending_bytes`, in turns; then the place is free                                  -> 503
    sent            piece by piece; the room is free when the last client has it all

A read's limits end with the read; places bound the rows and JSON that are in memory, and room what clients are slow to
take, so that neither keeps anybody else from his answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.http.access import authorization_context
from query import metrics
from query.cache import ResultCache
from query.execution import Execution
from query.fair_semaphore import FairSemaphore, QueueFull, Requester, ShareLimits
from query.metrics import QueryMetrics
from query.question import JsonResult, QueryKey
from query.sending import BufferedResponse, SendBuffer
from query.settings import QuerySettings

ALLOWED_LATENESS_NS: Final = 60 * 10**9  # after its end a window is taken for closed; what arrives later still is late

ResultFactory = Callable[[], Awaitable[JsonResult]]


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request runs in a task")
    return task


class _QueuedRequest:
    """A request that waits for its place, or for the execution that another begins of the same question."""

    def __init__(self, request: asyncio.Task[Any], bound: asyncio.Timeout) -> None:
        self.execution: Execution | None = None
        self._request = request
        self._timeout = bound

    def join(self, execution: Execution) -> None:
        """It waits for no place any more."""
        execution.attach(self._request)
        self.execution = execution
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())


def requester_of(request: web.Request) -> Requester:
    """Whose turn it is: all that a user owns, and what that owns, is he."""
    found = authorization_context(request)
    return Requester(found.org_id, found.owning_user_id or found.principal_id)


class QueryScheduler:
    """All answers of a process. `clock` gives nanoseconds since 1970, `min_rate` is `Sending`'s."""

    def __init__(
        self, settings: QuerySettings, query_metrics: QueryMetrics, clock: Callable[[], int], min_rate: int = 0
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
        query_metrics.register_gauge("requests_waiting", "Requests that wait for a place.", lambda: self._slots.waiting)
        query_metrics.register_gauge("requests_running", "Requests that have a place.", lambda: self._slots.in_use)
        query_metrics.register_gauge(
            "cache_bytes", "Bytes of answers that are kept to be given again.", lambda: self._cache.size_bytes
        )

    async def respond(self, request: web.Request, key: QueryKey, make: ResultFactory) -> web.Response:
        """The answer to `question`, which `make` makes where nobody else does. Whoever asks may see it.

        Raises what `make` raises, and ServiceUnavailable.
        """
        asker, task = requester_of(request), _current_task()
        execution = self._find_execution(asker, key)
        if execution is not None:
            self._check_join_limit(execution)
            execution.attach(task)
        else:
            execution = await self._join_or_start(asker, key, make, task)
        parcel = await execution.result()
        return parcel.to_response(request)

    async def _join_or_start(
        self, asker: Requester, question: QueryKey, make: ResultFactory, task: asyncio.Task[Any]
    ) -> Execution:
        """The execution that begins in the first place that comes to anybody who waits for the same."""
        execution = await self._acquire_slot(asker, question, task)
        if execution is None:
            execution = self._start_in_slot(asker, question, make)
            execution.attach(task)
        return execution

    def _check_join_limit(self, execution: Execution) -> None:
        if execution.requests > self._max_waiting:
            self._metrics.record_refusal(metrics.QUEUE_FULL)
            raise QueueFull(f"{self._max_waiting} requests wait for this answer already; ask again later.")

    def _find_execution(self, asker: Requester, question: QueryKey) -> Execution | None:
        """One that is under way, or was and is kept."""
        execution = self._running.get(question)
        if execution is not None and execution.requests:
            self._metrics.record_answer(metrics.COALESCED)
            return execution
        made = self._cache.get(question, time.monotonic())
        if made is None:
            return None
        self._metrics.record_answer(metrics.CACHE)
        return self._start_execution(question, self._send_buffer.reserve(asker, made))

    def _start_in_slot(self, asker: Requester, question: QueryKey, make: ResultFactory) -> Execution:
        """Make it, in the place that was taken."""
        self._metrics.record_answer(metrics.ENGINE)
        execution = self._start_execution(question, self._compute(asker, question, make))
        execution.task.add_done_callback(lambda _task: self._slots.release(asker))
        return execution

    def _start_execution(self, question: QueryKey, making: Coroutine[Any, Any, BufferedResponse]) -> Execution:
        execution = self._running[question] = Execution(making)
        execution.task.add_done_callback(lambda _task: self._on_done(question, execution))
        for each in self._queued.pop(question, ()):
            self._metrics.record_answer(metrics.COALESCED)
            each.join(execution)
        return execution

    def _on_done(self, question: QueryKey, execution: Execution) -> None:
        if self._running.get(question) is execution:
            del self._running[question]

    async def _compute(self, asker: Requester, question: QueryKey, make: ResultFactory) -> BufferedResponse:
        read_at, closed = (
            time.monotonic(),
            question.to_ns is not None and question.to_ns + ALLOWED_LATENESS_NS <= self._clock(),
        )
        made = await make()
        if closed:
            self._cache.put(question, made, read_at)
        return await self._send_buffer.reserve(asker, made)

    async def _acquire_slot(self, asker: Requester, question: QueryKey, task: asyncio.Task[Any]) -> Execution | None:
        """Take a place, or none: then the execution that somebody began in his.

        Raises ServiceUnavailable when too many wait already, of all or of the asker's, or for too long.
        """
        begin, bound = time.monotonic(), asyncio.timeout(self._max_wait_s)
        waiting = _QueuedRequest(task, bound)
        try:
            async with bound:
                await self._wait_for_slot(asker, question, waiting)
        except QueueFull:
            self._metrics.record_refusal(metrics.QUEUE_FULL)
            raise
        except TimeoutError as error:
            if waiting.execution is None:
                self._metrics.record_refusal(metrics.QUEUE_TIMEOUT)
                raise ServiceUnavailable(
                    f"The request waited {self._max_wait_s:g} seconds for its turn; send fewer at once, or again later."
                ) from error
        else:
            if waiting.execution is not None:  # both came in the same moment
                self._slots.release(asker)
        finally:
            self._metrics.queue_seconds.observe(time.monotonic() - begin)
        return waiting.execution

    async def _wait_for_slot(self, asker: Requester, question: QueryKey, waiting: _QueuedRequest) -> None:
        self._queued.setdefault(question, set()).add(waiting)
        try:
            await self._slots.acquire(asker)
        finally:
            others = self._queued.get(question)
            if others is not None:
                others.discard(waiting)
                if not others:
                    del self._queued[question]
