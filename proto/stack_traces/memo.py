"""What is kept of lines that were read: the lines of stack traces repeat endlessly in a process.

Bounded in bytes. When the newer half is full, it becomes the older one, whose entries are forgotten unless they are
needed before the newer half is full again. What is kept never changes a result, only its cost.
"""

import sys
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_ENTRY_BYTES: Final = 512  # of tuples and the dictionary; texts come on top
_COPIES: Final = 3  # of the key's text, that a value has at most

Key = TypeVar("Key", bound="str | tuple[str, str]")
Value = TypeVar("Value")


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes what it lacks; for threads. `compute` is pure. Keys over `max_key_chars` characters
    are computed each time.
    """

    def __init__(self, compute: Callable[[Key], Value], max_bytes: int, max_key_chars: int) -> None:
        super().__init__()
        self._compute = compute
        self._half_bytes = max_bytes // 2
        self._max_key_chars = max_key_chars
        self._older: dict[Key, Value] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __missing__(self, key: Key) -> Value:
        older = self._older
        value = older[key] if key in older else self._compute(key)
        texts: tuple[str, ...] = (key,) if isinstance(key, str) else key
        if sum(map(len, texts)) <= self._max_key_chars:
            with self._lock:
                self._keep(key, value, _ENTRY_BYTES + _COPIES * sum(map(sys.getsizeof, texts)))
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
