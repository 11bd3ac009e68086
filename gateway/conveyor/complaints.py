"""Failures of work that is repeated for ever: told once, not with every repetition."""

from typing import Final

import structlog

Kind = tuple[type[Exception], object]


class Complaints:
    """Logs each kind of failure once, until the work succeeds again."""

    def __init__(self, log: structlog.stdlib.BoundLogger, event: str) -> None:
        self._log: Final = log
        self._event: Final = event
        self._told: set[Kind] = set()

    def failed(self, error: Exception) -> None:
        """The work failed; it is tried again."""
        kind = type(error), getattr(error, "errno", None)
        if kind not in self._told:
            self._told.add(kind)
            self._log.warning(self._event, exc_info=error)

    def succeeded(self) -> None:
        """From now on a failure is news."""
        self._told.clear()
