"""One day of spans in all three layouts of one embedded engine, made once for a directory.

The first blocks are inserted as the gateway sends them, and timed; the rest in the engine. Everything is merged to one
part per day in the end, in all three alike.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.explore import statements
from benchmarks.explore.layouts import Laid, create_tables, laid
from benchmarks.storage.engine import Engine, spending, sql_file
from benchmarks.storage.measure import BLOCK_ROWS, fill, make_source, select_list

DAY_NS: Final = 1_795_132_800_000_000_000  # 2026-11-20, the day of benchmarks.storage
HOUR_NS: Final = 3_600 * 10**9
END_NS: Final = DAY_NS + 24 * HOUR_NS
SPIKE_NS: Final = END_NS - 12 * 60 * 10**9
LONG: Final = {20: 20, 1_000: 6, 10_000: 3}  # traces by their spans
_VERSION: Final = 1  # of the rows; data of another one is made anew
_TIMED_BLOCKS: Final = 20
_COMPLETE: Final = "complete.json"


class Cost(msgspec.Struct):
    """Of one layout: microseconds of CPU a span for inserting it and for merging it, and its bytes on disk."""

    layout: str
    insert_us: float
    merge_us: float
    disk_bytes: float


class Data(msgspec.Struct):
    """The contents of a directory."""

    version: int
    spans: int
    costs: list[Cost]


def prepare(directory: Path, spans: int) -> Data:
    """The data of `directory/chdb`; made if it is not there, incomplete or another. To be called in a process of its
    own: it leaves the engine open.
    """
    complete = directory / _COMPLETE
    if complete.exists():
        data = msgspec.json.decode(complete.read_bytes(), type=Data)
        if (data.version, data.spans) == (_VERSION, spans):
            return data
    shutil.rmtree(directory / "chdb", ignore_errors=True)
    complete.unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    data = Data(_VERSION, spans, _made(directory, spans))
    complete.write_bytes(msgspec.json.encode(data))
    return data


def _made(directory: Path, spans: int) -> list[Cost]:
    engine = Engine(directory / "chdb")
    create_tables(engine, directory / "chdb")
    return fill_days(engine, laid(), directory, spans)


def fill_days(engine: Engine, layouts: Sequence[Laid], directory: Path, spans: int) -> list[Cost]:
    """The day in these layouts, whose tables are empty."""
    source = make_source(engine, "spans", spans, spans)
    engine.command(f"CREATE VIEW day AS {_day(source, spans)}")
    costs = [_filled(engine, each, directory, spans) for each in layouts]
    engine.command("DROP TABLE day")
    engine.command(f"DROP TABLE {source} SYNC")
    return costs


def _day(source: str, spans: int) -> str:
    """The rows that all layouts get."""
    last = -(-spans // BLOCK_ROWS)
    long = []
    for size, count in LONG.items():
        some = sql_file("spans", first=0, count=size, rows=spans, block=BLOCK_ROWS)
        places = {"size": size, "count": count, "start": END_NS - HOUR_NS, "block": last, "spans": some}
        long.append(statements.whole("long", **places))
    return statements.whole("day", source=source, spike=SPIKE_NS, long="\nUNION ALL\n".join(long))


def _filled(engine: Engine, laid: Laid, directory: Path, spans: int) -> Cost:
    timed = min(spans, _TIMED_BLOCKS * BLOCK_ROWS)
    engine.command(f"SYSTEM STOP MERGES {laid.table}")
    _, insert_s = fill(engine, laid.layout, "day", laid.table, directory / "chdb", timed)
    engine.command(f"SYSTEM START MERGES {laid.table}")
    with spending() as merging:
        engine.command(f"OPTIMIZE TABLE {laid.table} FINAL")
    columns = engine.insertable(laid.table)
    names = ", ".join(f"`{name}`" for name in columns)
    select = laid.layout.whole_select or select_list(columns, laid.layout)
    first = -(-timed // BLOCK_ROWS)
    engine.command(f"INSERT INTO {laid.table} ({names}) {select} FROM day AS source WHERE block >= {first}")
    engine.command(f"OPTIMIZE TABLE {laid.table} FINAL")
    for table, sql in laid.derived.items():
        engine.command(sql)
        engine.command(f"OPTIMIZE TABLE {table} FINAL")
    return Cost(laid.name, insert_s / timed * 1e6, merging.cpu / timed * 1e6, engine.disk_bytes(laid.table) / spans)
