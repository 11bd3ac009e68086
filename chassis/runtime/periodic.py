"""Work that is done again and again behind the requests, whatever goes wrong with it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

FailureKey = tuple[type[Exception], object]


class FailureLog:
    """Logs each kind of failure once, until the work succeeds again."""

    def __init__(self, log: structlog.stdlib.BoundLogger, event: str) -> None:
        self._log: Final = log
        self._event: Final = event
        self._logged: set[FailureKey] = set()

    def failed(self, error: Exception) -> None:
        """The work failed; it is tried again."""
        message, code = getattr(error, "message", None), getattr(error, "code", getattr(error, "errno", None))
        kind = type(error), code
        if kind in self._logged:
            return
        self._logged.add(kind)
        if message is None:
            self._log.warning(self._event, exc_info=error)
        else:  # an error of ours, of a store: where it was raised tells nothing
            self._log.warning(self._event, error=message, code=code)

    def succeeded(self) -> None:
        """From now on a failure is news."""
        self._logged.clear()


class PeriodicTask:
    """`work` every `every_s` seconds. What it raises costs a round, and is logged as `failing`."""

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
        """The first round comes after a pause, or `at_once`. One that is under way has `close_s` seconds at `close`."""
        self._work = work
        self._interval_s = interval_s
        self._failures = FailureLog(log, failure_event)
        self._run_immediately = run_immediately
        self._close_timeout_s = close_timeout_s
        self._sleep = sleep
        self._run_lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop between two rounds; within one that takes longer than it has."""
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
        while True:
            async with self._run_lock:
                await self._run_once()
            await self._sleep(self._interval_s)

    async def _run_once(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 (whatever it is, there is a next round)
            self._failures.failed(error)
        else:
            self._failures.succeeded()
