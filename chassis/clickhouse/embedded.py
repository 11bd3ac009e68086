"""What the embedded engine is started with: limits of its memory, and settings that its tables have from the moment
they are loaded.

A server has an operator who gives it a configuration; the engine in the process would take all memory of the machine
for its own, and its defaults change with its releases. A statement that changes them comes too late: merges begin while
the tables are loaded, and one of them may be what ended the process before.
"""

from pathlib import Path
from typing import Final

from chassis.runtime.memory_limit import available_bytes

MIN_BYTES: Final = 256 * 2**20  # with less it cannot work
CONFIG_FILE_NAME: Final = "sluice-engine.xml"

# Of the memory that the process may use: the rest is for requests, batches and answers (docs/operations.md).
_MEMORY_FRACTION: Final = 2 / 5
# The engine's own defaults of these caches are gigabytes; they count as memory in use and do not give way to a query.
_CACHES: Final = {
    "mark_cache_size": 16,
    "primary_index_cache_size": 16,
    "index_mark_cache_size": 32,
    "query_condition_cache_size": 32,
    "compiled_expression_cache_size": 32,
}


def engine_bytes(configured: int) -> int:
    """The engine's memory: `configured`, or where that is 0 two fifths of what the process may use."""
    return max(MIN_BYTES, configured or int(available_bytes() * _MEMORY_FRACTION))


def max_read_bytes(engine: int) -> int:
    """Memory of one read, at most: a quarter, so that some together leave room for inserts and merges."""
    return engine // 4


def configuration(engine: int) -> str:
    """The engine's configuration file for so much memory.

    A statement, an insert or a merge that would take the engine beyond it fails; the process goes on. `merge_tree`
    holds for all tables, those of earlier releases too, from the moment they are loaded (migration 0002 says why).
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
    """Write it into the engine's directory, where only this process is; the file. Raises OSError."""
    path = directory / CONFIG_FILE_NAME
    text = configuration(engine)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path
