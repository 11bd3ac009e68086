"""The I/O thread of a journal: writes queued requests in groups (`IoThread._commit`), and runs one step of other work
between groups (`IoThread._step`).

A group has all requests that were queued while the previous group was being written. They share one sync, which takes
most of the time, and a single request does not wait for more requests. The results of a group reach the event loop in
one call.
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
from gateway.journal.storage.scanning import CooperativeSteps

MAX_GROUP_BYTES: Final = 8 * 2**20  # of requests that are written together; a larger request is written alone
TICK_S: Final = 1.0  # seconds between calls of `JournalCore.tick`


class PendingAppend(NamedTuple):
    """A request that waits to be written. `future` gets its sequence."""

    request: JournaledRequest
    size: int
    future: "asyncio.Future[int]"
    on_persisted: OnPersisted | None


class CooperativeTask(NamedTuple):
    """Other work, run step by step. `future` gets its result or its exception; None: nothing waits for it."""

    steps: CooperativeSteps[Any]
    future: "asyncio.Future[Any] | None" = None


class CommitResult(NamedTuple):
    """The result of a group: the sequence of its first request, or the error for which all are refused."""

    group: Sequence[PendingAppend]
    first: int
    error: Exception | None = None


class IoThread:
    """`append` and `submit` are called on the event loop; so are the callbacks `on_commit` and `on_released`."""

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
        """Start the thread."""
        self._thread.start()

    def append(self, pending: PendingAppend) -> None:
        """Queue a request for the next group."""
        self._requests.append(pending)
        self._notify(pending.future)

    def submit(self, task: CooperativeTask) -> None:
        """Queue other work; the queued tasks run in turns, one step each."""
        self._tasks.append(task)
        self._notify(task.future)

    async def close(self) -> None:
        """Finish the queued work, close the journal and join the thread. Nothing may be queued after this call."""
        loop = asyncio.get_running_loop()
        self._closing = future = loop.create_future()
        self._notify(future)
        await future
        self._thread.join()

    def _notify(self, future: "asyncio.Future[Any] | None") -> None:
        if future is not None and self._loop is None:
            self._loop = future.get_loop()
        if not self._is_notified:
            self._is_notified = True
            if self._loop is None:
                self._wakeup.put(None)
            else:  # at the end of this loop iteration: its requests form one group, and the thread does
                self._loop.call_soon(self._wakeup.put, None)  # not take the GIL between them

    def _run(self) -> None:
        next_tick = time.monotonic() + TICK_S
        while self._closing is None or self._requests or self._tasks:
            if not (self._requests or self._tasks):
                self._wait(next_tick - time.monotonic())
            self._is_notified = False  # before checking the queues: requests from now on notify again
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
            result = CommitResult(group, self._core.commit([pending.request for pending in group]))
            self._on_io_recovered()
        except OSError as error:
            self._on_io_error(error)
            result = CommitResult(group, 0, error)
        except Exception as error:  # noqa: BLE001 (no error of one group may stop the thread)
            self._log.exception("unexpected journal error")
            result = CommitResult(group, 0, error)
        self._call_on_loop(self._on_commit, result)

    def _on_io_error(self, error: OSError) -> None:
        """Log once per outage, not once per refused request. DiskFull is not logged here."""
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
            self._log.exception("unexpected journal error")

    def _step(self, task: CooperativeTask) -> None:
        try:
            next(task.steps)
        except StopIteration as end:
            self._call_on_loop(_resolve, task.future, end.value, None)
        except Exception as error:  # noqa: BLE001 (passed to the caller, or logged)
            if task.future is None:
                self._log.exception("unexpected journal error")
            self._call_on_loop(_resolve, task.future, None, error)
        else:
            self._tasks.append(task)

    def _call_on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, so nothing waits for the result
            self._log.warning("the event loop stopped before the journal was closed")


def _resolve(future: "asyncio.Future[Any] | None", result: Any, error: Exception | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
