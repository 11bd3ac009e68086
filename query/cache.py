"""Caches query results for seconds."""

from collections import OrderedDict
from typing import NamedTuple

from query.query_key import JsonResult, QueryKey


class _Entry(NamedTuple):
    result: JsonResult
    expires_at: float


class ResultCache:
    """At most `max_bytes` of results, each valid for `seconds` from the start of its read; evicts the least recently
    used.

    Times are those of a monotonic clock. A result larger than an eighth of `max_bytes` is not cached.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._entries: OrderedDict[QueryKey, _Entry] = OrderedDict()
        self.size_bytes = 0  # bytes

    def get(self, key: QueryKey, now: float) -> JsonResult | None:
        """Return the cached result, or None if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.expires_at:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.result

    def put(self, key: QueryKey, result: JsonResult, read_at: float) -> None:
        """Cache a result whose read began at `read_at`."""
        if not self._seconds or len(result.body) * 8 > self._max_bytes:
            return
        self._drop(key)
        self._entries[key] = _Entry(result, read_at + self._seconds)
        self.size_bytes += len(result.body)
        while self.size_bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: QueryKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size_bytes -= len(entry.result.body)
