"""Prints the machine, the ratio of CPU of an insert, and the bytes of the column in a row."""

import argparse
import asyncio
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.gateway.bodies import Kind, bodies
from chassis.clickhouse import ClickHouse, QueryLimits, migrations
from chassis.clickhouse.stored_time import StoredTimeFloor
from proto.otlp.codec import build_blocks, decode
from proto.otlp.policy import Block, Policy
from proto.storage.tables import SPANS

REQUESTS: Final = 96  # of 512 spans: a block of about 50 000 rows
PAIRS: Final = 12
SIMULATED: Final = 2_000_000
INSTANCES: Final = 100
SCHEDULES: Final = ((2_000, 5), (20_000, 1))  # spans a second, seconds between the exports of an instance


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} x {platform.processor() or platform.machine()}; chdb {version('chdb')}")
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_measure(Path(directory), arguments.pairs))


async def _measure(directory: Path, pairs: int) -> None:
    known = migrations.migrations()
    sides = {}
    for name, count in (("before", 2), ("after", len(known))):
        store = ClickHouse(
            f"chdb://{directory}", database=name, stored_time_floor=StoredTimeFloor() if count > 2 else None
        )
        await store.create_database()
        for migration in known[:count]:
            for statement in migration.statements:
                if "MATERIALIZE" not in statement and "MODIFY SETTING" not in statement:
                    await store.command(migrations.render(statement, embedded=True, retention_days=0))
        await store.command("SYSTEM STOP MERGES spans")
        sides[name] = store
    await _compare_inserts(sides["before"], sides["after"], _blocks(), pairs)
    for rate, interval in SCHEDULES:
        await _measure_column(sides["after"], rate, interval)
    for store in sides.values():
        await store.close()


def _blocks() -> Sequence[Block]:
    decoded = [
        decode("traces", body, 1, Policy(), time.time_ns()) for body in bodies(Kind("traces", "protobuf"))[:REQUESTS]
    ]
    return [block for block in build_blocks(decoded, 1) if block.table == SPANS.name]


async def _compare_inserts(before: ClickHouse, after: ClickHouse, blocks: Sequence[Block], pairs: int) -> None:
    rows = sum(block.rows for block in blocks)
    ratios, costs = [], []
    for pair in range(pairs + 1):
        spent = {}
        for side, store in sorted((("before", before), ("after", after)), reverse=pair % 2 == 1):
            cpu = time.process_time()
            for block in blocks:
                token = f"{side}:{pair}:{block.day}"
                await store.insert(SPANS.name, SPANS.column_names, block.pieces, token=token)
            spent[side] = time.process_time() - cpu
        if pair:  # the first opens files and compiles expressions
            ratios.append(spent["after"] / spent["before"])
            costs.append(spent["before"] / rows * 1e6)
    ratios.sort()
    print(
        f"insert, after to before: {statistics.median(ratios):.3f} ({ratios[1]:.3f} to {ratios[-2]:.3f}) in {pairs}"
        f" pairs of {rows} spans; before {statistics.median(costs):.2f} us of CPU a span"
    )


async def _measure_column(store: ClickHouse, rate: int, interval: int) -> None:
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
        f"SELECT column, sum(column_data_compressed_bytes) / {SIMULATED} FROM system.parts_columns WHERE active"
        " AND table = {table:String} AND column IN ('stored_time', 'batch_id') GROUP BY column ORDER BY column",
        {"table": table},
        limits=QueryLimits(),
    )
    sizes = ", ".join(f"{column} {size:.2f}" for column, size in found)
    print(f"bytes of a row at {rate} spans/s from {INSTANCES} instances, which send every {interval} s: {sizes}")


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
