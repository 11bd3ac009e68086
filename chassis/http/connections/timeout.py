"""A restartable timeout, for what a client must do in a limited time."""

import asyncio
from collections.abc import Callable


class Timeout:
    """A timeout of `seconds` from `start`. It keeps no reference to its owner, which would be a reference cycle."""

    __slots__ = ("_loop", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the timeout is running."""
        return self._timer is not None

    def start(self, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` after `seconds`, unless cancelled before. Must not be pending."""
        self._timer = self._loop.call_later(self._seconds, self._on_timer, on_timeout)

    def cancel(self) -> None:
        """Stop the timeout, if it is running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self, on_timeout: Callable[[], None]) -> None:
        self._timer = None
        on_timeout()
