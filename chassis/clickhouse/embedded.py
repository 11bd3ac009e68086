"""The configuration of the embedded engine: memory limits, and table settings that apply as soon as tables are loaded.

An operator configures a server. The embedded engine without a configuration would use all memory of the machine, and
its defaults change between releases. Statements would set the limits too late: merges begin while the tables are
loaded, and such a merge may have crashed the process before.

`abort_on_crash` makes the process end immediately when it crashes. The embedded engine handles crash signals to write a
report first. Its report takes minutes or never ends, and meanwhile the process serves nothing and is not restarted.
Python's own crash report takes no time.

`InsertActivity` knows when this process last inserted into the tables. Other processes cannot insert, because a
directory belongs to one process. So followers do not query the engine while nothing was inserted.
"""

import faulthandler
import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from chassis.runtime.memory import available_bytes

_CRASH_SIGNALS: Final = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
)
_STDERR: Final = 2


def abort_on_crash() -> None:
    """Make a crash write the Python stacks of all threads to standard error and then take the signal's default action.

    Call this function once, after the engine was opened for good: the engine installs its handlers whenever it is
    opened. Only the main thread can set signal handlers. In another thread this function does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    faulthandler.disable()
    for number in _CRASH_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(_STDERR)


MIN_BYTES: Final = 256 * 2**20  # the engine does not work with less
CONFIG_FILE_NAME: Final = "sluice-engine.xml"

# The engine's share of the memory that the process may use. The rest is for requests, batches and responses
# (docs/operations.md).
_MEMORY_FRACTION: Final = 2 / 5
# The engine's defaults for these caches are gigabytes. Caches count as memory in use and are not evicted for a query.
_CACHES: Final = {
    "mark_cache_size": 16,
    "primary_index_cache_size": 16,
    "index_mark_cache_size": 32,
    "query_condition_cache_size": 32,
    "compiled_expression_cache_size": 32,
}


def engine_bytes(configured: int) -> int:
    """The engine's memory limit in bytes: `configured`, or two fifths of what the process may use if it is 0."""
    return max(MIN_BYTES, configured or int(available_bytes() * _MEMORY_FRACTION))


def max_read_bytes(engine: int) -> int:
    """The memory limit of one read: a quarter of the engine's, so that concurrent reads leave memory for inserts and
    merges.
    """
    return engine // 4


def configuration(engine: int) -> str:
    """The engine's configuration file for a memory limit of `engine` bytes.

    A statement, an insert or a merge that would exceed the limit fails, and the process continues. `merge_tree` applies
    to all tables, including tables of earlier releases, from the moment they are loaded (the reason is in
    0007_tables.sql).
    """
    caches = "".join(f"  <{name}>{engine // part}</{name}>\n" for name, part in _CACHES.items())
    return (
        "<clickhouse>\n"
        f"  <max_server_memory_usage>{engine}</max_server_memory_usage>\n"
        f"  <merges_mutations_memory_usage_soft_limit>{engine // 2}</merges_mutations_memory_usage_soft_limit>\n"
        f"{caches}"
        "  <merge_tree>\n"
        "    <auto_statistics_types></auto_statistics_types>\n"
        "    <use_primary_key_cache>1</use_primary_key_cache>\n"
        "  </merge_tree>\n"
        "</clickhouse>\n"
    )


def write_configuration(directory: Path, engine: int) -> Path:
    """Write the configuration to the engine's directory, which only this process uses. Returns the path. Raises
    OSError.
    """
    path = directory / CONFIG_FILE_NAME
    text = configuration(engine)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


class InsertActivity:
    """The running and the last ended inserts by table. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._ended: dict[str, float] = {}
        self._since = time.monotonic()

    @contextmanager
    def running(self, table: str) -> Iterator[None]:
        """Count an insert into the table as running until the context ends."""
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
    """The inserts of all clients into the embedded engine of a directory."""
    with _lock:
        return _activities.setdefault(directory.resolve(), InsertActivity())
