"""Budgets of a project: memory of requests in flight (`MemoryBudget`), and large resources and scopes of a day
(`LargeResourceBudget`).

Requests that do not fit into memory are refused before they are read.

Resources and scopes are dictionary entries, and a merge holds the dictionaries of all parts that it reads: 4.6 bytes of
memory for each byte, and up to 8 192 entries a part (docs/adr/016-engine-memory.md). A normal fleet has a few large
resources that recur, or many small ones. If one day has many distinct large resources, ClickHouse cannot merge its
parts within the memory of the engine, and if parts are not merged, ClickHouse finally refuses the inserts of all
projects. So a project has an allowance for each day of its items: the total size of its distinct large resources and
scopes, of which only the bytes above SMALL_BYTES count. A request that would exceed the allowance is stored with at
most SMALL_BYTES of each resource and scope: attributes that do not fit are dropped and counted. Each process counts
separately, and starts from zero.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

import msgspec

from chassis.errors import ServiceUnavailable
from chassis.limits.fairness import FairShare
from gateway.metrics import Metrics
from proto.otlp.policy import Policy

_READING: Final = -1  # instead of a project id: holder of the temporary memory of parsing


class MemoryBudget:
    """Bytes and items in flight, with a limit on each that projects share (`FairShare`): one project alone can fill
    half of the limit, so that other projects have room. If no other request is in flight, a request of any size is
    admitted.
    """

    def __init__(self, max_bytes: int, max_items: int, metrics: Metrics) -> None:
        self._requests = 0
        self._bytes: FairShare[int] = FairShare(max_bytes)
        self._items: FairShare[int] = FairShare(max_items)
        metrics.inflight_bytes.set_function(lambda: self._bytes.taken)
        metrics.inflight_items.set_function(lambda: self._items.taken)

    def reserve(self, project_id: int) -> "MemoryReservation":
        """The reservation of one request of a project; empty until `MemoryReservation.set` is called."""
        return MemoryReservation(self, project_id)

    def track(self, delta: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._requests += delta

    def change(self, project_id: int, nbytes: int, items: int) -> None:
        """Add to the bytes and items in flight. Raises ServiceUnavailable, and changes nothing, when the sum exceeds
        the limit or the share of the project.
        """
        alone = self._requests == 1
        if not alone and not (self._bytes.permits(project_id, nbytes) and self._items.permits(project_id, items)):
            raise ServiceUnavailable("Too much data is in flight; retry later.")
        self._bytes.change(project_id, nbytes)
        if items:
            self._items.change(project_id, items)


class MemoryReservation:
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

        The memory does not count towards any project's share: large bodies of all projects are parsed one at a time, so
        each may take all the memory that is left.
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


SMALL_BYTES: Final = 2**11
MIN_CHARGE_BYTES: Final = 2**12  # the least that a resource above SMALL_BYTES counts: tracking it costs memory as well
# Of all projects and days; beyond this number the least recently used entry is evicted, and starts from zero.
MAX_TRACKED: Final = 2**18

_ProjectDay = tuple[int, int]  # project id, day since 1970-01-01


class LargeResourceBudget:
    """Tracks the large resources and scopes of each project and day. `bytes_per_day`: allowance of a project; 0: no
    limit.
    """

    def __init__(self, bytes_per_day: int) -> None:
        self._bytes_per_day = bytes_per_day
        self._tracked = 0
        self._charged: OrderedDict[_ProjectDay, set[int]] = OrderedDict()
        self._remaining_bytes: dict[_ProjectDay, int] = {}

    def admit(self, project_id: int, days: Sequence[int], sizes: Mapping[int, int]) -> bool:
        """Whether the resources and scopes in `sizes` (bytes by hash, each above SMALL_BYTES) may be stored unabridged;
        if so, they are charged to each of `days` that does not have them yet.
        """
        if not sizes or not self._bytes_per_day:
            return True
        charges = {hashed: max(size - SMALL_BYTES, MIN_CHARGE_BYTES) for hashed, size in sizes.items()}
        new = {(project_id, day): self._new_charges(charges, (project_id, day)) for day in days}
        if any(
            sum(of_day.values()) > self._remaining_bytes.get(day, self._bytes_per_day) for day, of_day in new.items()
        ):
            return False
        for day, of_day in new.items():
            self._charge(day, of_day)
        self._evict_oldest()
        return True

    def _new_charges(self, charges: Mapping[int, int], project_day: _ProjectDay) -> dict[int, int]:
        known = self._charged.get(project_day, ())
        return {hashed: charge for hashed, charge in charges.items() if hashed not in known}

    def _charge(self, project_day: _ProjectDay, new: Mapping[int, int]) -> None:
        self._charged.setdefault(project_day, set()).update(new)
        self._charged.move_to_end(project_day)
        self._remaining_bytes[project_day] = self._remaining_bytes.get(project_day, self._bytes_per_day) - sum(
            new.values()
        )
        self._tracked += len(new)

    def _evict_oldest(self) -> None:
        while self._tracked > MAX_TRACKED:
            project_day, charged = self._charged.popitem(last=False)
            del self._remaining_bytes[project_day]
            self._tracked -= len(charged)


@lru_cache(1_024)
def with_small_resource_limits(policy: Policy) -> Policy:
    """`policy` with at most SMALL_BYTES of a resource and a scope, for a request that exceeds the allowance."""
    return msgspec.structs.replace(
        policy,
        max_resource_bytes=min(policy.max_resource_bytes or SMALL_BYTES, SMALL_BYTES),
        max_scope_bytes=min(policy.max_scope_bytes or SMALL_BYTES, SMALL_BYTES),
    )
