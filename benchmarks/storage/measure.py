"""One candidate: filled block by block, merged, read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.storage.engine import Engine, spending, sql_file
from benchmarks.storage.layouts import READ, Layout, Signal, layouts
from benchmarks.storage.reads import reads

BLOCK_ROWS: Final = 50_000
_STEP_BLOCKS: Final = 20  # of the source, made at once
_REPEATS: Final = 3


class Result(NamedTuple):
    """Microseconds of CPU a row; bytes a row; and per read milliseconds of CPU, the least of a few, and the answer."""

    layout: str
    insert_us: float
    merge_us: float
    disk_bytes: float
    native_bytes: float
    reads: Mapping[str, tuple[float, bytes]]


def make_source(engine: Engine, signal: Signal, day_rows: int, rows: int) -> str:
    """The rows that all candidates get, the first of a day of `day_rows`, in a table of their own; made once for a
    directory.
    """
    name = f"source_{signal}_{day_rows}_{rows}"
    if name in engine.tables():
        return name
    places = {"rows": day_rows, "block": BLOCK_ROWS}
    empty = sql_file(signal, first=0, count=1, **places)
    block = f"toUInt32(intDiv(rowNumberInAllBlocks(), {BLOCK_ROWS}))"
    engine.command(
        f"CREATE TABLE making ENGINE = MergeTree ORDER BY block AS SELECT {block} AS block, * FROM ({empty}) LIMIT 0"
    )
    step = _STEP_BLOCKS * BLOCK_ROWS
    for first in range(0, rows, step):
        made = sql_file(signal, first=first, count=min(step, rows - first), **places)
        engine.command(
            f"INSERT INTO making SELECT {block} + {first // BLOCK_ROWS}, * FROM ({made}) SETTINGS max_threads = 1"
        )
    engine.command(f"RENAME TABLE making TO {name}")
    return name


def measure(directory: Path, signal: Signal, name: str, day_rows: int, rows: int) -> Result:
    """Build and read one candidate; its table is gone afterwards. To be called in a process of its own."""
    (layout,) = [each for each in layouts(signal) if each.name == name]
    engine = Engine(directory)
    source, table = make_source(engine, signal, day_rows, rows), "candidate"
    engine.command(f"DROP TABLE IF EXISTS {table} SYNC")
    engine.command(layout.ddl.replace("{table}", table))
    engine.command(f"SYSTEM STOP MERGES {table}")
    native, insert_s = fill(engine, layout, source, table, directory, rows)
    engine.command(f"SYSTEM START MERGES {table}")
    with spending() as merging:
        engine.command(f"OPTIMIZE TABLE {table} FINAL")
    disk = engine.disk_bytes(table)
    found = _read(engine, signal, layout, source, table) if name in READ[signal] else {}
    engine.command(f"DROP TABLE {table} SYNC")
    return Result(name, insert_s / rows * 1e6, merging.cpu / rows * 1e6, disk / rows, native / rows, found)


def fill(engine: Engine, layout: Layout, source: str, table: str, directory: Path, rows: int) -> tuple[int, float]:
    """Bytes and CPU seconds of the inserts: of blocks as the gateway makes them, in Native format, from a file."""
    columns = engine.insertable(table)
    select = layout.whole_select or select_list(columns, layout)
    names = ", ".join(f"`{name}`" for name in columns)
    path, native, seconds = directory.with_name("block.native"), 0, 0.0
    for block in range(-(-rows // BLOCK_ROWS)):
        path.unlink(missing_ok=True)
        engine.command(f"{select} FROM {source} AS source WHERE block = {block} INTO OUTFILE '{path}' FORMAT Native")
        native += path.stat().st_size
        with spending() as inserting:
            engine.command(f"INSERT INTO {table} ({names}) FROM INFILE '{path}' FORMAT Native")
        seconds += inserting.cpu
    path.unlink()
    return native, seconds


def select_list(columns: dict[str, str], layout: Layout) -> str:
    """The columns of an insert out of the source, cast to their types."""
    cells = []
    for name, kind in columns.items():
        quoted = kind.replace("'", "\\'")
        cells.append(f"CAST({layout.select.get(name, name)}, '{quoted}') AS `{name}`")
    return f"SELECT {', '.join(cells)}"


def _read(engine: Engine, signal: Signal, layout: Layout, source: str, table: str) -> dict[str, tuple[float, bytes]]:
    ids: list[tuple[Any, ...]] = engine.rows(
        f"SELECT lower(hex(trace_id)), attributes['app.order.id'] FROM {source}"
        " WHERE project_id = 1 AND trace_id != toFixedString('', 16) AND block = (SELECT intDiv(max(block), 2)"
        f" FROM {source}) ORDER BY trace_id LIMIT 1"
    )
    found = {}
    for name, sql in reads(signal, layout, table, *ids[0]).items():
        spent, answer = [], b""
        for _ in range(_REPEATS):
            with spending() as reading:
                answer = engine.read(sql)
            spent.append(reading.cpu * 1e3)
        found[name] = min(spent), b"" if "SELECT *" in sql else answer
    return found
