"""The memory of requests between their first byte and their answer: what does not fit is refused before it is read."""

from types import TracebackType
from typing import Self

from chassis.errors import ServiceUnavailable
from gateway.outcomes import Metrics


class Budget:
    """Bytes and items in flight, with a limit on both. A request that is alone is admitted whatever its size."""

    def __init__(self, max_bytes: int, max_items: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._requests = 0
        self._bytes = 0
        self._items = 0
        metrics.inflight_bytes.set_function(lambda: self._bytes)
        metrics.inflight_items.set_function(lambda: self._items)

    def lease(self) -> "Lease":
        """A share for one request; empty until it is set."""
        return Lease(self)

    def enter(self, entering: int) -> None:
        """A request begins (1) or ends (-1)."""
        self._requests += entering

    def change(self, nbytes: int, items: int) -> None:
        """Add to what is in flight; ServiceUnavailable, and nothing changed, when that is too much."""
        if self._requests > 1 and (
            (nbytes > 0 and self._bytes + nbytes > self._max_bytes)
            or (items > 0 and self._items + items > self._max_items)
        ):
            raise ServiceUnavailable("Too much is in flight; send the request again later.")
        self._bytes += nbytes
        self._items += items


class Lease:
    """One request's share of the budget, given back on leaving the `with` block."""

    __slots__ = ("_budget", "_bytes", "_items")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = 0
        self._items = 0

    def set(self, nbytes: int, items: int = 0) -> None:
        """What the request takes from now on. Raises ServiceUnavailable when the budget has not that much left."""
        self._budget.change(nbytes - self._bytes, items - self._items)
        self._bytes, self._items = nbytes, items

    def __enter__(self) -> Self:
        self._budget.enter(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set(0)
        self._budget.enter(-1)
