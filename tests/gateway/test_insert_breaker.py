"""The door in front of ClickHouse, with a sleep that records instead of waiting."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog
from structlog.testing import capture_logs

from chassis.clickhouse import StoreUnavailable
from chassis.runtime.telemetry import Telemetry
from gateway.inserts.blocks import InsertBlock, Inserter
from gateway.inserts.store_state import InsertBreaker
from gateway.metrics import Metrics
from proto.otlp.policy import Block
from tests.gateway.conftest import DEADLINE_S, RecordingStore

FULL = StoreUnavailable("Not enough space", 243)
BLOCK = InsertBlock(1, Block("spans", 20_000, 1, [b""]))
INDEX = InsertBlock(1, Block("trace_index", 20_000, 1, [b""]))


class Door:
    """An `InsertBreaker` and an `Inserter` over a store; `pauses` are the waits before its probes."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.store = RecordingStore()
        self.registry = Telemetry("test").registry
        metrics = Metrics(self.registry)
        log: structlog.stdlib.BoundLogger = structlog.get_logger("test")
        self.breaker = InsertBreaker(self.store, metrics, log, sleep=self._sleep)
        self.inserter = Inserter(self.store, self.breaker, metrics)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def fail(self, table: str = "spans") -> None:
        """An insert fails; then the door is open again."""
        self.breaker.failed(FULL, table)
        assert not self.breaker.is_up
        assert await self.breaker.wait_until_up(DEADLINE_S)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    yield door
    await door.breaker.close()


UNAVAILABLE, RECOVERED = "clickhouse unavailable", "clickhouse recovered"


async def test_a_store_that_takes_no_inserts_is_left_alone_for_longer_and_longer_until_one_succeeds(door: Door) -> None:
    with capture_logs() as lines:
        for _ in range(9):
            await door.fail()
        await door.inserter.insert(BLOCK)
        await door.inserter.insert(BLOCK)
        await door.fail()
    assert door.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.05]
    assert [line["event"] for line in lines] == [UNAVAILABLE, RECOVERED, UNAVAILABLE]


async def test_a_table_that_alone_refuses_inserts_is_left_alone_for_longer_too(door: Door) -> None:
    with capture_logs() as lines:
        for _ in range(3):
            await door.inserter.insert(BLOCK)
            await door.fail("trace_index")
        await door.inserter.insert(INDEX)
        await door.fail("trace_index")
    assert door.pauses == [0.05, 0.1, 0.2, 0.05]
    assert [line["event"] for line in lines] == [UNAVAILABLE, RECOVERED, UNAVAILABLE]


async def test_a_table_refuses_inserts_until_it_takes_one_whether_they_are_tried_or_not(door: Door) -> None:
    def told() -> tuple[float | None, ...]:
        names = "store_up", "refusing_tables"
        return tuple(door.registry.get_sample_value(f"sluice_gateway_{name}") for name in names)

    seen = [told()]
    door.breaker.failed(FULL, "spans")
    seen.append(told())
    assert await door.breaker.wait_until_up(DEADLINE_S)
    seen.append(told())
    await door.fail("trace_index")
    seen.append(told())
    for block in (BLOCK, INDEX):
        await door.inserter.insert(block)
        seen.append(told())
    assert seen == [(1, 0), (0, 1), (1, 1), (1, 2), (1, 1), (1, 0)]


async def test_an_insert_that_began_before_the_failure_says_nothing(door: Door) -> None:
    with capture_logs() as lines:
        door.breaker.failed(FULL, "spans")
        await door.inserter.insert(BLOCK)
        assert await door.breaker.wait_until_up(DEADLINE_S)
        await door.fail()
    assert door.pauses == [0.05, 0.1]
    assert [line["event"] for line in lines] == [UNAVAILABLE]


async def test_the_prober_survives_whatever_a_probe_raises(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception] = [RuntimeError("a defect of ours"), StoreUnavailable("connection refused")]

    async def probe() -> None:
        if faults:
            raise faults.pop(0)

    monkeypatch.setattr(door.store, "probe", probe)
    with capture_logs() as lines:
        await door.fail()
    assert door.pauses == [0.05, 1.0, 1.0]
    assert [line["event"] for line in lines] == [UNAVAILABLE, "clickhouse probe failed"]
