"""What is turned away before it is parsed, on real sockets: its answer, and what becomes of its body and its place."""

import asyncio
import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from chassis.errors import BadRequest, ServiceUnavailable
from chassis.http.body import read_body
from chassis.http.preparse import MAX_DISCARDED_BYTES, RequestPreview, date_line
from chassis.http.web import Route, json_response, public
from tests.chassis.conftest import DEADLINE_S, Serve, Served, read_all, until
from tests.chassis.http.test_connections import SOON, split

TURNED_AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nX-By: gate\r\n\r\nfull"
ONE = b"1" * 32
HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nX-Legacy-Auth: Legacy legacy_key=%s\r\n" % ONE


@dataclass
class Gatekeeper:
    """Lets as many in as there are `places`, and notes what it is told. It is a place as well."""

    places: int = 0
    told: list[str] = field(default_factory=list)
    entering: Callable[[], None] = lambda: None

    def cached_refusal(self, _preview: RequestPreview) -> bytes | None:
        return None

    def try_acquire(self, client_key: bytes) -> "Gatekeeper | None":
        if not self.places:
            self.told.append("refused")
            return None
        self.places -= 1
        self.entering()
        self.told.append("in one" if client_key == ONE else "in")
        return self

    def on_body_received(self) -> None:
        if self.told[-1] != "whole":
            self.told.append("whole")

    def release(self, *, succeeded: bool) -> None:
        self.places += 1
        self.told.append("answered" if succeeded else "out")

    def overload_response(self, _preview: RequestPreview) -> bytes:
        return TURNED_AWAY

    def overload_error(self) -> ServiceUnavailable:
        return ServiceUnavailable("Full, says the skeleton.")


class House:
    """A server with a gate at POST /x, which answers with the length of a body; `hold` keeps it from answering."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.gate = Gatekeeper()
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancels = False
        self.free_of: list[asyncio.Transport] = []  # what requests of /free came by
        self.go_on.set()

    async def open(self, **options: float) -> Served:
        async def length(request: web.Request) -> web.Response:
            self.entered.set()
            size = len(await read_body(request, 10**8, DEADLINE_S))
            await self.go_on.wait()
            if size == 13:
                raise BadRequest("Thirteen.")
            return json_response({"bytes": size})

        async def free(request: web.Request) -> web.Response:
            assert request.transport is not None
            self.free_of.append(request.transport)
            return json_response({"free": True})

        gated = Route("POST", "/x", length, public(), pre_parse_filter=self.gate, cancel_on_disconnect=self.cancels)
        routes = [gated, Route("GET", "/free", free, public())]
        return await self._serve(routes, **options)

    async def begin(self, served: Served, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send this on a connection of its own, and wait until the handler has it."""
        reader, writer = await served.connect()
        writer.write(sent)
        await asyncio.wait_for(self.entered.wait(), DEADLINE_S)
        return reader, writer


async def expect_refusal(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.readexactly(len(TURNED_AWAY)) == TURNED_AWAY


@pytest.fixture
def house(serve: Serve) -> House:
    return House(serve)


def post(body: bytes, *more: bytes) -> bytes:
    return HEAD + b"".join(line + b"\r\n" for line in more) + b"Content-Length: %d\r\n\r\n" % len(body) + body


LAST = b"GET /free HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def test_who_is_turned_away_keeps_the_connection_and_its_body_is_dropped(house: House) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    for body in (b"", b"x" * 7, b"y" * 300_000):
        writer.write(post(body))
        await expect_refusal(reader)
    house.gate.places = 1
    writer.write(post(b"z" * 5))
    assert (await reader.readuntil(b"}")).endswith(b'{"bytes":5}')
    assert house.gate.told == ["refused"] * 3 + ["in one", "whole", "answered"]


async def test_the_answer_comes_while_the_body_is_still_on_its_way(house: House) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    sent = post(b"GET /free HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 1_000)
    writer.write(sent[:300])
    await expect_refusal(reader)
    for at in range(300, len(sent), 100):
        writer.write(sent[at : at + 100])
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(LAST)
    assert (await read_all(reader)).endswith(b'{"free":true}')


async def test_what_follows_the_rest_of_a_dropped_body_is_read(house: House) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    sent = post(b"x" * 1_000)
    writer.write(sent[:500])
    await expect_refusal(reader)
    writer.write(sent[500:] + LAST)
    assert (await read_all(reader)).endswith(b'{"free":true}')


async def test_a_dropped_body_that_does_not_come_ends_the_connection(house: House) -> None:
    served = await house.open(header_timeout_s=SOON)
    assert await served.talk(post(b"x" * 1_000)[:-1]) == TURNED_AWAY


async def test_a_place_is_held_until_the_answer_and_counts_from_the_last_byte(house: House) -> None:
    house.gate.places = 1
    served = await house.open()
    reader, writer = await house.begin(served, post(b"x" * 9)[:-4])
    assert house.gate.told == ["in one"]
    writer.write(b"xxxx")
    assert (await reader.readuntil(b"}")).endswith(b'{"bytes":9}')
    assert house.gate.told == ["in one", "whole", "answered"]
    writer.write(post(b"x" * 13))
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 400")
    assert house.gate.told[3:] == ["in one", "whole", "out"]


async def test_whoever_hangs_up_holds_the_place_for_as_long_as_its_handler_goes_on(house: House) -> None:
    house.gate.places = 1
    house.go_on.clear()
    served = await house.open()
    _, writer = await house.begin(served, post(b"x"))
    writer.transport.abort()
    await until(lambda: served.telemetry.connections._value.get() == 0)
    reader, writer = await served.connect()
    writer.write(post(b"y"))
    await expect_refusal(reader)
    house.go_on.set()
    await until(lambda: house.gate.told[-1:] == ["answered"])
    assert (house.gate.told, house.gate.places) == (["in one", "whole", "refused", "answered"], 1)


@pytest.mark.parametrize("whole", [False, True], ids=["the body breaks off", "its handler is cancelled"])
async def test_a_place_is_free_again_when_the_client_leaves(house: House, *, whole: bool) -> None:
    house.gate.places = 1
    house.go_on.clear()
    house.cancels = whole
    served = await house.open()
    _, writer = await house.begin(served, post(b"x" * 9) if whole else post(b"x" * 9)[:-1])
    writer.transport.abort()
    await until(lambda: house.gate.told[-1:] == ["out"])
    assert (house.gate.told, house.gate.places) == (["in one", *["whole"] * whole, "out"], 1)


async def test_a_place_is_free_again_when_the_connection_breaks_before_there_is_a_handler(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """It is lost in the turn of the loop in which the head is parsed."""
    house.gate.places = 1
    served = await house.open()
    reader, writer = await served.connect()
    writer.write(b"GET /free HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        await reader.readuntil(b"}")
    house.gate.entering = house.free_of[0].abort
    writer.write(post(b"x"))
    await until(lambda: house.gate.told[-1:] == ["out"])
    assert (house.gate.told, house.gate.places, house.entered.is_set()) == (["in one", "whole", "out"], 1, False)
    gc.collect()
    assert caplog.records == [], "a task that failed unseen"


@pytest.mark.parametrize(
    ("more", "body", "ends"),
    [
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", False, id="chunked"),
        pytest.param(b"Origin: http://page\r\nContent-Length: 3\r\n\r\n", b"abc", False, id="page"),
        pytest.param(b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", b"", True, id="expecting"),
        pytest.param(b"Content-Length: %d\r\n\r\n" % 10**8, b"abc", True, id="long"),
        pytest.param(b"Connection: Close\r\nContent-Length: 3\r\n\r\n", b"abc", True, id="the last"),
        pytest.param(b"Connection: x, close\r\nContent-Length: 3\r\n\r\n", b"", True, id="the last, its body later"),
    ],
)
async def test_what_is_unusual_is_turned_away_by_the_skeleton(
    house: House, more: bytes, body: bytes, *, ends: bool
) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    writer.write(HEAD + more + body)
    if not ends:
        async with asyncio.timeout(DEADLINE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.write(LAST)
    else:
        head = b""
    status, headers, _ = split(head + await read_all(reader))
    assert (status, headers.get("connection")) == (503, "close" if ends else None)
    assert 1 <= int(headers["retry-after"]) <= 5
    assert house.gate.told == ["refused"]
    assert b"100 Continue" not in head


async def test_a_long_body_is_dropped_up_to_a_limit(house: House) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    head = HEAD + b"Content-Length: %d\r\n\r\n" % MAX_DISCARDED_BYTES
    writer.write(head)
    await expect_refusal(reader)
    async with asyncio.timeout(DEADLINE_S):
        writer.write(bytes(MAX_DISCARDED_BYTES))
        await writer.drain()
    writer.write(LAST)
    assert (await read_all(reader)).endswith(b'{"free":true}')


async def test_answers_keep_the_order_of_their_requests(house: House) -> None:
    """One that is turned away while the one before has no answer yet waits for it."""
    house.gate.places = 1
    house.go_on.clear()
    served = await house.open()
    reader, writer = await house.begin(served, post(b"x"))
    writer.write(post(b"yy") + LAST)
    await writer.drain()
    assert (await served.get("/free"))[0] == 200  # by then it is read
    house.gate.places = -1  # so that there is none, either, when the first is given back
    house.go_on.set()
    answers = (await read_all(reader)).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"503", b"200"]


async def test_pipelined_requests_are_each_let_in_or_not(house: House) -> None:
    house.gate.places = 1
    served = await house.open()
    answers = (await served.talk(post(b"x") + post(b"yy") + LAST)).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"200", b"200"]
    assert house.gate.told == ["in one", "whole", "answered"] * 2


async def test_pipelined_requests_are_each_turned_away_before_they_are_parsed(house: House) -> None:
    served = await house.open()
    answers = await served.talk(post(b"x") + post(b"") + LAST)
    assert answers.startswith(TURNED_AWAY * 2 + b"HTTP/1.1 200")
    assert house.gate.told == ["refused"] * 2


async def test_a_fault_behind_the_rest_of_a_body_costs_no_request_between_them(house: House) -> None:
    house.gate.places = 1
    served = await house.open()
    first = post(b"x" * 9)
    reader, writer = await house.begin(served, first[:-4])
    writer.write(first[-4:] + post(b"y" * 5) + b"nonsense\r\n\r\n")
    answers = await read_all(reader)
    assert re.findall(rb"HTTP/1\.[01] ([0-9]+)", answers) == [b"200", b"200", b"400"]
    assert b'{"bytes":5}' in answers


async def test_what_could_be_framed_in_two_ways_is_left_to_the_parser(house: House) -> None:
    """Else whoever is behind the same proxy could be answered for somebody else."""
    served = await house.open()
    for lines in (
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding : chunked\r\n",
        b"Content-Length: 1\r\n chunked\r\n",
        b"Content-Length: 1\r\nA\0: b\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ):
        status, headers, _ = split(await served.talk(HEAD + lines + b"\r\nx"))
        assert (status, headers["connection"]) == (400, "close"), lines


async def test_a_head_in_two_pieces_finds_its_gate_too(house: House) -> None:
    served = await house.open()
    reader, writer = await served.connect()
    sent = post(b"x", b"Connection: close")
    writer.write(sent[:20])
    await writer.drain()
    assert (await served.get("/free"))[0] == 200  # by then it is read
    writer.write(sent[20:])
    assert split(await read_all(reader))[0] == 503
    assert house.gate.told == ["refused"]


async def test_other_paths_have_no_gate(house: House) -> None:
    served = await house.open()
    assert (await served.get("/free"))[0] == 200
    assert (await served.get("/x"))[0] == 405
    assert house.gate.told == []


def test_a_glimpse_is_what_the_head_says() -> None:
    head = b"POST /v1/traces?legacy_key=k HTTP/1.1\r\nHOST: a\r\ncontent-LENGTH: 7 \r\nAuthorization: DSN x\r\n\r\n"
    seen = RequestPreview.parse(head + b"rest")
    assert seen is not None
    found = (seen.route, seen.head_bytes, seen.content_length, seen.is_simple)
    assert found == (b"POST /v1/traces", len(head), 7, True)
    seen = RequestPreview.parse(b"POST /v1/traces?legacy_key=k HTTP/1.1\r\nHost: a\r\n\r\n")
    assert seen is not None
    assert seen.content_length == 0, "without a length there is no body"


def test_a_date_is_that_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, date in (
        (784_111_777.9, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (784_111_778, b"Sun, 06 Nov 1994 08:49:38 GMT"),
    ):
        monkeypatch.setattr("chassis.http.preparse.time.time", lambda now=now: now)
        assert date_line() == b"Date: %s\r\n" % date
