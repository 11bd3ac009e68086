"""Request heads on a connection: the same answers however the bytes are cut, no error that gets out, bounded memory.

An input: a byte that chooses how it is cut, and what a client sends. A head may have 512 bytes here. POST /length says
how long a body is; a gate turns away who says so.
"""

import asyncio
import re
from random import Random
from typing import Any, Final

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.http.body import read_body
from chassis.http.connections.connection import HttpConnection
from chassis.http.connections.registry import ConnectionContext
from chassis.http.preparse import PRE_PARSE_FILTERS, RequestPreview
from chassis.http.web import Route, build_app, json_response, public
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

LIMIT: Final = 512
MOST: Final = 16 * LIMIT
TURNS: Final = 12  # of the loop, after which nothing moves any more
_ANSWER: Final = re.compile(rb"HTTP/1\.[01] (?!100)([0-9]{3}) |(\{\"bytes\":[0-9]+\})")
_SPENT: Final = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"


class OpenFilter:
    """Everybody has a place, but who says that he has spent what is his."""

    def cached_refusal(self, preview: RequestPreview) -> bytes | None:
        return _SPENT if b"x-spent" in preview.headers else None

    def try_acquire(self, _client_key: bytes) -> "OpenFilter":
        return self

    def overload_response(self, _preview: RequestPreview) -> bytes:
        raise AssertionError("there is a place")

    def overload_error(self) -> ServiceUnavailable:
        raise AssertionError("there is a place")

    def on_body_received(self) -> None:
        pass

    def release(self, *, succeeded: bool) -> None:
        pass


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.protocol: Any = None
        self.written = bytearray()
        self.paused = self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


async def _ok(_request: web.Request) -> web.Response:
    return json_response({})


async def _length(request: web.Request) -> web.Response:
    return json_response({"bytes": len(await read_body(request, 1_000, 600))})


class House:
    """A server without a socket."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._fault)
        self.faults: list[dict[str, Any]] = []
        settings = ChassisSettings(
            max_head_bytes=LIMIT, max_head_buffer_bytes=MOST, header_timeout_s=3_600, keepalive_timeout_s=3_600
        )
        telemetry = Telemetry("fuzz")
        routes = [
            Route("GET", "/x", _ok, public()),
            Route("POST", "/length", _length, public(), pre_parse_filter=OpenFilter()),
        ]
        app = build_app(routes, service="fuzz", settings=settings, telemetry=telemetry)
        runner = web.AppRunner(app, handle_signals=False)
        self.loop.run_until_complete(runner.setup())
        assert runner.server is not None
        self._server = runner.server
        self.plan = ConnectionContext(settings, telemetry, max_connections=100, filters=app[PRE_PARSE_FILTERS])

    def _fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(context)

    def answers(self, pieces: list[bytes]) -> list[bytes]:
        """Statuses and lengths of bodies that a client gets which sends these and hangs up."""
        return self.loop.run_until_complete(self._answers(pieces))

    async def _answers(self, pieces: list[bytes]) -> list[bytes]:
        wire = Wire(self.loop)
        connection = wire.protocol = HttpConnection(self._server, self.loop, self.plan)
        connection.connection_made(wire)
        await self._settle()
        for piece in pieces:
            if wire.closed or wire.paused:
                break
            connection.data_received(piece)
            assert len(connection._input) <= LIMIT + len(piece)
            assert self.plan.head_memory.total <= MOST
            await self._settle()
        found = [status or length for status, length in _ANSWER.findall(bytes(wire.written))]
        if found and found[-1].startswith(b"4"):  # of what begins no head it tells only later which path it would be of
            found[-1] = b"refused"
        wire.close()
        await self._settle()
        assert self.plan.head_memory.total == 0
        assert len(self.plan.registry) == 0
        assert not self.faults, self.faults
        return found

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


_house: list[House] = []  # made when it is first needed: importing does nothing


def check(data: bytes) -> None:
    if not _house:
        _house.append(House())
    house, sent = _house[0], data[1:]
    random = Random(data[:1])
    whole = house.answers([sent])
    for size in (1, random.randint(2, 40), random.randint(41, 700)):
        if size > 1 or len(sent) <= LIMIT:
            assert house.answers(_cut(sent, size, random)) == whole, size
    if len(sent) > LIMIT and b"\r\n\r\n" not in sent:
        assert whole or not sent.strip(b"\r\n")


def _cut(data: bytes, size: int, random: Random) -> list[bytes]:
    """Pieces of up to so many bytes."""
    pieces, at = [], 0
    while at < len(data):
        count = random.randint(1, size)
        pieces.append(data[at : at + count])
        at += count
    return pieces
