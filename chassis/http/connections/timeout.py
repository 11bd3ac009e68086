"""What a client has a limited time for."""

import asyncio
from collections.abc import Callable


class Timeout:
    """`seconds` from when it is set. It keeps nothing of its owner, which would be a cycle for the collector."""

    __slots__ = ("_loop", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is set."""
        return self._timer is not None

    def start(self, on_timeout: Callable[[], None]) -> None:
        """Call `missed` unless it is forgotten in time. It is not pending."""
        self._timer = self._loop.call_later(self._seconds, self._on_timer, on_timeout)

    def cancel(self) -> None:
        """It was met, or no longer matters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self, on_timeout: Callable[[], None]) -> None:
        self._timer = None
        on_timeout()
