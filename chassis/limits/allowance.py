"""How much work source maps may cause, by project: all projects share the threads that build batches."""

import threading
from collections.abc import Callable
from typing import Final

BURST_S: Final = 1.0  # of work at once
REFILL: Final = 0.1  # seconds of work per second
_MAX_PROJECTS: Final = 10_000  # until those that may use everything are forgotten


class Allowance:
    """Seconds of work that each project has left: at most `burst_s`, REFILL more each second. Threads may use it."""

    def __init__(self, burst_s: float, clock: Callable[[], float]) -> None:
        self._burst_s = burst_s
        self._clock = clock
        self._left: dict[int, tuple[float, float]] = {}  # seconds left at a time
        self._lock = threading.Lock()

    def has(self, project_id: int) -> bool:
        """Whether a project may do work now. Its size is often known afterwards, so a project may come to owe some."""
        with self._lock:
            return self._left_now(project_id) > 0

    def use(self, project_id: int, seconds: float) -> None:
        """Count work that was done."""
        with self._lock:
            self._left[project_id] = self._left_now(project_id) - seconds, self._clock()
            if len(self._left) > _MAX_PROJECTS:
                self._left = {one: self._left[one] for one in self._left if self._left_now(one) < self._burst_s}

    def _left_now(self, project_id: int) -> float:
        now = self._clock()
        left, at = self._left.get(project_id, (self._burst_s, now))
        return min(self._burst_s, left + (now - at) * REFILL)
