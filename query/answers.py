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

from chassis.access import reach
from chassis.errors import ServiceUnavailable
from query import metrics
from query.cache import AnswerCache
from query.execution import Execution
from query.metrics import QueryMetrics
from query.question import Made, Question
from query.sending import Parcel, Sending
from query.settings import QuerySettings
from query.turns import Asker, Shares, TooManyWait, Turns

CLOSED_NS: Final = 60 * 10**9  # after its end a window is taken for closed; what arrives later still is late

Make = Callable[[], Awaitable[Made]]


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request runs in a task")
    return task


class _Waiting:
    """A request that waits for its place, or for the execution that another begins of the same question."""

    def __init__(self, request: asyncio.Task[Any], bound: asyncio.Timeout) -> None:
        self.execution: Execution | None = None
        self._request = request
        self._bound = bound

    def join(self, execution: Execution) -> None:
        """It waits for no place any more."""
        execution.enter(self._request)
        self.execution = execution
        if not self._bound.expired():
            self._bound.reschedule(asyncio.get_running_loop().time())


def asker_of(request: web.Request) -> Asker:
    """Whose turn it is: all that a user owns, and what that owns, is he."""
    found = reach(request)
    return Asker(found.org_id, found.root_id or found.principal_id)


class Answers:
    """All answers of a process. `clock` gives nanoseconds since 1970, `min_rate` is `Sending`'s."""

    def __init__(
        self, settings: QuerySettings, counted: QueryMetrics, clock: Callable[[], int], min_rate: int = 0
    ) -> None:
        self._places = Turns(settings.max_answers, Shares.of(settings.max_answers), settings.max_waiting)
        self._max_wait_s = settings.max_wait_s
        self._max_waiting = settings.max_waiting
        self._sending = Sending(
            settings.max_sending_bytes, settings.max_wait_s, settings.max_waiting, settings.stall_s, counted, min_rate
        )
        self._cache = AnswerCache(settings.cache_s, settings.max_cache_bytes)
        self._metrics = counted
        self._clock = clock
        self._running: dict[Question, Execution] = {}
        self._waiting: dict[Question, set[_Waiting]] = {}
        counted.gauge("requests_waiting", "Requests that wait for a place.", lambda: self._places.waiting)
        counted.gauge("requests_running", "Requests that have a place.", lambda: self._places.held)
        counted.gauge("cache_bytes", "Bytes of answers that are kept to be given again.", lambda: self._cache.size)

    async def answer(self, request: web.Request, question: Question, make: Make) -> web.Response:
        """The answer to `question`, which `make` makes where nobody else does. Whoever asks may see it.

        Raises what `make` raises, and ServiceUnavailable.
        """
        asker, task = asker_of(request), _current_task()
        execution = self._found(asker, question)
        if execution is not None:
            self._check_crowd(execution)
            execution.enter(task)
        else:
            execution = await self._in_turn(asker, question, make, task)
        parcel = await execution.answer()
        return parcel.answer(request)

    async def _in_turn(self, asker: Asker, question: Question, make: Make, task: asyncio.Task[Any]) -> Execution:
        """The execution that begins in the first place that comes to anybody who waits for the same."""
        execution = await self._take_place(asker, question, task)
        if execution is None:
            execution = self._begin(asker, question, make)
            execution.enter(task)
        return execution

    def _check_crowd(self, execution: Execution) -> None:
        if execution.requests > self._max_waiting:
            self._metrics.refused(metrics.QUEUE_FULL)
            raise TooManyWait(f"{self._max_waiting} requests wait for this answer already; ask again later.")

    def _found(self, asker: Asker, question: Question) -> Execution | None:
        """One that is under way, or was and is kept."""
        execution = self._running.get(question)
        if execution is not None and execution.requests:
            self._metrics.answered(metrics.COALESCED)
            return execution
        made = self._cache.get(question, time.monotonic())
        if made is None:
            return None
        self._metrics.answered(metrics.CACHE)
        return self._started(question, self._sending.pack(asker, made))

    def _begin(self, asker: Asker, question: Question, make: Make) -> Execution:
        """Make it, in the place that was taken."""
        self._metrics.answered(metrics.ENGINE)
        execution = self._started(question, self._made(asker, question, make))
        execution.task.add_done_callback(lambda _task: self._places.give_back(asker))
        return execution

    def _started(self, question: Question, making: Coroutine[Any, Any, Parcel]) -> Execution:
        execution = self._running[question] = Execution(making)
        execution.task.add_done_callback(lambda _task: self._ended(question, execution))
        for each in self._waiting.pop(question, ()):
            self._metrics.answered(metrics.COALESCED)
            each.join(execution)
        return execution

    def _ended(self, question: Question, execution: Execution) -> None:
        if self._running.get(question) is execution:
            del self._running[question]

    async def _made(self, asker: Asker, question: Question, make: Make) -> Parcel:
        read_at, closed = time.monotonic(), question.to_ns is not None and question.to_ns + CLOSED_NS <= self._clock()
        made = await make()
        if closed:
            self._cache.put(question, made, read_at)
        return await self._sending.pack(asker, made)

    async def _take_place(self, asker: Asker, question: Question, task: asyncio.Task[Any]) -> Execution | None:
        """Take a place, or none: then the execution that somebody began in his.

        Raises ServiceUnavailable when too many wait already, of all or of the asker's, or for too long.
        """
        begin, bound = time.monotonic(), asyncio.timeout(self._max_wait_s)
        waiting = _Waiting(task, bound)
        try:
            async with bound:
                await self._wait_for_place(asker, question, waiting)
        except TooManyWait:
            self._metrics.refused(metrics.QUEUE_FULL)
            raise
        except TimeoutError as error:
            if waiting.execution is None:
                self._metrics.refused(metrics.QUEUE_TIMEOUT)
                raise ServiceUnavailable(
                    f"The request waited {self._max_wait_s:g} seconds for its turn; send fewer at once, or again later."
                ) from error
        else:
            if waiting.execution is not None:  # both came in the same moment
                self._places.give_back(asker)
        finally:
            self._metrics.queue_seconds.observe(time.monotonic() - begin)
        return waiting.execution

    async def _wait_for_place(self, asker: Asker, question: Question, waiting: _Waiting) -> None:
        self._waiting.setdefault(question, set()).add(waiting)
        try:
            await self._places.take(asker)
        finally:
            others = self._waiting.get(question)
            if others is not None:
                others.discard(waiting)
                if not others:
                    del self._waiting[question]
