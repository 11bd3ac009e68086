"""Retries work that cannot be done now, so that no acknowledged request waits for the next start of the process."""

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import Final, Protocol

import structlog

from chassis.clickhouse import StoreError

PAUSE_S: Final = 15.0
DEFERRED_EVENT: Final = "something acknowledged cannot be stored now; it is tried again"


class RetryableWork(Protocol):
    """Work that may be repeated. `again`: it was tried before, and a part of it may be done."""

    def __call__(self, *, again: bool) -> Awaitable[None]: ...


class DeferredRetry:
    """Retries failed work every PAUSE_S: `in_background` each in a task of its own, where waiting takes no memory; else
    while the caller waits.
    """

    def __init__(self, log: structlog.stdlib.BoundLogger, *, in_background: bool) -> None:
        self._log = log
        self._in_background = in_background
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many pieces of work wait for a retry in the background."""
        return len(self._tasks)

    async def attempt(self, work: RetryableWork) -> None:
        """Do `work`; returns when it is done or deferred to the background. Raises nothing."""
        if await self._succeeds(work, again=False):
            return
        if not self._in_background:
            await self._until_done(work)
            return
        task = asyncio.get_running_loop().create_task(self._until_done(work), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel deferred work; the next start does it."""
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
        except StoreError as error:  # expected, so without a traceback
            self._log.warning(DEFERRED_EVENT, pause_s=PAUSE_S, error=error.message, code=error.code)
        except Exception:  # noqa: BLE001 (whatever it is, the work is retried)
            self._log.exception(DEFERRED_EVENT, pause_s=PAUSE_S)
        else:
            return True
        return False
