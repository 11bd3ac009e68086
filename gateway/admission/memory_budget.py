"""The memory budget of requests between their first byte and their response. Requests that do not fit are refused
before they are read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from chassis.errors import ServiceUnavailable
from gateway.admission.fair_share import FairShare
from gateway.metrics import Metrics

_READING: Final = -1  # instead of a project id: holder of the temporary memory of parsing


class MemoryBudget:
    """Bytes and items in flight, with a limit on both that projects share (`FairShare`): one project alone can fill
    half of it, which leaves room for the others. A request that is alone is admitted whatever its size.
    """

    def __init__(self, max_bytes: int, max_items: int, metrics: Metrics) -> None:
        self._requests = 0
        self._bytes: FairShare[int] = FairShare(max_bytes)
        self._items: FairShare[int] = FairShare(max_items)
        metrics.inflight_bytes.set_function(lambda: self._bytes.taken)
        metrics.inflight_items.set_function(lambda: self._items.taken)

    def lease(self, project_id: int) -> "Lease":
        """A lease for one request of a project; empty until `Lease.set`."""
        return Lease(self, project_id)

    def track(self, delta: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._requests += delta

    def change(self, project_id: int, nbytes: int, items: int) -> None:
        """Add to the bytes and items in flight. Raises ServiceUnavailable, and changes nothing, when that exceeds the
        limit or the share of the project.
        """
        alone = self._requests == 1
        if not alone and not (self._bytes.permits(project_id, nbytes) and self._items.permits(project_id, items)):
            raise ServiceUnavailable("Too much data is in flight; retry later.")
        self._bytes.change(project_id, nbytes)
        if items:
            self._items.change(project_id, items)


class Lease:
    """The part of the budget that one request holds, released on leaving the `with` block."""

    __slots__ = ("_budget", "_bytes", "_items", "_project_id")

    def __init__(self, budget: MemoryBudget, project_id: int) -> None:
        self._budget = budget
        self._project_id = project_id
        self._bytes = 0
        self._items = 0

    def set(self, nbytes: int, items: int = 0) -> None:
        """Set what the request holds from now on. Raises ServiceUnavailable when the budget has too little left."""
        more, more_items = nbytes - self._bytes, items - self._items
        if more or more_items:
            self._budget.change(self._project_id, more, more_items)
            self._bytes, self._items = nbytes, items

    @contextmanager
    def reading(self, nbytes: int) -> Iterator[None]:
        """Hold `nbytes` of temporary memory while a body is parsed. Raises ServiceUnavailable when too little is left.

        It counts for no project's share: large bodies of all projects are parsed one at a time, so each may take all
        that is left.
        """
        self._budget.change(_READING, nbytes, 0)
        try:
            yield
        finally:
            self._budget.change(_READING, -nbytes, 0)

    def __enter__(self) -> Self:
        self._budget.track(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set(0)
        self._budget.track(-1)
