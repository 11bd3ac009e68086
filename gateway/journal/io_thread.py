"""The thread that works on a journal: it writes what waits in groups, and between them does a step of everything else.

A group is all that came while the last one was being written, so that the sync, which is what takes time, is shared by
as many requests as there are, and a lone request waits for nobody. The results of a group reach the event loop by one
call.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from gateway.journal.core import DiskFull, JournalCore
from gateway.journal.interface import JournaledRequest, OnPersisted
from gateway.journal.storage.segment_index import CooperativeSteps

MAX_GROUP_BYTES: Final = 8 * 2**20  # of requests that are written together; a larger one is alone
TICK_S: Final = 1.0


class PendingAppend(NamedTuple):
    """A request on its way to the disk."""

    request: JournaledRequest
    size: int
    future: "asyncio.Future[int]"
    on_persisted: OnPersisted | None


class CooperativeTask(NamedTuple):
    """Other work: taken in steps. `done` gets its result, if anybody waits for it."""

    steps: CooperativeSteps[Any]
    future: "asyncio.Future[Any] | None" = None


class CommitResult(NamedTuple):
    """What the loop is told of a group: the sequence of the first request, or why all are refused."""

    group: Sequence[PendingAppend]
    first: int
    error: Exception | None = None


class IoThread:
    """`tell_landing` and `tell_released` are called on the loop; `add` and `do` there, too."""

    def __init__(
        self,
        journal: JournalCore,
        log: structlog.stdlib.BoundLogger,
        on_commit: Callable[[CommitResult], None],
        on_released: Callable[[Mapping[int, int]], None],
    ) -> None:
        self._core = journal
        self._log = log
        self._on_commit = on_commit
        self._on_released = on_released
        self._loop: asyncio.AbstractEventLoop | None = None
        self._requests: deque[PendingAppend] = deque()
        self._tasks: deque[CooperativeTask] = deque()
        self._wakeup: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_notified = False
        self._failing = False
        self._closing: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def append(self, waiting: PendingAppend) -> None:
        """Write a request with the next group."""
        self._requests.append(waiting)
        self._notify(waiting.future)

    def submit(self, task: CooperativeTask) -> None:
        """Do something else, in turns with what else there is."""
        self._tasks.append(task)
        self._notify(task.future)

    async def close(self) -> None:
        """Do what is left, then end. Nothing may be added any more."""
        loop = asyncio.get_running_loop()
        self._closing = done = loop.create_future()
        self._notify(done)
        await done
        self._thread.join()

    def _notify(self, done: "asyncio.Future[Any] | None") -> None:
        if done is not None and self._loop is None:
            self._loop = done.get_loop()
        if not self._is_notified:
            self._is_notified = True
            if self._loop is None:
                self._wakeup.put(None)
            else:  # at the end of the loop's turn: all that came in it are one group, and the thread takes the
                self._loop.call_soon(self._wakeup.put, None)  # interpreter's lock from none of them

    def _run(self) -> None:
        next_tick = time.monotonic() + TICK_S
        while self._closing is None or self._requests or self._tasks:
            if not (self._requests or self._tasks):
                self._wait(next_tick - time.monotonic())
            self._is_notified = False  # before looking: who comes now rings again
            if self._requests:
                self._commit()
            if self._tasks:
                self._step(self._tasks.popleft())
            if time.monotonic() >= next_tick:
                self._run_logging_errors(self._core.tick)
                next_tick = time.monotonic() + TICK_S
            if self._loop is not None and (released := self._core.retention.take_released()):
                self._call_on_loop(self._on_released, released)
        self._run_logging_errors(self._core.close)
        self._call_on_loop(_resolve, self._closing, None, None)

    def _wait(self, seconds: float) -> None:
        try:
            self._wakeup.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            pass

    def _commit(self) -> None:
        group = [self._requests.popleft()]
        size = group[0].size
        while self._requests and size + self._requests[0].size <= MAX_GROUP_BYTES:
            group.append(self._requests.popleft())
            size += group[-1].size
        try:
            landing = CommitResult(group, self._core.commit([waiting.request for waiting in group]))
            self._on_io_recovered()
        except OSError as error:
            self._on_io_error(error)
            landing = CommitResult(group, 0, error)
        except Exception as error:  # noqa: BLE001 (whatever it is, the next request is not to suffer for it)
            self._log.exception("the journal failed")
            landing = CommitResult(group, 0, error)
        self._call_on_loop(self._on_commit, landing)

    def _on_io_error(self, error: OSError) -> None:
        """One line in the log, however many requests are refused until it is well again."""
        if not self._failing and not isinstance(error, DiskFull):
            self._failing = True
            self._log.error("the journal cannot be written", error=str(error))

    def _on_io_recovered(self) -> None:
        if self._failing:
            self._failing = False
            self._log.warning("the journal can be written again")

    def _run_logging_errors(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 (as above)
            self._log.exception("the journal failed")

    def _step(self, task: CooperativeTask) -> None:
        try:
            next(task.steps)
        except StopIteration as end:
            self._call_on_loop(_resolve, task.future, end.value, None)
        except Exception as error:  # noqa: BLE001 (it goes to who asked, or into the log)
            if task.future is None:
                self._log.exception("the journal failed")
            self._call_on_loop(_resolve, task.future, None, error)
        else:
            self._tasks.append(task)

    def _call_on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, and nobody waits
            self._log.warning("the event loop ended before the journal")


def _resolve(done: "asyncio.Future[Any] | None", result: Any, error: Exception | None) -> None:
    if done is None or done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
