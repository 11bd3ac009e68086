"""How much of something each holder may use, in any unit: some at once, and some more each second."""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

MAX_HOLDERS: Final = 10_000  # remembered; the one that used something longest ago is forgotten first
K = TypeVar("K", bound=Hashable)


class Allowance(Generic[K]):
    """What each holder has left: at most `burst`, `per_s` more each second. Threads may use it."""

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._left: dict[K, tuple[float, float]] = {}  # what was left, at a time
        self._lock = threading.Lock()

    def has(self, holder: K) -> bool:
        """Whether the holder may use something now. How much is often known afterwards, so a holder may come to owe."""
        with self._lock:
            return self._left_now(holder) > 0

    def use(self, holder: K, amount: float) -> None:
        """Count what was used."""
        with self._lock:
            left = self._left_now(holder) - amount
            self._left.pop(holder, None)
            self._left[holder] = left, self._clock()
            if len(self._left) > MAX_HOLDERS:
                del self._left[next(iter(self._left))]

    def _left_now(self, holder: K) -> float:
        now = self._clock()
        left, at = self._left.get(holder, (self._burst, now))
        return min(self._burst, left + (now - at) * self._per_s)
