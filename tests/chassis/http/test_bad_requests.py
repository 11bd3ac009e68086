"""Request heads: how long one may be, what all of them may take, and what waits behind a request under way."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from chassis.http.body import read_body
from chassis.http.connections.registry import HeadMemoryLimit
from chassis.http.web import Route, json_response, public
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import SettingsError
from tests.chassis.conftest import DEADLINE_S, Serve, Served, read_all, until
from tests.chassis.http.test_connections import Slow, ok

LIMIT = 2**13  # of a head, in these tests
KIB = 2**10


async def length(request: web.Request) -> web.Response:
    return json_response({"bytes": len(await read_body(request, 10**6, DEADLINE_S))})


ROUTES = [Route("GET", "/x", ok, public()), Route("POST", "/length", length, public())]


def head_of(size: int) -> bytes:
    """A whole head of so many bytes, in fields of which none is too long."""
    begin, end = b"GET /x HTTP/1.1\r\nHost: a\r\n", b"\r\n"
    fields = b"".join(b"X-%04d: %s\r\n" % (number, b"v" * 82) for number in range((size - 28) // 92))
    rest = size - len(begin) - len(fields) - len(end)
    return begin + fields[:-2] + b"v" * rest + b"\r\n" + end


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3})", answers)]


def held(served: Served) -> float:
    """What the metric says."""
    return metric(served, "bytes")


def metric(served: Served, name: str) -> float:
    return served.telemetry.registry.get_sample_value(f"sluice_http_head_{name}") or 0.0


async def talk(served: Served, pieces: Sequence[bytes]) -> bytes:
    """All that comes, when these are sent one by one, each read by itself as far as that can be had."""
    reader, writer = await served.connect()
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    try:
        return await read_all(reader)
    finally:
        writer.close()


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("piece", [10**6, 1_000, 7])
async def test_a_head_may_be_as_long_as_the_setting_says_and_not_longer(serve: Serve, piece: int) -> None:
    served = await serve(ROUTES, max_head_bytes=LIMIT, keepalive_timeout_s=2.0)
    assert statuses(await talk(served, cut(head_of(LIMIT), piece))) == [200]
    answer = await talk(served, cut(head_of(LIMIT + 1), piece))
    assert statuses(answer) == [400]
    told = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert (told["code"], told["message"]) == ("bad_request", f"The request head is longer than {LIMIT} bytes.")
    await until(lambda: held(served) == 0)


async def test_a_head_that_does_not_end_is_refused_at_the_limit_and_what_follows_is_thrown_away(serve: Serve) -> None:
    served = await serve(ROUTES, max_head_bytes=LIMIT, header_timeout_s=600)
    reader, writer = await served.connect()
    writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n")
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(200):
            writer.write(b"X-Field: " + b"v" * 1_000 + b"\r\n")
        answer = await reader.readuntil(b"}}")
    assert statuses(answer) == [400]
    assert held(served) <= LIMIT
    assert await read_all(reader) == b""


async def test_a_head_in_single_bytes_is_a_head(serve: Serve) -> None:
    served = await serve(ROUTES)
    sent = b"\r\n\nPOST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    last = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answers = await talk(served, cut(sent * 2 + last, 1))
    assert statuses(answers) == [200, 200, 200]
    assert answers.count(b'{"bytes":3}') == 2


async def test_what_cannot_become_a_head_is_refused_without_waiting_for_its_end(serve: Serve) -> None:
    served = await serve(ROUTES, max_head_bytes=LIMIT, header_timeout_s=600)
    lines = (b"GET /x HTTP/1.1\nHost: a\n\n", b"GET /x HTTP/1.1\r\nHost: a\n\n")
    for sent in (b"\x16\x03\x01\x02\x00\x01", *lines, b"hello"):
        assert statuses(await served.talk(sent)) == [400]
    answer = await served.talk(b"GET /" + b"x" * LIMIT)
    assert statuses(answer) == [400]
    assert b"The request head is longer than 8192 bytes." in answer


async def test_unfinished_heads_of_all_connections_have_a_limit_and_who_holds_most_goes_first(serve: Serve) -> None:
    most = 16 * LIMIT
    served = await serve(ROUTES, max_head_bytes=LIMIT, max_head_buffer_bytes=most, header_timeout_s=600)
    small, writer = await served.connect()  # was here first, and holds little
    writer.write(b"GET /x HTTP/1.1\r\nHos")
    await until(lambda: held(served) > 0)
    hostile = [await served.connect() for _ in range(40)]
    for _, other in hostile:
        other.write(head_of(LIMIT)[:-2])
    await until(lambda: metric(served, "memory_closed_connections_total") >= 40 - 16)
    assert most - LIMIT < held(served) <= most
    assert (await served.get("/x"))[0] == 200
    writer.write(b"t: a\r\nConnection: close\r\n\r\n")
    assert statuses(await read_all(small)) == [200]
    for _, other in hostile:
        other.close()
    writer.close()
    await until(lambda: held(served) == 0)


async def test_of_what_waits_behind_a_request_under_way_no_more_is_read_than_is_held(serve: Serve) -> None:
    slow = Slow()
    served = await serve([*ROUTES, Route("GET", "/slow", slow, public())], max_head_bytes=LIMIT)
    reader, writer = await served.connect()
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    await asyncio.wait_for(slow.entered.acquire(), DEADLINE_S)
    count = 4_000
    writer.write(head_of(2_000) * count)
    await until(lambda: held(served) > LIMIT)
    for _ in range(20):
        assert (await served.get("/x"))[0] == 200
    assert held(served) <= LIMIT + 256 * KIB + 4 * KIB  # what is read at once
    slow.released.set()
    answered = 0
    async with asyncio.timeout(6 * DEADLINE_S):
        while answered < count + 1:
            answered += (await reader.read(2**16)).count(b"HTTP/1.1 200")
    writer.close()
    await until(lambda: held(served) == 0)


CHUNKED = [
    (b"1;" + b"e" * 4_000 + b"\r\nx\r\n0\r\n\r\n", 200),  # an extension
    (b"1;" + b"e" * 4_100, 400),
    (b"1\r\nx\r\n0\r\n" + b"T: t\r\n" * 100 + b"\r\n", 200),  # fields
    (b"1\r\nx\r\n0\r\n" + b"T: %s\r\n" % (b"t" * 1_000) * 9, 400),
]


async def test_lines_of_chunks_and_fields_behind_them_have_a_limit(serve: Serve) -> None:
    served = await serve(ROUTES, max_head_bytes=LIMIT)
    head = b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    last = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    for body, status in CHUNKED:
        sent = head + body + (last if status == 200 else b"")
        for piece in (10**6, 1_000):
            assert statuses(await talk(served, cut(sent, piece))) == ([200, 200] if status == 200 else [400])


async def test_who_wants_another_protocol_is_answered_and_closed(serve: Serve) -> None:
    served = await serve(ROUTES)
    for line in (b"GET /x HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade", b"CONNECT a:1 HTTP/1.1"):
        answer = await served.talk(line + b"\r\nHost: a\r\n\r\n" + b"\x00" * 2**20)
        assert statuses(answer)[0] in (200, 400, 404, 405)
        assert b"Connection: close" in answer
        assert held(served) == 0


@dataclass(eq=False)
class Held:
    """A connection that notes whether it was shed."""

    is_authenticated: bool = False
    gone: list[bool] = field(default_factory=list)

    def close_for_memory(self) -> None:
        self.gone.append(True)


def test_of_those_who_hold_as_much_the_longest_goes_first_and_the_vouched_for_last() -> None:
    holdings = HeadMemoryLimit(1_000)
    vouched, first, second, little = Held(is_authenticated=True), Held(), Held(), Held()
    holdings.set_held(vouched, 300)
    for holder in (little, first, second):
        holdings.set_held(holder, 10)
    holdings.set_held(first, 300)
    holdings.set_held(second, 300)
    holdings.set_held(first, 310)  # its next piece
    assert holdings.total == 920
    holdings.set_held(little, 100)
    assert ([each.gone for each in (vouched, first, second, little)], holdings.total) == ([[], [True], [], []], 700)
    holdings.set_held(little, 900)
    assert ([each.gone for each in (vouched, second, little)], holdings.total) == ([[], [], [True]], 600)
    for holder in (vouched, second, first):
        holdings.release(holder)
    assert holdings.total == 0


def test_all_heads_have_room_for_several_of_the_longest() -> None:
    refused = "SLUICE_MAX_HEAD_BUFFER_BYTES must be at least 16 times SLUICE_MAX_HEAD_BYTES"
    with pytest.raises(SettingsError, match=refused):
        ChassisSettings(max_head_bytes=2**20, max_head_buffer_bytes=2**23).validate()
