"""Ends of calls: clients that leave, and a gateway that drains."""

import asyncio

import grpc
import pytest
from grpc import StatusCode, aio

from gateway.ingest.journaled import JournaledIngest
from gateway.ingest.lanes import AcceptedRequest
from tests.gateway.conftest import RecordingStore, eventually
from tests.gateway.grpc.conftest import HEALTH, TRACES, Client, Connect
from tests.gateway.otlp import span, traces

SPAN = traces(span())


class HeldIngest:
    """Holds every request that is submitted until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.submitted = 0
        self.released = asyncio.Event()
        submit = JournaledIngest.submit

        async def held(ingest: JournaledIngest, accepted: AcceptedRequest) -> None:
            self.submitted += 1
            await self.released.wait()
            await submit(ingest, accepted)

        monkeypatch.setattr(JournaledIngest, "submit", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldIngest:
    return HeldIngest(monkeypatch)


def in_flight(client: Client) -> float | None:
    return client.gateway.telemetry.registry.get_sample_value("sluice_grpc_calls_in_flight")


async def begun(client: Client, held: HeldIngest, within_s: float | None = None) -> aio.UnaryUnaryCall[bytes, bytes]:
    """A call whose request is held."""
    method: aio.UnaryUnaryMultiCallable[bytes, bytes] = client.channel.unary_unary(TRACES)
    call = method(SPAN, metadata=aio.Metadata(*client.key()), timeout=within_s)
    await eventually(lambda: held.submitted == 1)
    return call


async def without_message(client: Client) -> aio.StreamUnaryCall[bytes, bytes]:
    """A call under way whose message is not sent."""
    method: aio.StreamUnaryMultiCallable[bytes, bytes] = client.channel.stream_unary(TRACES)
    call = method(metadata=aio.Metadata(*client.key()))
    await eventually(lambda: in_flight(client) == 1)
    return call


@pytest.mark.parametrize("leave", ["cancels", "deadline"])
async def test_a_client_that_leaves_changes_nothing_of_what_is_accepted(
    connect: Connect, held: HeldIngest, leave: str
) -> None:
    store = RecordingStore()
    client = await connect(store)
    call = await begun(client, held, within_s=0.5 if leave == "deadline" else None)
    if leave == "cancels":
        call.cancel()
    assert await call.code() is (StatusCode.CANCELLED if leave == "cancels" else StatusCode.DEADLINE_EXCEEDED)
    held.released.set()
    await eventually(lambda: in_flight(client) == 0)
    await client.gateway.all_stored()
    assert client.gateway.metric("items_total", outcome="accepted") == 1
    assert client.gateway.metric("stored_items_total") == 1
    assert client.gateway.metric("inflight_bytes") == 0
    assert "spans" in store.tables()


async def test_a_client_that_leaves_before_its_message_is_received_is_counted_as_refused(connect: Connect) -> None:
    client = await connect(RecordingStore())
    call = await without_message(client)
    call.cancel()
    await eventually(lambda: client.gateway.metric("requests_total", reason="bad_request") == 1)
    assert client.gateway.metric("inflight_bytes") == 0


async def test_a_stop_waits_for_calls_in_flight_and_refuses_others(connect: Connect, held: HeldIngest) -> None:
    client = await connect(RecordingStore())
    accepted = asyncio.ensure_future(client.call(TRACES, SPAN))
    await eventually(lambda: held.submitted == 1)
    stopping = asyncio.ensure_future(client.gateway.stop())
    await asyncio.wait_for(refused(client), 10)
    assert not stopping.done()
    held.released.set()
    assert (await accepted).code is StatusCode.OK
    await stopping
    assert client.gateway.metric("items_total", outcome="accepted") == 1


async def refused(client: Client) -> None:
    """Wait until a new connection is refused."""
    while True:
        async with aio.insecure_channel(f"127.0.0.1:{client.port}") as channel:
            method: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
            try:
                await method(b"", timeout=5)
            except aio.AioRpcError:
                return


async def test_what_its_client_has_left_is_stored_before_the_stop_ends(connect: Connect, held: HeldIngest) -> None:
    client = await connect(RecordingStore())
    (await begun(client, held)).cancel()
    stopping = asyncio.ensure_future(client.gateway.stop())
    await asyncio.wait_for(refused(client), 10)
    assert not stopping.done()
    held.released.set()
    await stopping
    assert client.gateway.metric("stored_items_total") == 1


async def test_a_message_that_is_not_complete_does_not_hold_up_a_stop_for_longer_than_allowed(connect: Connect) -> None:
    client = await connect(RecordingStore(), drain_timeout_s=0.2)
    call = await without_message(client)
    await asyncio.wait_for(client.gateway.stop(), 15)
    assert await call.code() is not grpc.StatusCode.OK
