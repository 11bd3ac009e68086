"""What a client without a key can send outside of flow control, and how slowly: its connection is closed for it."""

import asyncio
import socket
from collections import Counter
from contextlib import suppress

import pytest
from grpc import StatusCode, aio

from benchmarks.gateway.grpc_load import header_block
from tests.gateway.conftest import RecordingStore, eventually
from tests.gateway.grpc.conftest import DEADLINE_S, TRACES, Connect
from tests.gateway.grpc.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    SETTINGS,
    UNKNOWN,
    WINDOW_UPDATE,
    frame,
)
from tests.gateway.grpc.wires import PREFIX, Open, Wire, closed_connections, prefixed, resident_bytes, works
from tests.gateway.otlp import span, traces

MIB = 2**20
CONNECTIONS = 16
FRAME = bytes(16_384)
BATCH = 50  # calls

# What begins them, what goes on, and how often; a server that goes on reading gets all of it.
ENDLESS = {
    "header_block": (frame(HEADERS, 0, 1, b"\x00\x7f\xff\xff\xff\x07"), frame(CONTINUATION, 0, 1, FRAME), 500),
    "frame_rate": (b"", frame(UNKNOWN, 0, 0, FRAME), 500),
}


@pytest.mark.parametrize("reason", ENDLESS)
async def test_floods_are_closed_and_take_no_memory(connect: Connect, open_wire: Open, reason: str) -> None:
    client = await connect(RecordingStore())
    await works(client)
    before, most = resident_bytes(), 0
    first, more, times = ENDLESS[reason]

    async def flood() -> None:
        nonlocal most
        wire = await open_wire(client, PREFIX + first)
        with suppress(ConnectionError):
            for _ in range(times):
                wire.writer.write(more)
                await wire.writer.drain()
                most = max(most, resident_bytes() - before)
        await wire.closed()

    async with asyncio.timeout(2 * DEADLINE_S):
        await asyncio.gather(*(flood() for _ in range(CONNECTIONS)))
    assert closed_connections(client) == {reason: CONNECTIONS}
    assert most < 100 * MIB
    await works(client)


TOLD = [
    (frame(PUSH_PROMISE, END_HEADERS, 1, bytes(8)), "frame_type", 1),
    (frame(CONTINUATION, END_HEADERS, 1), "frame_order", 1),
    (frame(DATA, 0, 1, bytes(16_385)), "frame_size", 6),
    (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 4_000, "header_block", ENHANCE_YOUR_CALM),
    *(
        (frame(kind, 0, 0, bytes(8)) * 1_200, "frame_rate", ENHANCE_YOUR_CALM)
        for kind in (PRIORITY, WINDOW_UPDATE, SETTINGS, PING, UNKNOWN)
    ),
]


async def test_a_client_is_told_why(connect: Connect, open_wire: Open) -> None:
    client = await connect(RecordingStore())
    closed: Counter[str] = Counter()
    for sent, reason, code in TOLD:
        wire = await open_wire(client)
        await wire.until(SETTINGS)
        wire.writer.write(sent)
        last_stream = int(reason == "header_block")
        assert await wire.until(GOAWAY) == last_stream.to_bytes(4, "big") + code.to_bytes(4, "big")
        await wire.closed()
        closed[reason] += 1
        assert closed_connections(client) == closed
    await works(client)


async def test_a_header_block_that_does_not_end_in_time_is_cut_off(connect: Connect, open_wire: Open) -> None:
    """However many frames it brings meanwhile."""
    client = await connect(RecordingStore(), header_timeout_s=0.3)
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    wire.send(SETTINGS, ACK, 0)  # which the core, too, awaits for 0.3 s
    wire.send(HEADERS, 0, 1, header_block(TRACES, []))
    dripping = asyncio.create_task(drip(wire, frame(CONTINUATION, 0, 1, b"\x40")))
    await wire.until(GOAWAY)
    await wire.closed()
    await dripping
    assert closed_connections(client) == {"slow": 1.0}


async def test_a_message_that_comes_too_slowly_is_cut_off_although_its_call_has_ended(
    connect: Connect, open_wire: Open
) -> None:
    """Without a key it ends at once; what is left of a frame is awaited as long as that of a body."""
    client = await connect(RecordingStore(), body_timeout_s=0.3, body_min_rate=2**20)
    wire = await open_wire(client)
    wire.begin(client, key=False)
    wire.writer.write(frame(DATA, 0, 1, bytes(16_000))[:100])
    dripping = asyncio.create_task(drip(wire, b"x"))
    await wire.until(GOAWAY)
    await wire.closed()
    await dripping
    assert closed_connections(client) == {"slow": 1.0}


async def drip(wire: Wire, piece: bytes) -> None:
    """Send it again and again until the connection is closed."""
    with suppress(ConnectionError):
        for _ in range(200):
            wire.writer.write(piece)
            await wire.writer.drain()
            await asyncio.sleep(0.01)
            if wire.reader.at_eof():
                return


async def test_a_slow_line_at_the_minimum_rate_is_not_cut_off(connect: Connect, open_wire: Open) -> None:
    """A frame whose bytes take many times the timeout, each of which prolongs it."""
    client = await connect(RecordingStore(), body_timeout_s=0.5, body_min_rate=1)
    wire = await open_wire(client)
    wire.begin(client, key=False)
    await wire.until(HEADERS)
    data = frame(DATA, 0, 1, bytes(60))
    for at in range(len(data)):
        wire.writer.write(data[at : at + 1])
        await asyncio.sleep(0.02)
    wire.send(PING, 0, 0, b"answered")
    while await wire.until(PING) != b"answered":
        pass
    assert closed_connections(client) == {}


async def test_a_client_that_waits_for_our_window_is_not_slow(connect: Connect, open_wire: Open) -> None:
    """It has sent whole frames, and no more than it may."""
    client = await connect(RecordingStore(), header_timeout_s=0.2, body_timeout_s=0.2)
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    wire.send(SETTINGS, ACK, 0)
    wire.begin(client)
    wire.send(DATA, 0, 1, prefixed(bytes(10**6))[:16_384])
    await wire.until(HEADERS)  # of the call that was not received in time
    wire.begin(client, 3)
    wire.send(DATA, END_STREAM, 3, prefixed(traces(span())))
    await wire.until(DATA)
    assert closed_connections(client) == {}


async def test_a_client_that_does_not_read_is_disconnected(connect: Connect, open_wire: Open) -> None:
    client = await connect(RecordingStore(), send_timeout_s=0.3, failed_key_rate=0)
    wire = await open_wire(client)
    await wire.until(SETTINGS)
    wire.send(SETTINGS, ACK, 0)
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of the transport

    def is_disconnected() -> bool:
        return closed_connections(client) == {"unread": 1.0}

    for calls in range(0, 20_000, BATCH):
        for number in range(calls, calls + BATCH):
            wire.send(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, header_block(TRACES, []))
        await eventually(
            lambda sent=calls + BATCH: is_disconnected() or client.gateway.metric("requests_total") == sent  # type: ignore[misc]
        )
        if is_disconnected():
            break
    assert is_disconnected()
    await works(client)


def loopback_addresses() -> list[str]:
    """Those of this machine, which may lack IPv6."""
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return ["127.0.0.1", "[::1]"]
    return ["127.0.0.1"]


async def test_on_all_addresses_clients_of_both_families_are_known_by_theirs(connect: Connect) -> None:
    """Each has failures of its own."""
    client = await connect(RecordingStore(), host="0.0.0.0", failed_key_rate=1, trusted_proxies=("127.0.0.1",))  # noqa: S104
    unknown = (("x-legacy-auth", f"Legacy legacy_key={'0' * 32}"), ("x-forwarded-for", "203.0.113.9"))
    codes = []
    for address in loopback_addresses():
        async with aio.insecure_channel(f"{address}:{client.port}") as channel:
            method: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES)
            with pytest.raises(aio.AioRpcError) as raised:
                await method(b"", metadata=unknown, timeout=DEADLINE_S)
            codes.append(raised.value.code())
    assert set(codes) == {StatusCode.UNAUTHENTICATED}
    elsewhere = (unknown[0], ("x-forwarded-for", "203.0.113.10"))  # the proxy is known by its IPv4 address
    assert (await client.call(TRACES, b"", elsewhere)).code is StatusCode.UNAUTHENTICATED
    assert (await client.call(TRACES, b"", unknown)).code is StatusCode.RESOURCE_EXHAUSTED
