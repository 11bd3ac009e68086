"""What is kept of texts that were read: the lines of stack traces, and whole traces, repeat endlessly in a process.

Bounded in bytes. When the newer half is full, it becomes the older one, whose entries are forgotten unless they are
needed before the newer half is full again. What is kept never changes a result, only its cost.
"""

import sys
import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from proto.stack_traces.frames import Line

_ENTRY_BYTES: Final = 512  # of the dictionaries; what the key and the value refer to comes on top

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes what it lacks; for threads. `compute` is pure. Keys are texts and tuples. The value of
    a key is computed each time if both together, with all that they refer to, have over `max_entry_bytes`.
    """

    def __init__(self, compute: Callable[[Key], Value], max_bytes: int, max_entry_bytes: int) -> None:
        super().__init__()
        self._compute = compute
        self._half_bytes = max_bytes // 2
        self._max_entry_bytes = max_entry_bytes
        self._older: dict[Key, Value] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __missing__(self, key: Key) -> Value:
        older = self._older
        value = older[key] if key in older else self._compute(key)
        size = _ENTRY_BYTES + count_bytes((key, value), self._max_entry_bytes)
        if size <= self._max_entry_bytes:
            with self._lock:
                self._keep(key, value, size)
        return value

    def _keep(self, key: Key, value: Value, size: int) -> None:
        if self._bytes + size > self._half_bytes:
            self._older = dict(self)
            self.clear()
            self._bytes = 0
        if key not in self:
            self[key] = value
            self._bytes += size

    def forget(self) -> None:
        """As in a new process."""
        with self._lock:
            self._older = {}
            self.clear()
            self._bytes = 0


def count_bytes(value: object, enough: int) -> int:
    """Bytes of the texts, tuples, lists and lines that it consists of, each of them once; stops at `enough`."""
    seen: set[int] = set()
    rest, size = [value], 0
    while rest and size <= enough:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        if isinstance(one, (tuple, list)):
            rest += one
        elif isinstance(one, Line):
            rest += (one.text, one.frame)
    return size
