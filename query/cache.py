"""Answers that were made seconds ago and may be given again."""

from collections import OrderedDict
from typing import NamedTuple

from query.question import Made, Question


class _Kept(NamedTuple):
    made: Made
    until: float


class AnswerCache:
    """At most `max_bytes` of answers, each for `seconds` from when its reading began; those used last stay longest.

    Times are those of a clock that only goes forward. An answer larger than an eighth of the whole is not kept.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Question, _Kept] = OrderedDict()
        self.size = 0  # bytes

    def get(self, question: Question, now: float) -> Made | None:
        """The answer, if there is one that is young enough."""
        kept = self._kept.get(question)
        if kept is None:
            return None
        if now >= kept.until:
            self._drop(question)
            return None
        self._kept.move_to_end(question)
        return kept.made

    def put(self, question: Question, made: Made, read_at: float) -> None:
        """Keep an answer whose reading began at `read_at`."""
        if not self._seconds or len(made.body) * 8 > self._max_bytes:
            return
        self._drop(question)
        self._kept[question] = _Kept(made, read_at + self._seconds)
        self.size += len(made.body)
        while self.size > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, question: Question) -> None:
        kept = self._kept.pop(question, None)
        if kept is not None:
            self.size -= len(kept.made.body)
