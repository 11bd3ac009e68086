"""The lag of a loop is what its timers say of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.runtime import telemetry
from chassis.runtime.telemetry import LoopLag

DEADLINE_S = 20.0
TICK_S = 2.0**-10  # exact in binary


class Clock:
    """Goes on by one tick whenever it is read, so that every timer is in time, but when `late` says otherwise."""

    def __init__(self) -> None:
        self.now = self.late = 0.0

    def __call__(self) -> float:
        self.now, self.late = self.now + TICK_S + self.late, 0.0
        return self.now


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    monkeypatch.setattr(telemetry, "TICK_S", TICK_S)
    monkeypatch.setattr(telemetry, "WINDOW_S", 20 * TICK_S)
    return CollectorRegistry()


@asynccontextmanager
async def measured(measuring: LoopLag) -> AsyncIterator[None]:
    async for _ in measuring.running(web.Application()):
        yield


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"sluice_loop_lag_{name}", labels)
    assert found is not None
    return found


async def fired(registry: CollectorRegistry, times: int) -> None:
    """Wait until the timer has fired so often."""
    until = value(registry, "seconds_count") + times
    async with asyncio.timeout(DEADLINE_S):
        while value(registry, "seconds_count") < until:
            await asyncio.sleep(0)


async def test_a_late_timer_is_measured_and_the_worst_is_told_for_a_while(registry: CollectorRegistry) -> None:
    clock = Clock()
    async with measured(LoopLag(registry, clock)):
        await fired(registry, 3)
        assert (value(registry, "worst_seconds"), value(registry, "seconds_sum")) == (0, 0)
        clock.late = 3.0
        await fired(registry, 1)
        assert (value(registry, "worst_seconds"), value(registry, "seconds_sum")) == (3, 3)
        assert value(registry, "seconds_count") - value(registry, "seconds_bucket", le="2.5") == 1
        await fired(registry, 5)
        assert value(registry, "worst_seconds") == 3  # of this window or the one before
        await fired(registry, 30)
        assert (value(registry, "worst_seconds"), value(registry, "seconds_sum")) == (0, 3)


async def test_work_that_holds_the_loop_makes_timers_late(registry: CollectorRegistry) -> None:
    async with measured(LoopLag(registry)):
        await fired(registry, 1)
        late = asyncio.get_running_loop().time() + 50 * TICK_S
        while asyncio.get_running_loop().time() < late:
            pass
        await fired(registry, 1)
        assert value(registry, "worst_seconds") > 25 * TICK_S


async def test_an_application_that_is_closed_measures_no_more(registry: CollectorRegistry) -> None:
    clock = Clock()
    async with measured(LoopLag(registry, clock)):
        await fired(registry, 1)
    read = clock.now
    await asyncio.sleep(5 * TICK_S)
    assert clock.now == read
