"""The attribute keys that the roll-up names per project and day: the rules for both decoders (docs/codec.md 5)."""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final

MAX_REMEMBERED_KEYS: Final = 1_000_000  # keys in all


class NamedKeys:
    """Names at most `per_day` keys per project and day, and at most `per_batch` new keys per batch: those in the most
    spans first, then by their bytes. A named key stays named. 0: no limit.

    It evicts the least recently used day when it has more than `most` keys. Thread-safe.
    """

    def __init__(self, per_batch: int, per_day: int, most: int = MAX_REMEMBERED_KEYS) -> None:
        self._per_batch = per_batch
        self._per_day = per_day
        self._max_remembered = most
        self._days: OrderedDict[tuple[int, int], set[bytes]] = OrderedDict()
        self._remembered = 0
        self._lock = Lock()

    def select(self, project_id: int, day: int, spans: Mapping[bytes, int]) -> frozenset[bytes]:
        """The named keys of a batch. `spans`: number of spans per key."""
        if not self._per_batch and not self._per_day:
            return frozenset(spans)
        with self._lock:
            named = self._days.get((project_id, day), set())
            new_keys = sorted((key for key in spans if key not in named), key=lambda key: (-spans[key], key))
            added = new_keys[: self._remaining(len(named))]
            if self._per_day:
                named.update(added)
                self._days[project_id, day] = named
                self._days.move_to_end((project_id, day))
                self._remembered += len(added)
                self._evict()
            return frozenset(named.intersection(spans).union(added))

    def _remaining(self, named_count: int) -> int | None:
        limits = []
        if self._per_batch:
            limits.append(self._per_batch)
        if self._per_day:
            limits.append(max(self._per_day - named_count, 0))
        return min(limits)

    def _evict(self) -> None:
        while self._remembered > self._max_remembered and len(self._days) > 1:
            _, oldest = self._days.popitem(last=False)
            self._remembered -= len(oldest)
