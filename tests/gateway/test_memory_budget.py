"""What is in flight has a bound, and in it each project its share."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.gateway.conftest import Gateway, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces


@pytest.fixture
def durability() -> str:
    """Requests are answered when they are stored."""
    return "store"


class Stopped(RecordingStore):
    """Takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        await self.released.wait()
        await super().insert(table, columns, pieces, token=token)


async def fill(gateway: Gateway, project: int, requests: int, items: int) -> list[asyncio.Task[int]]:
    """Send so many requests of so many items at once; returns when each is held or answered."""

    async def status(number: int) -> int:
        spans = traces(*(span(number * items + n) for n in range(1, items + 1)))
        return (await gateway.post("/v1/traces", spans, project=project)).status

    held = gateway.metric("inflight_items")
    sent = [asyncio.create_task(status(number)) for number in range(requests)]
    await eventually(
        lambda: sum(not one.done() for one in sent) * items == gateway.metric("inflight_items") - held,
    )
    return sent


async def test_a_noisy_project_has_half_and_another_finds_room(start_gateway: StartGateway) -> None:
    store = Stopped()
    gateway = await start_gateway(store, max_inflight_items=120)
    noisy = await fill(gateway, 0, requests=30, items=10)
    assert sum(not one.done() for one in noisy) == 6
    quiet = await fill(gateway, 1, requests=3, items=10)
    assert not any(one.done() for one in quiet)
    store.released.set()
    statuses = await asyncio.gather(*noisy, *quiet)
    assert sorted(statuses) == [200] * 9 + [503] * 24
    assert gateway.metric("inflight_items") == gateway.metric("inflight_bytes") == 0
