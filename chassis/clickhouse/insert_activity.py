"""When this process inserted into the tables of an embedded engine last: nobody else can, because a directory belongs
to one process. Followers need not ask the engine for rows that nobody has inserted.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final


class InsertActivity:
    """Inserts by table, running and ended. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._ended: dict[str, float] = {}
        self._since = time.monotonic()

    @contextmanager
    def running(self, table: str) -> Iterator[None]:
        """An insert runs."""
        with self._lock:
            self._running[table] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[table] -= 1
                self._ended[table] = time.monotonic()

    def idle_since(self, table: str) -> float:
        """`time.monotonic()` of the end of the last insert; infinity while one runs."""
        with self._lock:
            return math.inf if self._running[table] else self._ended.get(table, self._since)


_activities: Final[dict[Path, InsertActivity]] = {}
_lock: Final = threading.Lock()


def activity_of(directory: Path) -> InsertActivity:
    """The inserts into the embedded engine of a directory, whichever client makes them."""
    with _lock:
        return _activities.setdefault(directory.resolve(), InsertActivity())
