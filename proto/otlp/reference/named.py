"""Which attribute keys of a project's day the roll-up names: the rules, for both decoders (docs/codec.md 5)."""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final

MAX_REMEMBERED_KEYS: Final = 1_000_000  # keys in all


class NamedKeys:
    """Of every project and day at most `per_day` keys are named, and of one batch at most `per_batch` that were not
    named before: those of most spans, then by their bytes. What is named stays named. 0: no limit.

    It forgets the day that was not met for longest when it remembers more than `most` keys. Any thread may use it.
    """

    def __init__(self, per_batch: int, per_day: int, most: int = MAX_REMEMBERED_KEYS) -> None:
        self._per_batch = per_batch
        self._per_day = per_day
        self._max_remembered = most
        self._days: OrderedDict[tuple[int, int], set[bytes]] = OrderedDict()
        self._remembered = 0
        self._lock = Lock()

    def select(self, project_id: int, day: int, spans: Mapping[bytes, int]) -> frozenset[bytes]:
        """Those keys of a batch that are named; `spans` have them."""
        if not self._per_batch and not self._per_day:
            return frozenset(spans)
        with self._lock:
            named = self._days.get((project_id, day), set())
            fresh = sorted((key for key in spans if key not in named), key=lambda key: (-spans[key], key))
            added = fresh[: self._remaining(len(named))]
            if self._per_day:
                named.update(added)
                self._days[project_id, day] = named
                self._days.move_to_end((project_id, day))
                self._remembered += len(added)
                self._evict()
            return frozenset(named.intersection(spans).union(added))

    def _remaining(self, held: int) -> int | None:
        limits = []
        if self._per_batch:
            limits.append(self._per_batch)
        if self._per_day:
            limits.append(max(self._per_day - held, 0))
        return min(limits)

    def _evict(self) -> None:
        while self._remembered > self._max_remembered and len(self._days) > 1:
            _, oldest = self._days.popitem(last=False)
            self._remembered -= len(oldest)
