"""Clients that watch the health of the gateway."""

import asyncio

import pytest
from grpc import StatusCode, aio

from chassis.runtime.health import Health
from gateway.grpc import server
from tests.gateway.conftest import RecordingStore
from tests.gateway.grpc.conftest import DEADLINE_S, Client, Connect

Watch = aio.UnaryStreamCall[bytes, bytes]


def watch(client: Client) -> Watch:
    method: aio.UnaryStreamMultiCallable[bytes, bytes] = client.channel.unary_stream(server.WATCH)
    return method(b"")


async def first_state(client: Client) -> object:
    """Once there is room for one more."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await watch(client).read()
            except aio.AioRpcError:
                await asyncio.sleep(0.01)


async def test_who_watches_gets_the_state_and_its_change_and_holds_up_no_stop(connect: Connect) -> None:
    client = await connect(RecordingStore())
    watching = watch(client)
    assert await watching.read() == server.SERVING == b"\x08\x01"
    await asyncio.wait_for(client.gateway.stop(), DEADLINE_S)
    assert await watching.read() == server.NOT_SERVING == b"\x08\x02"
    assert await watching.read() is aio.EOF
    assert await watching.code() is StatusCode.OK


async def test_an_outage_is_told_and_its_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = True
    monkeypatch.setattr(Health, "not_ready_reason", lambda _self, _probes: None if ready else "x unavailable")
    client = await connect(RecordingStore())
    watching = watch(client)
    for expected in (server.SERVING, server.NOT_SERVING, server.SERVING):
        ready = expected == server.SERVING
        assert await asyncio.wait_for(watching.read(), DEADLINE_S) == expected


async def test_beyond_the_limit_watching_is_not_offered(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WATCHES", 2)
    client = await connect(RecordingStore())
    first, second = watch(client), watch(client)
    assert [await each.read() for each in (first, second)] == [server.SERVING] * 2
    refused = watch(client)
    assert await refused.code() is StatusCode.UNIMPLEMENTED
    first.cancel()
    assert await first_state(client) == server.SERVING
