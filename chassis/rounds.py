"""Work that is done again and again behind the requests, whatever goes wrong with it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

Kind = tuple[type[Exception], object]


class Complaints:
    """Logs each kind of failure once, until the work succeeds again."""

    def __init__(self, log: structlog.stdlib.BoundLogger, event: str) -> None:
        self._log: Final = log
        self._event: Final = event
        self._told: set[Kind] = set()

    def failed(self, error: Exception) -> None:
        """The work failed; it is tried again."""
        message, code = getattr(error, "message", None), getattr(error, "code", getattr(error, "errno", None))
        kind = type(error), code
        if kind in self._told:
            return
        self._told.add(kind)
        if message is None:
            self._log.warning(self._event, exc_info=error)
        else:  # an error of ours, of a store: where it was raised tells nothing
            self._log.warning(self._event, error=message, code=code)

    def succeeded(self) -> None:
        """From now on a failure is news."""
        self._told.clear()


class Rounds:
    """`work` every `every_s` seconds. What it raises costs a round, and is logged as `failing`."""

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        every_s: float,
        log: structlog.stdlib.BoundLogger,
        failing: str,
        *,
        at_once: bool = False,
        close_s: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """The first round comes after a pause, or `at_once`. One that is under way has `close_s` seconds at `close`."""
        self._work = work
        self._every_s = every_s
        self._complaints = Complaints(log, failing)
        self._at_once = at_once
        self._close_s = close_s
        self._sleep = sleep
        self._working = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    async def close(self) -> None:
        """Stop between two rounds; within one that takes longer than it has."""
        if self._task is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_s), self._working:
                self._task.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _repeat(self) -> None:
        if not self._at_once:
            await self._sleep(self._every_s)
        while True:
            async with self._working:
                await self._round()
            await self._sleep(self._every_s)

    async def _round(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 (whatever it is, there is a next round)
            self._complaints.failed(error)
        else:
            self._complaints.succeeded()
