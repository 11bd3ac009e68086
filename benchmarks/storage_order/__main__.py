"""Prints the ratio of CPU of an insert, with the column `stored_time` to without, and the bytes of the column in a row.

Two databases, of which one lacks the column, get the same blocks in turns; the ratio of CPU is that of pairs. The size
of the column is that of simulated exporters, which send every few seconds, so that rows of many inserts lie side by
side in a merged part.
"""

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.command import command
from benchmarks.gateway.bodies import Kind, bodies
from benchmarks.report import Table, print_machine, spread
from chassis.clickhouse import ClickHouse, QueryLimits, migrations
from chassis.clickhouse.stored_time import StoredTimeFloor
from proto.otlp.codec import build_blocks, decode
from proto.otlp.policy import Block, Policy
from proto.storage.tables import SPANS

REQUESTS: Final = 96  # of 512 spans: a block of about 50 000 rows
SIMULATED: Final = 2_000_000
INSTANCES: Final = 100
SCHEDULES: Final = ((2_000, 5), (20_000, 1))  # spans a second, seconds between the exports of an instance


def main() -> None:
    """Measure both."""
    arguments = command(__package__, __doc__, rounds=12).parse_args()
    print_machine("chdb")
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_measure(Path(directory), arguments.rounds))


async def _measure(directory: Path, rounds: int) -> None:
    sides = {}
    for name, floor in (("without", None), ("with", StoredTimeFloor())):
        store = ClickHouse(f"chdb://{directory}", database=f"{name}_column", stored_time_floor=floor)
        await store.create_database()
        await migrations.migrate(store, retention_days=0)
        await store.command("SYSTEM STOP MERGES spans")
        sides[name] = store
    await sides["without"].command("ALTER TABLE spans DROP INDEX stored_time_minmax, DROP COLUMN stored_time")
    await _compare_inserts(sides, _blocks(), rounds)
    columns = {"simulated exports": "", "bytes of batch_id in a row": ".2f", "of stored_time": ".2f"}
    table = Table(columns)
    for rate, interval in SCHEDULES:
        sizes = await _column_bytes(sides["with"], rate, interval)
        table.row(f"{rate} spans/s from {INSTANCES} instances, which send every {interval} s", *sizes)
    for store in sides.values():
        await store.close()


def _blocks() -> Sequence[Block]:
    decoded = [
        decode("traces", body, 1, Policy(), time.time_ns()) for body in bodies(Kind("traces", "protobuf"))[:REQUESTS]
    ]
    return [block for block in build_blocks(decoded, 1) if block.table == SPANS.name]


async def _compare_inserts(sides: Mapping[str, ClickHouse], blocks: Sequence[Block], rounds: int) -> None:
    rows = sum(block.rows for block in blocks)
    costs: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, store in sorted(sides.items(), reverse=number % 2 == 1):
            cpu = time.process_time()
            for block in blocks:
                token = f"{side}:{number}:{block.day}"
                await store.insert(SPANS.name, SPANS.column_names, block.pieces, token=token)
            if number:  # the first opens files and compiles expressions
                costs[side].append((time.process_time() - cpu) / rows * 1e6)
    table = Table({f"inserts of {rows} spans, {rounds} pairs": "", "median (least to most)": ""})
    for side, cost in costs.items():
        table.row(f"us of CPU a span, {side} the column", spread(cost))
    ratios = [with_ / without for without, with_ in zip(costs["without"], costs["with"], strict=True)]
    table.row("CPU with to without", spread(ratios))


async def _column_bytes(store: ClickHouse, rate: int, interval: int) -> Sequence[object]:
    """Of the batch id and of the stored time, in a row."""
    table = f"simulated_{rate}"
    await store.command(
        f"CREATE TABLE {table} (project_id UInt64, start_time DateTime64(9, 'UTC'), service LowCardinality(String),"
        " name LowCardinality(String), batch_id UInt64 CODEC(ZSTD(1)), stored_time DateTime64(6, 'UTC') CODEC(ZSTD(1)))"
        " ENGINE = MergeTree ORDER BY (project_id, toStartOfFiveMinutes(start_time), service, name, start_time)"
        " SETTINGS min_bytes_for_wide_part = 0"
    )
    await store.command(_simulated(table, rate, interval), {}, {"max_threads": 1})
    await store.command(f"OPTIMIZE TABLE {table} FINAL")
    found = await store.query(
        f"SELECT sum(column_data_compressed_bytes) / {SIMULATED} FROM system.parts_columns WHERE active"
        " AND table = {table:String} AND column IN ('stored_time', 'batch_id') GROUP BY column ORDER BY column",
        {"table": table},
        limits=QueryLimits(),
    )
    return [size for (size,) in found]


def _simulated(table: str, rate: int, interval: int) -> str:
    """Spans of instances that send in turn; what arrives within half a second is one batch."""
    return f"""INSERT INTO {table}
WITH cityHash64(number) AS hash, hash % {INSTANCES} AS instance, number / {rate} AS at,
     instance * {interval} / {INSTANCES} AS phase,
     floor(((floor((at + phase) / {interval}) + 1) * {interval} - phase) * 2) AS batch
SELECT 1, fromUnixTimestamp64Nano(toInt64((1763868000 + at) * 1e9) + hash % 1000000, 'UTC'),
       concat('service-', toString(instance % 20)), concat('operation-', toString(intDiv(hash, 1000) % 30)),
       cityHash64(batch),
       fromUnixTimestamp64Micro(toInt64((1763868000 + batch / 2) * 1e6) + cityHash64(batch) % 400000, 'UTC')
FROM numbers({SIMULATED})"""


if __name__ == "__main__":
    main()
