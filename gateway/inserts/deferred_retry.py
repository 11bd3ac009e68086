"""What cannot be done now is tried again later: nothing that was acknowledged waits for the next start."""

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import Final, Protocol

import structlog

from chassis.clickhouse import StoreError

PAUSE_S: Final = 15.0
DEFERRED_EVENT: Final = "something acknowledged cannot be stored now; it is tried again"


class RetryableWork(Protocol):
    """`again`: it was tried before, and some of it may be done."""

    def __call__(self, *, again: bool) -> Awaitable[None]: ...


class DeferredRetry:
    """Work that failed: `aside`, each in a task of its own, where waiting takes no memory; else its caller waits."""

    def __init__(self, log: structlog.stdlib.BoundLogger, *, in_background: bool) -> None:
        self._log = log
        self._in_background = in_background
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How much of it there is."""
        return len(self._tasks)

    async def attempt(self, work: RetryableWork) -> None:
        """Returns when it is done, or put off; raises nothing."""
        if await self._succeeds(work, again=False):
            return
        if not self._in_background:
            await self._until_done(work)
            return
        task = asyncio.get_running_loop().create_task(self._until_done(work), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Leave it to the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until_done(self, work: RetryableWork) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            if await self._succeeds(work, again=True):
                return

    async def _succeeds(self, work: RetryableWork, *, again: bool) -> bool:
        try:
            await work(again=again)
        except StoreError as error:  # nothing is wrong here
            self._log.warning(DEFERRED_EVENT, pause_s=PAUSE_S, error=error.message, code=error.code)
        except Exception:  # noqa: BLE001 (whatever it is, it is tried again)
            self._log.exception(DEFERRED_EVENT, pause_s=PAUSE_S)
        else:
            return True
        return False
