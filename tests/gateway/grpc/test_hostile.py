"""Clients that send too much, too slowly, or not gRPC; and what they cost."""

import asyncio
import gzip
import subprocess
import sys
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc import StatusCode

from benchmarks.gateway.grpc_load import header_block
from gateway.grpc import service
from gateway.grpc.connections import MAX_METADATA_BYTES, MAX_STREAMS
from gateway.grpc.service import TOO_SLOW
from tests.gateway.conftest import RecordingStore, eventually
from tests.gateway.grpc.conftest import HEALTH, TRACES, Connect
from tests.gateway.grpc.frames import (
    CANCEL,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    PING,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    frame,
)
from tests.gateway.grpc.wires import Open, closed_connections, connections, prefixed, resident_bytes, works
from tests.gateway.otlp import span, traces
from tests.selection import scaled

SPAN = traces(span())
NO_ERROR = bytes(4)
MIB = 2**20


async def several(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def test_a_stream_has_exactly_one_message(connect: Connect) -> None:
    client = await connect(RecordingStore())
    several_messages = "The request has more than one message."
    for messages, text in (
        ((), "The request has no message, or the client has cancelled the request."),
        ((SPAN, SPAN), several_messages),
        ((SPAN, b""), several_messages),
    ):
        ended = await client.stream(TRACES, several(*messages))
        assert (ended.code, ended.message) == (StatusCode.INVALID_ARGUMENT, text)
    assert client.gateway.metric("items_total", outcome="accepted") == 0
    assert (await client.stream(TRACES, several(SPAN))).code is StatusCode.OK


async def test_without_a_key_and_for_the_health_service_no_message_is_received(
    connect: Connect, open_wire: Open
) -> None:
    """The status comes while the client has sent headers alone: what needs no key must not cost memory."""
    client = await connect(RecordingStore())
    wire = await open_wire(client)
    wire.begin(client, key=False)
    await wire.until(HEADERS)
    assert client.gateway.metric("requests_total", reason="unauthorized") == 1
    wire = await open_wire(client)
    wire.send(HEADERS, END_HEADERS, 1, header_block(HEALTH, []))
    assert await wire.until(DATA) == prefixed(b"\x08\x01")


async def test_a_message_that_does_not_come_or_does_not_end_ends_the_call(connect: Connect) -> None:
    client = await connect(RecordingStore(), body_timeout_s=0.1)

    async def endless(*messages: bytes) -> AsyncIterator[bytes]:
        for message in messages:
            yield message
        await asyncio.Event().wait()

    for messages in ((), (SPAN,)):
        ended = await client.stream(TRACES, endless(*messages))
        assert (ended.code, ended.message) == (StatusCode.UNAVAILABLE, TOO_SLOW)
    assert client.gateway.metric("items_total", outcome="accepted") == 0
    assert client.gateway.metric("inflight_bytes") == 0
    await works(client)


async def test_slow_messages_are_charged_as_the_largest_and_the_next_ones_refused(
    connect: Connect, open_wire: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "GRACE_S", 0.01)
    client = await connect(RecordingStore(), max_wire_bytes=64 * MIB, max_inflight_bytes=200 * MIB)
    wire = await open_wire(client)
    for stream in (1, 3, 5):
        wire.begin(client, stream)
        wire.send(DATA, 0, stream, prefixed(SPAN)[:-1])
    await eventually(lambda: client.gateway.metric("requests_total", reason="service_unavailable") >= 1)
    assert 64 * MIB <= client.gateway.metric("inflight_bytes") <= 200 * MIB
    await works(client)
    await wire.close()
    await eventually(lambda: client.gateway.metric("inflight_bytes") == 0)


async def test_the_decompressed_size_is_charged(connect: Connect) -> None:
    """Two bombs at once do not fit into the budget, though as they are sent they do."""
    client = await connect(RecordingStore(), max_inflight_bytes=50 * MIB, max_wire_bytes=MIB)
    bomb = gzip.compress(bytes(40 * MIB))
    ends = await asyncio.gather(*(client.call(TRACES, bomb, client.key(project)) for project in (0, 1)))
    assert StatusCode.OK not in {ended.code for ended in ends}
    assert client.gateway.metric("inflight_bytes") == 0
    assert client.gateway.metric("requests_total", reason="service_unavailable") >= 1


async def test_a_bomb_is_cut_off_at_the_body_cap(connect: Connect) -> None:
    """gRPC would decompress it whole: its limit is that of what is sent."""
    client = await connect(RecordingStore(), max_wire_bytes=MIB, max_body_bytes=MIB)
    ended = await client.call(TRACES, bytes(100 * MIB), compression=grpc.Compression.Gzip)
    assert (ended.code, ended.message) == (
        StatusCode.INVALID_ARGUMENT,
        f"The decompressed body is larger than {MIB} bytes.",
    )
    assert 0 < client.gateway.metric("wire_bytes_total", outcome="refused") < MIB


async def test_what_is_no_http2_and_a_connection_that_says_nothing_are_closed(
    connect: Connect, open_wire: Open
) -> None:
    client = await connect(RecordingStore(), header_timeout_s=0.2)
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(60), b"\x00" * 4_096, b""):
        await (await open_wire(client, sent)).closed()
    await works(client)


async def test_pings_that_come_too_often_close_the_connection(connect: Connect, open_wire: Open) -> None:
    client = await connect(RecordingStore())
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    for number in range(4):
        wire.send(PING, 0, 0, number.to_bytes(8, "big"))
    assert b"too_many_pings" in await wire.until(GOAWAY)
    await works(client)


async def test_metadata_up_to_the_limit_is_taken_and_more_is_refused_and_stores_nothing(connect: Connect) -> None:
    """By default the core refuses some of what is longer than half of it, at random."""
    client = await connect(RecordingStore())
    codes = []
    for size in [MAX_METADATA_BYTES - 1_024] * 20 + [MAX_METADATA_BYTES + 4_096]:
        codes.append((await client.call(TRACES, SPAN, (*client.key(), ("x-long", "x" * size)))).code)
    assert codes == [StatusCode.OK] * 20 + [StatusCode.RESOURCE_EXHAUSTED]
    assert client.gateway.metric("requests_total", outcome="answered") == 20
    await works(client)


async def test_a_connection_has_so_many_calls_at_most(
    connect: Connect, open_wire: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client begins beyond them is refused by a reset."""
    monkeypatch.setattr(service, "GRACE_S", 3_600)  # else the memory budget ends some of them
    client = await connect(RecordingStore())
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    for number in range(MAX_STREAMS + 1):
        wire.begin(client, 2 * number + 1)
    assert int.from_bytes(await wire.until(RST_STREAM), "big") in (REFUSED_STREAM, ENHANCE_YOUR_CALM)
    in_flight = client.gateway.telemetry.registry.get_sample_value
    await eventually(lambda: in_flight("sluice_grpc_calls_in_flight") == MAX_STREAMS)
    await wire.close()
    await eventually(lambda: in_flight("sluice_grpc_calls_in_flight") == 0)


async def test_calls_that_are_reset_at_once_leave_nothing_behind(connect: Connect, open_wire: Open) -> None:
    """CVE-2023-44487."""
    client = await connect(RecordingStore())
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    for number in range(2_000):
        wire.begin(client, 2 * number + 1)
        wire.send(RST_STREAM, 0, 2 * number + 1, CANCEL.to_bytes(4, "big"))
    await works(client)
    registry = client.gateway.telemetry.registry
    await eventually(lambda: registry.get_sample_value("sluice_grpc_calls_in_flight") == 0)
    assert client.gateway.metric("inflight_bytes") == 0
    await wire.closed()
    assert closed_connections(client) == {"frame_rate": 1.0}


async def test_at_the_limit_an_idle_connection_gives_way_to_a_new_one(connect: Connect, open_wire: Open) -> None:
    """First one that never had a call, so the channel stays connected."""
    client = await connect(RecordingStore(), max_connections=2)
    await works(client)
    second = await open_wire(client)
    await second.until(SETTINGS)
    third = await open_wire(client)
    await third.until(SETTINGS)
    assert (await second.until(GOAWAY))[4:] == NO_ERROR
    await second.closed()
    await works(client)
    assert closed_connections(client) == {"idle": 1.0}


async def test_at_the_limit_connections_with_calls_stay_and_new_ones_are_closed(
    connect: Connect, open_wire: Open
) -> None:
    client = await connect(RecordingStore(), max_connections=2)
    busy = [await open_wire(client) for _ in range(2)]
    for wire in busy:
        wire.begin(client)
    in_flight = client.gateway.telemetry.registry.get_sample_value
    await eventually(lambda: in_flight("sluice_grpc_calls_in_flight") == 2)
    third = await open_wire(client)
    assert await third.closed() == b""
    for wire in busy:
        wire.send(DATA, END_STREAM, 1, prefixed(SPAN))
        await wire.until(DATA)
    assert closed_connections(client) == {"limit": 1.0}


async def test_at_the_limit_a_call_whose_headers_have_not_ended_gives_way(connect: Connect, open_wire: Open) -> None:
    client = await connect(RecordingStore(), max_connections=1)
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    wire.writer.write(frame(HEADERS, END_HEADERS, 1, header_block(TRACES, []))[:-1])
    await works(client)
    await wire.closed()
    assert closed_connections(client) == {"idle": 1.0}


async def test_an_address_has_so_many_connections_at_most_unless_it_is_that_of_a_trusted_proxy(
    connect: Connect, open_wire: Open
) -> None:
    client = await connect(RecordingStore(), max_connections_per_address=2)
    first, second = [await open_wire(client) for _ in range(2)]
    for wire in (first, second):
        await wire.until(SETTINGS)
    assert await (await open_wire(client)).closed() == b""
    assert closed_connections(client) == {"limit": 1.0}
    await first.close()
    await eventually(lambda: connections(client) == 1)
    await works(client)
    client = await connect(RecordingStore(), max_connections_per_address=2, trusted_proxies=("127.0.0.0/8",))
    for wire in [await open_wire(client) for _ in range(3)]:
        await wire.until(SETTINGS)
    assert closed_connections(client) == {}


FLOOD = """
import asyncio, sys
from grpc import aio

async def flood(port, connections, calls):
    message = bytes(2**20)
    async def one():
        own = [("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
            method = channel.unary_unary(sys.argv[2])
            ends = await asyncio.gather(*(method(message, timeout=60) for _ in range(calls)), return_exceptions=True)
            return {each.code().name for each in ends}
    print(*set().union(*await asyncio.gather(*(one() for _ in range(connections)))))

asyncio.run(flood(int(sys.argv[1]), 20, int(sys.argv[3])))
"""


@pytest.mark.sized
async def test_a_flood_of_calls_without_a_key_costs_no_message_memory(connect: Connect) -> None:
    """20 connections offer 1 000 MiB (`make test-long`: 2 000). By default the core would hold hundreds of them."""
    calls = scaled(50, 100)  # of each connection
    client = await connect(RecordingStore(), failed_key_rate=0)
    await works(client)
    before = resident_bytes()
    flood = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", FLOOD, str(client.port), TRACES, str(calls)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert flood.stdout is not None
    most, output = 0, asyncio.ensure_future(flood.stdout.read())
    while not output.done():
        most = max(most, resident_bytes() - before)
        await asyncio.wait([output], timeout=0.005)
    assert (await output).split() == [b"UNAUTHENTICATED"]
    assert await flood.wait() == 0
    assert client.gateway.metric("requests_total", reason="unauthorized") == 20 * calls
    assert most < 100 * MIB


async def test_an_idle_connection_is_closed_and_its_client_connects_again(connect: Connect, open_wire: Open) -> None:
    client = await connect(RecordingStore(), keepalive_timeout_s=0.3, header_timeout_s=3_600)
    wire = await open_wire(client)
    await works(client)
    seen = client.channel.get_state()
    await wire.until(GOAWAY)
    await eventually(lambda: client.channel.get_state() is not seen)
    await works(client)
