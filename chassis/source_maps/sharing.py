"""The cache of source maps that projects share."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class _Share(OrderedDict[Hashable, tuple[T, int]]):
    """The entries of a project with their sizes, those that were used last at the end."""

    size = 0


class FairCache(Generic[T]):
    """Values by project and key, of `max_size` together in the caller's unit. Threads may use it."""

    def __init__(self, max_size: int) -> None:
        self._max_size: Final = max_size
        self._size = 0
        self._shares: dict[int, _Share[T]] = {}
        self._lock = threading.Lock()

    def get(self, project_id: int, key: Hashable, missing: T) -> T:
        """The value, or `missing`."""
        with self._lock:
            share = self._shares.get(project_id)
            if share is None or key not in share:
                return missing
            share.move_to_end(key)
            return share[key][0]

    def put(self, project_id: int, key: Hashable, value: T, size: int) -> None:
        """Keep a value, unless it alone makes its project the one with most of a full cache."""
        with self._lock:
            share = self._shares.setdefault(project_id, _Share())
            if key in share:
                self._resize(share, -share.pop(key)[1])
            share[key] = value, size
            self._resize(share, size)
            while self._size > self._max_size:
                largest = max(self._shares, key=lambda one: self._shares[one].size)
                _, (_, freed) = self._shares[largest].popitem(last=False)
                self._resize(self._shares[largest], -freed)
                if not self._shares[largest]:
                    del self._shares[largest]

    def forget(self, project_id: int) -> None:
        """Drop everything of a project."""
        with self._lock:
            share = self._shares.pop(project_id, None)
            self._size -= 0 if share is None else share.size

    def _resize(self, share: "_Share[T]", size: int) -> None:
        share.size += size
        self._size += size
