"""Of a refused request the bytes count that were there, and not those that its head speaks of."""

import asyncio

import pytest

from gateway.admission import concurrency
from tests.gateway.conftest import Gateway, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces
from tests.gateway.test_memory_budget import Stopped


async def refused(gateway: Gateway, key: str, length: int) -> bytes:
    """The status line of the answer to a head that speaks of so many bytes, with three of them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Legacy-Auth: Legacy legacy_key={key}\r\n"
    writer.write(f"{head}Content-Length: {length}\r\n\r\nabc".encode())
    async with asyncio.timeout(20):
        line = await reader.readline()
    writer.close()
    return line.rstrip()


def counted(gateway: Gateway) -> float:
    return gateway.metric("wire_bytes_total", outcome="refused")


async def test_a_strangers_head_counts_for_what_came(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore())
    assert await refused(gateway, "f" * 32, 10**12) == b"HTTP/1.1 401 Unauthorized"
    assert await refused(gateway, gateway.projects[0].key, 10**12) == b"HTTP/1.1 415 Unsupported Media Type"
    assert counted(gateway) == 6


async def test_a_head_without_a_place_counts_for_what_came(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "INITIAL_LIMIT", 2)
    store = Stopped()
    gateway = await start_gateway(store, durability="store")
    held = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(1))))
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    assert await refused(gateway, gateway.projects[0].key, 10**6) == b"HTTP/1.1 503 Service Unavailable"
    await eventually(lambda: counted(gateway) > 0)
    assert counted(gateway) == 3
    store.released.set()
    assert (await held).status == 200
