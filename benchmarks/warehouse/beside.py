"""What an explore waits while a sink exports: the same aggregate of spans, over windows of its own, in turns."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.explore.served import PROJECT, Request, Served
from benchmarks.report import Table, spread
from chassis.clickhouse import ClickHouse

PAIRS: Final = 12
_ASKED: Final = 10  # in each half of a pair
_SPANS: Final = 2_000_000
_NS: Final = 10**9
_FILL: Final = (
    "INSERT INTO spans (project_id, start_time, duration, trace_id, span_id, name, service_name, kind, status_code,"
    " batch_id, row) SELECT {project:UInt64}, now64(9) - toIntervalMillisecond(number),"
    " cityHash64(number) % 1000000000,"
    " toFixedString(unhex(leftPad(hex(cityHash64(number)), 32, '0')), 16), toFixedString('12345678', 8),"
    " concat('GET /', toString(number % 40)), concat('service', toString(number % 10)), 2, number % 20 = 0,"
    " {batch:UInt64}, toUInt32(number) FROM numbers({first:UInt64}, {count:UInt64})"
)
_BLOCK: Final = 100_000


async def fill(clickhouse: ClickHouse) -> None:
    """Store the spans that are asked for."""
    for first in range(0, _SPANS, _BLOCK):
        parameters = {"project": PROJECT, "batch": 2**40 + first, "first": first, "count": _BLOCK}
        await clickhouse.command(_FILL, parameters, stores_rows=True)


async def measure(directory: Path, export: Callable[[], Awaitable[int]]) -> None:
    """Prints the ratio of times with an export to times without; `export` exports everything again."""
    ratios, alone = [], []
    with Served(directory) as served:
        await asyncio.to_thread(_ask, served, 0)
        for pair in range(PAIRS):
            without = await asyncio.to_thread(_ask, served, 2 * pair + 1)
            exporting = asyncio.create_task(_endlessly(export))
            beside = await asyncio.to_thread(_ask, served, 2 * pair + 2)
            exporting.cancel()
            await asyncio.gather(exporting, return_exceptions=True)
            alone.append(without)
            ratios.append(beside / without)
    Table({"explores beside an export, to without": "", "ms alone": ".0f"}).row(spread(ratios), median(alone) * 1e3)


async def _endlessly(export: Callable[[], Awaitable[int]]) -> None:
    while True:
        await export()


def _ask(served: Served, number: int) -> float:
    """The median of some requests, in seconds, none of which was asked before."""
    times = []
    end = time.time_ns()
    for at in range(_ASKED):
        until = end - (number * _ASKED + at)
        body = {"from": str(until - 3_600 * _NS), "to": str(until), "fn": "p95", "field": "durationMs"}
        begun = time.perf_counter()
        status, answer = served.ask(Request("/spans/aggregate", json.dumps(body | {"groupBy": "name"}).encode()))
        times.append(time.perf_counter() - begun)
        if status != 200:
            raise SystemExit(f"an explore was answered {status}: {answer!r}")
    return median(times)
