"""Connections cannot be held for nothing, seen on real sockets."""

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from chassis.errors import ApiError, BadRequest, Unauthorized
from chassis.http.body import read_body
from chassis.http.web import Route, json_response, public
from tests.chassis.conftest import DEADLINE_S, Serve, Served, read_all

SOON = 0.2  # seconds; a deadline short enough to wait for
UNPARSED = "The request head cannot be parsed."
UNSPOKEN = b"The supported HTTP versions are 1.1 and 1.0."


async def ok(_request: web.Request) -> web.Response:
    return json_response({})


async def length(request: web.Request) -> web.Response:
    return json_response({"bytes": len(await read_body(request, 1_000, SOON))})


async def refuse_and_keep(_request: web.Request) -> web.Response:
    raise Unauthorized


async def refuse(_request: web.Request) -> web.Response:
    raise Unauthorized(close=True)


ROUTES = [Route("GET", "/x", ok, public()), Route("POST", "/length", length, public())]


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(ROUTES)


def split(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}, body


async def test_a_connection_without_a_whole_head_is_closed(serve: Serve) -> None:
    served = await serve(ROUTES, header_timeout_s=SOON)
    sent = (b"", b"GET /x HTT", b"GET /x HTTP/1.1\r\nHost: a\r\nX-Slow: ")
    assert await asyncio.gather(*map(served.talk, sent)) == [b"", b"", b""]
    assert 'expired_connections_total{phase="head"} 3.0' in served.telemetry.exposition().decode()


async def test_the_second_head_of_a_kept_connection_has_a_deadline_too(serve: Serve) -> None:
    served = await serve(ROUTES, header_timeout_s=SOON)
    reader, writer = await served.connect()
    writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")
    writer.write(b"GET /x HTTP/1.1\r\n")
    assert await read_all(reader) == b""


async def test_a_kept_connection_that_stays_silent_is_closed(serve: Serve) -> None:
    served = await serve(ROUTES, keepalive_timeout_s=SOON)
    reader, writer = await served.connect()
    writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert split(await read_all(reader))[0] == 200


async def test_a_slow_head_does_not_cost_other_clients(serve: Serve) -> None:
    served = await serve(ROUTES, header_timeout_s=DEADLINE_S)
    stuck = [await served.connect() for _ in range(20)]
    for _, writer in stuck:
        writer.write(b"GET /x HT")
    assert (await served.get("/x"))[0] == 200


async def test_a_body_that_does_not_arrive_is_503_and_closed(served: Served) -> None:
    status, headers, body = split(
        await served.talk(b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
    )
    assert status == 503
    assert json.loads(body)["error"]["message"] == "The body was not received in time."
    assert 1 <= int(headers["retry-after"]) <= 5
    assert headers["connection"] == "close"


class Trickle:
    """A body that comes in pieces, each a moment of the loop's clock after the one before was read."""

    def __init__(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        self._serve = serve
        loop = asyncio.get_running_loop()
        time, self._passed = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: time() + self._passed)
        self._reads = 0

    async def status(self, pieces: int, nbytes: int, every_s: float, *, min_rate: int) -> int:
        """Of a body whose pieces have so many bytes; it may take 10 seconds, or more at `min_rate`."""

        async def read(request: web.Request) -> web.Response:
            body = await read_body(request, 10**6, 10.0, self._count, min_rate=min_rate)
            return json_response({"bytes": len(body)})

        served = await self._serve([Route("POST", "/read", read, public())])
        reader, writer = await served.connect()
        writer.write(b"POST /read HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % (pieces * nbytes))
        answer = asyncio.ensure_future(reader.read())
        for sent in range(1, pieces + 1):
            writer.write(bytes(nbytes))
            while self._reads < sent and not answer.done():
                await asyncio.sleep(0.001)
            self._passed += every_s
        status = split(await answer)[0]
        writer.close()
        return status

    def _count(self, _size: int) -> None:
        self._reads += 1


@pytest.mark.parametrize(
    ("body", "min_rate", "status"),
    [
        pytest.param((30, 1, 1.0), 100, 503, id="slower"),
        pytest.param((30, 200, 1.0), 100, 200, id="faster"),
        pytest.param((30, 200, 1.0), 0, 503, id="faster where nothing gives more time"),
        pytest.param((3, 20_000, 11.0), 100, 503, id="stalling after a fast beginning"),
    ],
)
async def test_a_body_may_take_long_but_not_stall(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, body: tuple[int, int, float], min_rate: int, status: int
) -> None:
    assert await Trickle(serve, monkeypatch).status(*body, min_rate=min_rate) == status


async def test_a_body_that_breaks_off_ends_the_request(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
    writer.close()
    await read_all(reader)
    assert (await served.get("/x"))[0] == 200


async def test_the_size_limit_holds_for_announced_and_for_chunked_bodies(served: Served) -> None:
    head = b"POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    for size, status in ((1_000, 200), (1_001, 413)):
        announced = b"Content-Length: %d\r\n\r\n%s" % (size, b"x" * size)
        chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, b"x" * size)
        for sent in (announced, chunked):
            answered, _, body = split(await served.talk(head + sent))
            assert answered == status
            if status == 413:
                assert json.loads(body)["error"]["message"] == "The body is larger than 1000 bytes."


async def test_continue_is_said_when_the_body_is_wanted(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("line", "status"),
    [(b"POST /refuse", 401), (b"POST /nowhere", 404), (b"POST /x", 405), (b"POST /length", 413)],
)
async def test_continue_is_not_said_to_who_is_refused(serve: Serve, line: bytes, status: int) -> None:
    """A body over the limit is refused unread."""
    served = await serve([*ROUTES, Route("POST", "/refuse", refuse, public())])
    size = 10**9 if status == 413 else 4
    sent = line + b" HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n" % size
    answer = await served.talk(sent)
    assert split(answer)[0] == status
    assert b"100 Continue" not in answer
    assert (b"Connection: close" in answer) is (status in (401, 413))


async def test_a_transfer_coding_besides_chunked_is_501(served: Served) -> None:
    sent = b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    status, headers, body = split(await served.talk(sent))
    assert (status, headers["connection"]) == (501, "close")
    assert json.loads(body)["error"] == {
        "code": "not_implemented",
        "message": "The only supported Transfer-Encoding is chunked.",
        "requestId": headers["x-request-id"],
    }


@pytest.mark.parametrize("method", [b"FETCH", b"get"])
async def test_an_unknown_method_is_405_like_any_other_that_the_path_lacks(served: Served, method: bytes) -> None:
    status, headers, body = split(await served.talk(method + b" /x HTTP/1.1\r\nHost: a\r\n\r\n"))
    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
    assert json.loads(body)["error"]["code"] == "method_not_allowed"
    assert split(await served.talk(method + b" /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 404


async def test_what_cannot_be_parsed_or_is_not_spoken_is_refused_as_its_path_refuses(serve: Serve) -> None:
    def render(request: web.Request, error: ApiError, _rid: str) -> web.Response:
        return web.Response(status=error.status, text=f"{request.headers.get('Content-Type')}: {error.message}")

    served = await serve([Route("POST", "/x", ok, public(), render_error=render)])
    for sent, told in (
        (b"POST /x HTTP/1.1\r\ncontent-type: text/own\r\nBad Header secret\r\n\r\n", UNPARSED.encode()),
        (b"POST /x HTTP/2.0\r\ncontent-type: text/own\r\n\r\n" * 2, UNSPOKEN),
    ):
        status, headers, body = split(await served.talk(sent))
        assert (status, headers["connection"], body) == (400, "close", b"text/own: " + told)


async def test_a_version_of_http_that_is_not_spoken_is_refused(served: Served) -> None:
    versions = (b"", b" HTTP/0.9", b" HTTP/2.0", b" HTTP/3.0", b" HTTP/2", b" HTTP/1.0")
    for before in (b"", b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"):
        answers = []
        for version in versions:
            sent = b"POST /length" + version + b"\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
            *_, answer = re.split(rb"(?=HTTP/[0-9]\.[0-9] )", await served.talk(before + sent))
            answers.append((answer[:12], json.loads(split(answer)[2]).get("error", {}).get("code")))
        assert answers == [(b"HTTP/1.1 400", "bad_request")] * 5 + [(b"HTTP/1.0 200", None)]


async def test_an_unknown_expectation_is_passed_over(served: Served) -> None:
    sent = b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: wonders\r\n\r\n"
    assert split(await served.talk(sent % b"/x"))[0] == 200
    assert split(await served.talk(sent % b"/nowhere"))[0] == 404


async def test_a_refused_body_is_not_drained(serve: Serve) -> None:
    """The answer and the end of the stream come while the client still has a gigabyte to send."""
    served = await serve([Route("POST", "/refuse", refuse, public())])
    reader, writer = await served.connect()
    writer.write(b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100_000)
    status, headers, _ = split(await read_all(reader))
    assert (status, headers["connection"]) == (401, "close")


class Slow:
    """A handler that answers when it is let."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)  # released by each request
        self.released = asyncio.Event()

    async def __call__(self, _request: web.Request) -> web.Response:
        self.entered.release()
        await self.released.wait()
        return json_response({})


async def test_one_connection_over_the_cap_is_answered_503_when_all_others_are_busy(serve: Serve) -> None:
    slow = Slow()
    served = await serve([Route("GET", "/slow", slow, public()), *ROUTES], max_connections=2)
    held = [await served.connect() for _ in range(2)]
    for _, writer in held:
        writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(slow.entered.acquire(), DEADLINE_S)
    status, headers, body = split(await served.talk(b""))
    assert status == 503
    assert json.loads(body)["error"] == {
        "code": "service_unavailable",
        "message": "Too many connections.",
        "requestId": headers["x-request-id"],
    }
    assert 1 <= int(headers["retry-after"]) <= 5
    assert headers["server"] == "sluice"
    assert headers["date"].endswith(" GMT")
    assert served.telemetry.registry.get_sample_value("sluice_http_refused_connections_total") == 1
    slow.released.set()
    for reader, _ in held:
        await reader.readuntil(b"{}")
    assert (await served.get("/x"))[0] == 200


async def test_at_the_cap_those_who_wait_give_way_and_strangers_first(serve: Serve) -> None:
    served = await serve(ROUTES, max_connections=4)
    known = [await served.connect() for _ in range(2)]
    for reader, writer in known:
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"{}")
    strangers = [await served.connect() for _ in range(2)]
    strangers[1][1].write(b"GET /x HTT")
    late = []
    for _ in range(3):  # the first two in the place of strangers, the third in that of the one known for longest
        reader, writer = await served.connect()
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")
        late.append((reader, writer))
    for reader, _ in (*strangers, known[0]):
        assert await read_all(reader) == b""
    for reader, writer in (known[1], *late):
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")
    exposed = served.telemetry.exposition().decode()
    assert 'expired_connections_total{phase="idle"} 3.0' in exposed
    assert "sluice_http_connections 4.0" in exposed


@pytest.mark.parametrize("trusted", [False, True], ids=["client", "proxy"])
async def test_one_address_has_a_cap_of_its_own_unless_it_is_a_proxy(serve: Serve, *, trusted: bool) -> None:
    proxies = ("127.0.0.2",) if trusted else ()
    served = await serve(ROUTES, max_connections_per_address=1, trusted_proxies=proxies)

    async def ask_from(address: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, local_addr=(address, 0))
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        status = split(await read_all(reader))[0]
        writer.close()
        return status

    _, held = await asyncio.open_connection("127.0.0.1", served.port, local_addr=("127.0.0.2", 0))
    assert await ask_from("127.0.0.2") == (200 if trusted else 503)
    assert await ask_from("127.0.0.3") == 200
    held.close()
    async with asyncio.timeout(DEADLINE_S):
        while await ask_from("127.0.0.2") != 200:
            await asyncio.sleep(0.01)


async def test_there_are_no_more_connections_than_file_descriptors_for_them(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chassis.runtime.fd_limits.connection_budget", lambda: 1)
    slow = Slow()
    with capture_logs() as lines:
        served = await serve([Route("GET", "/slow", slow, public())], max_connections=7)
    _, writer = await served.connect()
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    await asyncio.wait_for(slow.entered.acquire(), DEADLINE_S)
    assert split(await served.talk(b""))[0] == 503
    assert [(line["log_level"], line["configured"], line["connections"]) for line in lines] == [("warning", 7, 1)]
    slow.released.set()


def test_descriptors_are_raised_to_what_is_permitted_and_some_are_kept() -> None:
    code = """if True:
        import resource, sys
        from chassis.runtime import fd_limits
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1_000))
        kept = [open("/dev/null") for _ in range(100)]
        affordable = fd_limits.connection_budget()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_000, 1_000)
        assert 600 < affordable < 1_000 - 100 - fd_limits.RESERVED, affordable
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        assert fd_limits.connection_budget() == fd_limits.MIN_CONNECTIONS
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


REFUSED_HEADS = {
    b"nonsense secret-in-the-head": UNPARSED,
    b"GET /x HTTP/1.1\r\nBad Header secret": UNPARSED,
    b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked": UNPARSED,
    b"GET /x HTTP/1.1\r\nX-Long: " + b"s" * 8_191: "A line of the request head is longer than 8190 bytes.",
    b"GET /" + b"s" * 65_536 + b" HTTP/1.1": "The request head is longer than 65536 bytes.",
    b"GET /x HTTP/1.1" + b"\r\nX: s" * 129: "The request has more than 128 headers.",
}


async def test_a_head_that_cannot_be_parsed_is_400_in_the_envelope_without_echo(served: Served) -> None:
    for head, message in REFUSED_HEADS.items():
        status, headers, body = split(await served.talk(head + b"\r\n\r\n"))
        assert (status, headers["content-type"], headers["server"]) == (400, "application/json", "sluice")
        refusal = {"code": "bad_request", "message": message, "requestId": headers["x-request-id"]}
        assert json.loads(body) == {"error": refusal}, head[:40]
    status, _, body = split(
        await served.talk(b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    )
    assert (status, json.loads(body)["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize(("sent", "then"), [(b"2\r\n{}\r\n", b"ZZ\r\n\r\n"), (b"2\r\n{}\r", b"\nZZ\r\n\r\n")])
async def test_a_body_whose_framing_breaks_later_is_400_at_once(serve: Serve, sent: bytes, then: bytes) -> None:
    began = asyncio.Event()

    async def read(request: web.Request) -> web.Response:
        began.set()
        return json_response({"bytes": len(await read_body(request, 1_000, DEADLINE_S * 10))})

    served = await serve([Route("POST", "/read", read, public())])
    reader, writer = await served.connect()
    writer.write(b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
    await began.wait()
    assert (await served.get("/livez"))[0] == 200  # by then it is read
    writer.write(then)
    status, headers, body = split(await read_all(reader))
    assert (status, headers["connection"]) == (400, "close")
    assert json.loads(body)["error"]["message"] == "The body does not match its Content-Length or Transfer-Encoding."


def posted(body: bytes) -> bytes:
    return b"POST /length HTTP/1.1\r\nHost: a\r\nX-Request-Id: id-%d\r\nContent-Length: %d\r\n\r\n%s" % (
        *(len(body), len(body), body),
    )


async def test_whole_requests_before_a_fault_in_the_same_piece_are_answered(served: Served) -> None:
    for fault, status in (
        (b"POST /length HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"FETCH /length HTTP/1.1\r\nHost: a\r\n\r\n" + posted(b"lost"), 405),
    ):
        for before in (1, 2, 100):
            answers = await served.talk(b"".join(posted(b"x" * size) for size in range(before)) + fault)
            told = [split(answer) for answer in re.split(rb"(?=HTTP/1\.[01] )", answers)[1:]]
            assert [answer[0] for answer in told] == [200] * before + [status]
            assert [answer[1]["x-request-id"] for answer in told[:-1]] == [f"id-{size}" for size in range(before)]
            assert [json.loads(answer[2]) for answer in told[:-1]] == [{"bytes": size} for size in range(before)]


async def test_what_follows_the_last_request_of_a_connection_is_passed_over(served: Served) -> None:
    sent = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = await served.talk(sent + b"nonsense\r\n\r\n")
    assert (answer.count(b"HTTP/1.1"), split(answer)[0]) == (1, 200)


@pytest.mark.parametrize("path", [b"/nowhere", b"/length", b"/slow"])
async def test_a_body_that_nobody_wants_may_be_framed_wrongly_without_a_line_in_the_log(
    serve: Serve, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the answer, and behind it, when aiohttp drains the body."""
    slow = Slow()
    served = await serve([Route("POST", "/slow", slow, public()), Route("POST", "/length", refuse_and_keep, public())])
    reader, writer = await served.connect()
    writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    head = b""
    if path == b"/slow":
        await asyncio.wait_for(slow.entered.acquire(), DEADLINE_S)
    else:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
    writer.write(b"zz\r\n")
    assert (await served.get("/livez"))[0] == 200  # by then it is read
    slow.released.set()
    answer = head + await read_all(reader)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert split(answer)[0] == {b"/nowhere": 404, b"/length": 401, b"/slow": 200}[path]
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == []


@pytest.mark.parametrize(("method", "outcome"), [("GET", "cancelled"), ("POST", "finished")])
async def test_a_read_whose_client_leaves_is_cancelled_and_a_write_is_not(
    serve: Serve, method: str, outcome: str
) -> None:
    entered, left, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def wait(_request: web.Request) -> web.Response:
        entered.set()
        try:
            await go_on.wait()
            seen.append("finished")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            left.set()
        return json_response({})

    served = await serve([Route(method, "/wait", wait, public())])
    _, writer = await served.connect()
    writer.write(f"{method} /wait HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE_S):
        await entered.wait()
        writer.close()
        await writer.wait_closed()
        if outcome == "finished":
            go_on.set()
        await left.wait()
    assert seen == [outcome]


async def test_a_client_that_does_not_read_its_answer_is_cut(serve: Serve) -> None:
    async def much(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 50_000_000)

    served = await serve([Route("GET", "/much", much, public())], send_timeout_s=SOON)
    _, writer = await served.connect()
    writer.write(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        while 'expired_connections_total{phase="send"} 1.0' not in served.telemetry.exposition().decode():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("least", "whole"), [(8_192, True), (10**9, False)])
async def test_a_client_that_reads_slowly_and_steadily_has_its_answer_as_long_as_it_reads_fast_enough(
    serve: Serve, least: int, whole: bool
) -> None:
    """A rate of bytes a second, and 6 MB at some 3 MB/s, through buffers that hold half of it."""
    size = 6_000_000

    async def much(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * size)

    served = await serve([Route("GET", "/much", much, public())], send_timeout_s=2 * SOON, send_min_rate=least)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        client.setblocking(False)
        loop, received = asyncio.get_running_loop(), 0
        await loop.sock_connect(client, ("127.0.0.1", served.port))
        await loop.sock_sendall(client, b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(3 * DEADLINE_S):
            try:
                while received < size and (piece := await loop.sock_recv(client, 2**15)):
                    received += len(piece)
                    await asyncio.sleep(0.01)
            except ConnectionResetError:
                pass
    assert (received >= size) is whole
    assert ('expired_connections_total{phase="send"} 1.0' in served.telemetry.exposition().decode()) is not whole


async def test_compressed_bodies_are_left_as_they_came(served: Served) -> None:
    sent = (
        b"POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n"
    )
    assert json.loads(split(await served.talk(sent + b"abc"))[2]) == {"bytes": 3}


async def test_a_refusal_in_a_handler_of_a_bad_request_keeps_the_connection(serve: Serve) -> None:
    async def bad(_request: web.Request) -> web.Response:
        raise BadRequest("No.")

    served = await serve([Route("GET", "/bad", bad, public()), *ROUTES])
    reader, writer = await served.connect()
    writer.write(b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answer = await read_all(reader)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"HTTP/1.1 200" in answer
