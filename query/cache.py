"""Answers that were made seconds ago and may be given again."""

from collections import OrderedDict
from typing import NamedTuple

from query.question import JsonResult, QueryKey


class _Entry(NamedTuple):
    result: JsonResult
    expires_at: float


class ResultCache:
    """At most `max_bytes` of answers, each for `seconds` from when its reading began; those used last stay longest.

    Times are those of a clock that only goes forward. An answer larger than an eighth of the whole is not kept.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._entries: OrderedDict[QueryKey, _Entry] = OrderedDict()
        self.size_bytes = 0  # bytes

    def get(self, key: QueryKey, now: float) -> JsonResult | None:
        """The answer, if there is one that is young enough."""
        kept = self._entries.get(key)
        if kept is None:
            return None
        if now >= kept.expires_at:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return kept.result

    def put(self, key: QueryKey, result: JsonResult, read_at: float) -> None:
        """Keep an answer whose reading began at `read_at`."""
        if not self._seconds or len(result.body) * 8 > self._max_bytes:
            return
        self._drop(key)
        self._entries[key] = _Entry(result, read_at + self._seconds)
        self.size_bytes += len(result.body)
        while self.size_bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, question: QueryKey) -> None:
        kept = self._entries.pop(question, None)
        if kept is not None:
            self.size_bytes -= len(kept.result.body)
