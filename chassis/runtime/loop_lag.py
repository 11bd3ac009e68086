"""Event loop lag: a timer that measures how late it fires.

Everything in a process waits for its event loop; if one callback takes a second, every response takes a second longer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, Histogram

TICK_S: Final = 0.1
WINDOW_S: Final = 15.0  # the maximum covers this window and the last, so a scraper sees any peak younger than WINDOW_S
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LoopLag:
    """Measures while `running`. The clock is the system's: a loop's own may stand still during a callback."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._worst = self._worst_before = 0.0
        self._due = self._window_end = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.seconds = Histogram(
            "sluice_loop_lag_seconds", "Delay of event-loop timers.", buckets=_SECONDS, registry=registry
        )
        worst = Gauge(
            "sluice_loop_lag_worst_seconds",
            f"Longest delay of an event-loop timer in the last {WINDOW_S:g} to {2 * WINDOW_S:g} seconds.",
            registry=registry,
        )
        worst.set_function(lambda: max(self._worst, self._worst_before))

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """A cleanup context: measures while the application runs."""
        self._window_end = self._clock() + WINDOW_S
        self._schedule()
        yield
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._due = self._clock() + TICK_S
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._on_timer)

    def _on_timer(self) -> None:
        now = self._clock()
        lag = max(0.0, now - self._due)
        self.seconds.observe(lag)
        if now >= self._window_end:
            self._window_end = now + WINDOW_S
            self._worst, self._worst_before = 0.0, self._worst
        self._worst = max(self._worst, lag)
        self._schedule()
