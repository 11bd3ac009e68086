"""What stands between a gateway and its ClickHouse, and fails in the ways that networks and servers do.

    with Proxy(engine.port) as proxy:
        proxy.next(Reset())                                the next insert is applied, and its answer lost
        proxy.every(Refuse(252))                           every one from now on
        proxy.every(None)                                  all is well again
        proxy.refuse(); proxy.hang(); proxy.pass_on()      the whole server, as long as it is so

It lives on an event loop in a thread of its own; `seen` has the inserts that came by.
"""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple, Self, TypeAlias

import aiohttp
from aiohttp import web

ERRORS: Final = {
    252: "Too many parts (3000 with average size of 3.00 KiB) in table 'telemetry.spans'. Merges are processing "
    "significantly slower than inserts. (TOO_MANY_PARTS)",
    243: "Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)",
    117: "Cannot parse. (INCORRECT_DATA)",
    242: "Table is in readonly mode since table metadata was not found in zookeeper. (TABLE_IS_READ_ONLY)",
    319: "Unknown status, client must retry. Reason: connection loss. (UNKNOWN_STATUS_OF_INSERT)",
}
POLL_S: Final = 0.01
# The body is gone on: its length and framing are the proxy's own, and so is whether the connection stays.
_HOP_BY_HOP: Final = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length", "host"))


class Refuse(NamedTuple):
    """The insert is not applied. The answer is ClickHouse's error of this code, with its usual text or another; code 0:
    a proxy's 502.
    """

    code: int = 0
    text: str = ""


class Unknown(NamedTuple):
    """The insert is applied, and the answer is this error all the same, as of a server that does not know."""

    code: int = 319


class Reset(NamedTuple):
    """The connection is reset instead of an answer; where `applied`, after the insert was."""

    applied: bool = True


class Delay(NamedTuple):
    """The insert is applied, and answered, when `until` is set: its client may be gone by then."""

    until: threading.Event


Fault: TypeAlias = Refuse | Unknown | Reset | Delay | None


class Seen(NamedTuple):
    """An insert that came by, and what happened to it."""

    table: str
    token: str
    block: bytes
    fault: Fault


class Proxy:
    """A port of its own in front of the engine's. A context manager."""

    def __init__(self, target: int) -> None:
        self.seen: list[Seen] = []
        self.poison = b""  # where given: what happens to an insert that has it in its rows
        self.poisoned: Fault = Refuse(117)
        self._target = f"http://127.0.0.1:{target}"
        self._once: deque[Fault] = deque()
        self._always: Fault = None
        self._held = _bound(0)  # bound and not listening, so that the port is nobody else's while it refuses
        self.port: int = self._held.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._held.close()

    def reset(self) -> None:
        """All is well, and nothing has been seen."""
        self._once.clear()
        self.seen.clear()
        self.poison, self.poisoned, self._always = b"", Refuse(117), None
        self.pass_on()

    def next(self, *faults: Fault) -> None:
        """What happens to the next inserts, one each."""
        self._once.extend(faults)

    def every(self, fault: Fault) -> None:
        """What happens to all later ones; None: they are passed on."""
        self._always = fault

    def refuse(self) -> None:
        """Nobody listens any more, and connections are reset."""
        self._do(self._refuse())

    def hang(self) -> None:
        """Connections are taken, and nothing is answered."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def pass_on(self) -> None:
        """All is well. What hung is passed on, late."""
        self._do(self._pass_on())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(self._target, auto_decompress=False)
        self._server = web.Server(self._handle, access_log=None, auto_decompress=False)
        await self._pass_on()

    async def _stop(self) -> None:
        await self._refuse()
        self._open.set()
        await self._server.shutdown(1.0)
        await self._client.close()

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in self._server.connections:
            _reset(connection.transport)

    async def _pass_on(self) -> None:
        self._open.set()
        if self._listener is None:
            self._listener = await self._loop.create_server(self._server, sock=_bound(self.port), backlog=256)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        await self._open.wait()
        statement = request.query.get("query", "").split()
        if statement[:2] != ["INSERT", "INTO"]:
            return await self._passed(request, body)
        fault = self._once.popleft() if self._once else self._always
        if self.poison and self.poison in body:
            fault = self.poisoned
        self.seen.append(Seen(statement[2], request.query.get("insert_deduplication_token", ""), body, fault))
        if isinstance(fault, Refuse):
            return _failure(fault)
        if isinstance(fault, Delay):
            while not fault.until.is_set():
                await asyncio.sleep(POLL_S)
        if fault == Reset(applied=False):
            return _cut(request)
        answer = await self._passed(request, body)
        if isinstance(fault, Reset):
            return _cut(request)
        return _failure(Refuse(fault.code)) if isinstance(fault, Unknown) else answer

    async def _passed(self, request: web.BaseRequest, body: bytes) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        try:
            async with self._client.request(request.method, request.rel_url, data=body, headers=headers) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
        except aiohttp.ClientError:
            return web.Response(status=502)


def _failure(refusal: Refuse) -> web.Response:
    code = refusal.code
    if not code:
        return web.Response(status=502, text="Bad Gateway")
    said = refusal.text or ERRORS[code]
    text = f"Code: {code}. DB::Exception: {said} (version 26.9.2.1 (official build))\n"
    return web.Response(status=500, text=text, headers={"X-ClickHouse-Exception-Code": str(code)})


def _cut(request: web.BaseRequest) -> web.Response:
    _reset(request.transport)
    return web.Response()  # to nobody


def _bound(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _reset(transport: asyncio.BaseTransport | None) -> None:
    """End a connection with a reset, and not as if all was said."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
