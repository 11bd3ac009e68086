"""What is kept of texts that were read: the lines of stack traces, and whole traces, repeat endlessly in a process.

Bounded in bytes. When the newer half is full, it becomes the older one, whose entries are forgotten unless they are
needed before the newer half is full again. What is kept never changes a result, only its cost.
"""

import sys
import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_ENTRY_BYTES: Final = 512  # of tuples and the dictionary; texts come on top
_COPIES: Final = 3  # of the key's text, that a value has at most

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes what it lacks; for threads. `compute` is pure. Keys are texts and tuples. The value of
    a key over `max_key_bytes` is computed each time.
    """

    def __init__(self, compute: Callable[[Key], Value], max_bytes: int, max_key_bytes: int) -> None:
        super().__init__()
        self._compute = compute
        self._half_bytes = max_bytes // 2
        self._max_key_bytes = max_key_bytes
        self._older: dict[Key, Value] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __missing__(self, key: Key) -> Value:
        older = self._older
        value = older[key] if key in older else self._compute(key)
        size = sys.getsizeof(key)
        if isinstance(key, tuple):
            size += sum(sys.getsizeof(part) for part in key)
        if size <= self._max_key_bytes:
            with self._lock:
                self._keep(key, value, _ENTRY_BYTES + _COPIES * size)
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
