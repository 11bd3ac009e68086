"""Retries work that cannot be done now, so that no acknowledged request waits for the next start of the process."""

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import Final, Protocol

import structlog

from chassis.clickhouse import StoreError

PAUSE_S: Final = 15.0
DEFERRED_EVENT: Final = "storing acknowledged requests failed; retrying"


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
        try:
            await work(again=False)
        except Exception as error:  # noqa: BLE001 (whatever it is, the work is retried)
            self.log_failure(error)
        else:
            return
        await self.defer(work)  # outside of the handler: the traceback of an error holds what it was about

    async def defer(self, work: RetryableWork) -> None:
        """Retry `work`, whose failure is logged; returns when it is done or deferred to the background. Raises
        nothing. Call it where no exception is being handled.
        """
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
            try:
                return await work(again=True)
            except Exception as error:  # noqa: BLE001 (as above)
                self.log_failure(error)

    def log_failure(self, error: Exception) -> None:
        """Log why work has failed that is going to be retried."""
        if isinstance(error, StoreError):  # expected, so without a traceback
            self._log.warning(DEFERRED_EVENT, pause_s=PAUSE_S, error=error.message, code=error.code)
        else:
            self._log.error(DEFERRED_EVENT, pause_s=PAUSE_S, exc_info=error)
