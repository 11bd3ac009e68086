"""The threads for calls into ClickHouse, all of them started before the first call."""

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
    """`count` threads: as many concurrent calls.

    A ThreadPoolExecutor starts a thread when a call needs one, and has already queued the call when the system denies
    the thread (`ulimit -u`, the pids limit of a container): the caller gets an error, and another thread makes the call
    nevertheless. So all threads are started in advance. An idle one costs 15 KB of memory, and nothing else.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=_NAME)
        self._started = False

    def start(self) -> None:
        """Start all threads; idempotent. Raises StoreMisconfigured when the system denies one; a later call retries."""
        if self._started:
            return
        all_started = threading.Barrier(self._count)  # each waits for all, so that no thread runs two of these calls
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
        """Call the function in a thread. Raises StoreMisconfigured as `start` does, and RuntimeError after `close`; the
        function is then not called.
        """
        self.start()
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        """Wait for pending calls; blocks."""
        self._pool.shutdown(wait=True)
        self._started = True  # later calls are rejected by the pool
