"""Parts are counted where ClickHouse keeps them, and not told of while it is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse, StoreUnavailable
from gateway.inserts.store_state import PARTS_CHECK_S, InsertBreaker, PartMonitor, TelemetryReader
from gateway.metrics import Metrics
from tests.gateway.conftest import RecordingStore, eventually

Rows = list[tuple[object, ...]]


@dataclass
class Looking:
    """Parts that are counted once for every `next`."""

    registry: CollectorRegistry
    breaker: InsertBreaker
    turns: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.turns.get()

    async def next(self) -> None:
        before = len(self.waits)
        self.turns.put_nowait(None)
        await eventually(lambda: len(self.waits) > before)

    def parts(self, table: str) -> float | None:
        return self.registry.get_sample_value("sluice_gateway_parts", {"table": table})


@asynccontextmanager
async def looking(store: TelemetryReader) -> AsyncIterator[Looking]:
    """The first count is made."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    log: structlog.stdlib.BoundLogger = structlog.get_logger("test")
    breaker = InsertBreaker(RecordingStore(), metrics, log, sleep=lambda _seconds: asyncio.sleep(3_600))
    looking = Looking(registry, breaker)
    parts = PartMonitor(store, breaker, metrics, log, looking.sleep)
    parts.task.start()
    await eventually(lambda: looking.waits == [PARTS_CHECK_S])
    yield looking
    await parts.task.close()
    await breaker.close()


async def test_the_day_with_most_parts_is_exported_by_table(clickhouse: ClickHouse) -> None:
    await clickhouse.command("SYSTEM STOP MERGES attribute_keys")
    async with looking(clickhouse) as seen:
        assert seen.parts("attribute_keys") is None
        for day, key in (("2026-11-20", "a"), ("2026-11-20", "b"), ("2026-11-20", "c"), ("2026-11-21", "d")):
            await clickhouse.command(f"INSERT INTO attribute_keys VALUES (1, '{day} 00:00:00', '{key}', 1, 0)")
        await clickhouse.command("CREATE TABLE other AS attribute_keys")
        await clickhouse.command("INSERT INTO other VALUES (1, '2026-11-20 00:00:00', 'a', 1, 0)")
        await seen.next()
        assert seen.parts("attribute_keys") == 3
        assert seen.parts("other") is None
        await clickhouse.command("SYSTEM START MERGES attribute_keys")
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
        await seen.next()
        assert seen.parts("attribute_keys") is None


class Store:
    """Answers with the rows that it is given, or refuses."""

    def __init__(self) -> None:
        self.rows: Rows = [("spans", 7)]
        self.asked = 0
        self.refusing: Exception | None = None

    async def query(self, *_sql_and_parameters: object, **_limits: object) -> Rows:
        self.asked += 1
        if self.refusing is not None:
            raise self.refusing
        return self.rows


async def test_a_right_that_is_missing_is_said_once_and_mended_without_a_restart() -> None:
    store = Store()
    with structlog.testing.capture_logs() as said:
        store.refusing = StoreUnavailable("Not enough privileges.", 497)
        async with looking(store) as seen:
            await seen.next()
            assert seen.parts("spans") is None
            store.refusing = None
            await seen.next()
            assert seen.parts("spans") == 7
    assert [(line["event"], line["code"]) for line in said] == [("counting parts failed", 497)]


async def test_nothing_ends_the_looking_and_while_clickhouse_is_unavailable_it_is_not_polled() -> None:
    """Nor has the gauge a value then. There may be no thread to ask in, for a while."""
    store = Store()
    async with looking(store) as seen:
        store.refusing = RuntimeError("can't start new thread")
        await seen.next()
        assert seen.parts("spans") is None
        store.refusing = None
        await seen.next()
        assert (seen.parts("spans"), store.asked) == (7, 3)
        seen.breaker.failed(StoreUnavailable("away"), "spans")
        await seen.next()
        assert (seen.parts("spans"), store.asked) == (None, 3)
