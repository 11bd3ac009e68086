"""Periodic background work, which is repeated whether it fails or not, and the cancellation of background tasks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from aiohttp import web


async def cancel_tasks(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel the tasks that were started (None: not started), and wait until each has ended, even with an error."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


FIRST_RUN_DELAY_S: Final = 0.0  # of tasks that run immediately; tests raise it so that such tasks do not run

FailureKey = tuple[type[Exception], object]


class LoggedFailure(Exception):
    """A failure with a message, which a `FailureLog` logs once for each `code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class FailureLog:
    """Logs each kind of failure once, until the work succeeds again."""

    def __init__(self, log: structlog.stdlib.BoundLogger, event: str) -> None:
        self._log: Final = log
        self._event: Final = event
        self._logged: set[FailureKey] = set()

    def failed(self, error: Exception) -> None:
        """Log the failure of a run, unless its kind was logged since the last success."""
        message, code = getattr(error, "message", None), getattr(error, "code", getattr(error, "errno", None))
        kind = type(error), code
        if kind in self._logged:
            return
        self._logged.add(kind)
        if message is None:
            self._log.warning(self._event, exc_info=error)
        else:  # an error of a store, whose message is enough without the traceback
            self._log.warning(self._event, error=message, code=code)

    def succeeded(self) -> None:
        """Record that a run succeeded, so that the next failure of any kind is logged."""
        self._logged.clear()


class PeriodicTask:
    """Runs `work` every `interval_s` seconds. An exception ends only the current run, and is logged as
    `failure_event`.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        interval_s: float,
        log: structlog.stdlib.BoundLogger,
        failure_event: str,
        *,
        run_immediately: bool = False,
        close_timeout_s: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """The first run starts after one interval, or immediately with `run_immediately`. At `close`, a run in progress
        may take `close_timeout_s` seconds to finish.
        """
        self._work = work
        self._interval_s = interval_s
        self._failures = FailureLog(log, failure_event)
        self._run_immediately = run_immediately
        self._close_timeout_s = close_timeout_s
        self._sleep = sleep
        self._run_lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self.start()
        yield
        await self.close()

    def start(self) -> None:
        """Start the task. Needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop between two runs. A run in progress is cancelled after `close_timeout_s` seconds."""
        if self._task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_timeout_s), self._run_lock:
                self._task.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        if not self._run_immediately:
            await self._sleep(self._interval_s)
        elif FIRST_RUN_DELAY_S:
            await asyncio.sleep(FIRST_RUN_DELAY_S)
        while True:
            async with self._run_lock:
                await self._run_once()
            await self._sleep(self._interval_s)

    async def _run_once(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 (the next run must follow after any error)
            self._failures.failed(error)
        else:
            self._failures.succeeded()
