"""The threads for calls to ClickHouse, which are all started before the first call."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from chassis.clickhouse.errors import StoreMisconfigured

P = ParamSpec("P")
T = TypeVar("T")

_NAME: Final = "clickhouse"


class PrestartedExecutor:
    """A pool of `count` threads, for as many concurrent calls.

    A ThreadPoolExecutor starts a thread when a call needs one. If the system denies the thread (`ulimit -u`, the pids
    limit of a container), the call is already queued: the caller gets an error, but another thread makes the call. So
    all threads are started in advance. An idle thread costs only 15 KB of memory.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=_NAME)
        self._started = False

    def start(self) -> None:
        """Start all threads. Idempotent. Raises StoreMisconfigured when the system denies a thread. A later call
        retries.
        """
        if self._started:
            return
        # Each call waits for all others, so that no thread runs two of them.
        all_started = threading.Barrier(self._count)
        try:
            for _ in range(self._count):
                self._pool.submit(all_started.wait)
        except RuntimeError as error:
            all_started.abort()
            self._pool.shutdown(wait=False)
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix=_NAME)
            raise StoreMisconfigured(f"The {self._count} threads for ClickHouse cannot be started: {error}.") from error
        self._started = True

    def run(self, function: Callable[P, T], *args: P.args, **_none: P.kwargs) -> "asyncio.Future[T]":
        """Call the function in a thread. Raises StoreMisconfigured as `start` does, and RuntimeError after `close`. In
        both cases the function is not called.
        """
        self.start()
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        """Wait for pending calls. Blocks."""
        self._pool.shutdown(wait=True)
        self._started = True  # later calls are rejected by the pool
