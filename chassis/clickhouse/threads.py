"""The threads of calls into ClickHouse, all of them started before the first call."""

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
    """`count` threads: as many calls at once.

    A pool starts a thread when a call needs one, and has queued the call when the system refuses the thread (`ulimit
    -u`, the pids limit of a container): the caller is told of an error, and another thread makes the call all the same.
    So none is left to be started then. An idle one costs 15 KB of memory, and nothing else.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=_NAME)
        self._started = False

    def start(self) -> None:
        """Start them, unless they are. Raises StoreMisconfigured where the system refuses one; the next try is anew."""
        if self._started:
            return
        all_here = threading.Barrier(self._count)  # each waits for all, so that none serves two and is counted twice
        try:
            for _ in range(self._count):
                self._pool.submit(all_here.wait)
        except RuntimeError as error:
            all_here.abort()
            self._pool.shutdown(wait=False)
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix=_NAME)
            raise StoreMisconfigured(f"The {self._count} threads for ClickHouse cannot be started: {error}.") from error
        self._started = True

    def run(self, function: Callable[P, T], *args: P.args, **_none: P.kwargs) -> "asyncio.Future[T]":
        """Have a thread call it. Raises StoreMisconfigured as `start` does, and RuntimeError after `close`: then nobody
        calls it.
        """
        self.start()
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def close(self) -> None:
        """Wait for the calls under way; blocks."""
        self._pool.shutdown(wait=True)
        self._started = True  # what comes now is refused by the pool
