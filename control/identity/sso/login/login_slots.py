"""Bounds the logins of an organization that wait for its provider: a provider that hangs must not take the connections
of all organizations.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from chassis.errors import RateLimited

MAX_WAITING: Final = 16  # logins of one organization in this process; each has one connection to the provider at a time
RETRY_AFTER_S: Final = 5


class LoginSlots:
    """Counts what waits, by organization."""

    def __init__(self, most: int = MAX_WAITING) -> None:
        self._most = most
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def taken(self, org_id: str) -> Iterator[None]:
        """For the time of a login's requests to the provider. Raises RateLimited."""
        if self._waiting[org_id] >= self._most:
            raise RateLimited("The identity provider is slow: too many logins wait for it. Try again.", RETRY_AFTER_S)
        self._waiting[org_id] += 1
        try:
            yield
        finally:
            self._waiting[org_id] -= 1
            if not self._waiting[org_id]:
                del self._waiting[org_id]
