"""Clients that mean no good, each for a time and in a process of its own; they say what they have done.

All but the bombs and the flood need no key: they are held off before one is looked at.
"""

import asyncio
import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, cast

import uvloop

from benchmarks.gateway.bodies import KINDS
from benchmarks.overload.offering import Load, exports, offer
from benchmarks.report import by_status
from tests.faults.bombs import BOMBS, Bomb
from tests.faults.hostile import most_connections

Hostile = Callable[[int, str, float], str]

ADDRESS: Final = "127.0.0.2"  # not that of the good clients
THROWERS: Final = 4
SLOW: Final = 1_000
IDLE: Final = 10_000
FLOOD: Final = 256
_AGAIN_S: Final = 0.2  # before a connection that was closed is made again
_DRIP_S: Final = 1.0  # between two bytes
_AT_ONCE: Final = 100


def bombs(port: int, key: str, seconds: float) -> str:
    """Throw every bomb in turn, over several connections without a pause."""
    made = [make() for make in BOMBS.values()]
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_throw, args=(port, key, made[n:] + made[:n], end, statuses)) for n in range(THROWERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{statuses.total()} bombs: {by_status(statuses)}"


def _throw(port: int, key: str, made: list[Bomb], end: float, statuses: Counter[int]) -> None:
    while True:
        for bomb in made:
            if time.monotonic() > end:
                return
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(ADDRESS, 0))
            headers = {"Content-Type": bomb.media, "Content-Encoding": bomb.encoding}
            headers["X-Legacy-Auth"] = f"Legacy legacy_key={key}"
            try:
                connection.request("POST", "/v1/traces", bomb.content, headers)
                statuses[connection.getresponse().status] += 1
            except (OSError, http.client.HTTPException):
                statuses[0] += 1
            connection.close()


def slow(port: int, key: str, seconds: float) -> str:
    """Heads and bodies, a byte a second."""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: a\r\nX-Legacy-Auth: Legacy legacy_key={key}\r\n".encode()
    body = head + b"Content-Type: application/x-protobuf\r\nContent-Length: 60000000\r\n\r\n"
    return uvloop.run(_Crowd(port, (head, body), SLOW, drips=True).hold(seconds))


def idle(port: int, _key: str, seconds: float) -> str:
    """Ten thousand connections that were good for one request, and say nothing any more."""
    said = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    return uvloop.run(_Crowd(port, (said,), most_connections(IDLE), drips=False).hold(seconds))


def flood(port: int, key: str, seconds: float) -> str:
    """One project over many connections, each of which sends again as soon as it is answered, whatever it is told."""
    return f"requests: {by_status(offer(Load(port, exports(KINDS[0], key), 0, seconds, FLOOD)).statuses)}"


HOSTILE: Final[Mapping[str, Hostile]] = {
    f"{THROWERS} throwers of bombs": bombs,
    f"{SLOW} slow heads and bodies": slow,
    f"{IDLE} idle connections": idle,
    f"a flood of one project, {FLOOD} connections": flood,
}


class _Crowd:
    """Connections that are held for nothing, and made again when they are closed."""

    def __init__(self, port: int, said: tuple[bytes, ...], count: int, *, drips: bool) -> None:
        self._port = port
        self._said = said
        self._count = count
        self._drips = drips
        self._held: set[_Held] = set()
        self.made = 0
        self.most = 0

    async def hold(self, seconds: float) -> str:
        """Hold them for so long; how many there were."""
        end = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(self._keep(place, end) for place in range(self._count)))
        return f"{self.most} connections at once, {self.made} in all"

    async def _keep(self, place: int, end: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(place // _AT_ONCE * 0.02)
        while loop.time() < end:
            said = self._said[place % len(self._said)]
            try:
                _, held = await loop.create_connection(_Held, "127.0.0.1", self._port, local_addr=(ADDRESS, 0))
            except OSError:
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._until_closed(held, said, end)

    async def _until_closed(self, held: "_Held", said: bytes, end: float) -> None:
        loop = asyncio.get_running_loop()
        self.made += 1
        self._held.add(held)
        self.most = max(self.most, len(self._held))
        held.say(said)
        while not held.closed.is_set() and loop.time() < end:
            left_s = end - loop.time()
            try:
                await asyncio.wait_for(held.closed.wait(), min(_DRIP_S, left_s) if self._drips else left_s)
            except TimeoutError:
                held.say(b"x" if self._drips else b"")
        self._held.discard(held)
        held.end()
        await asyncio.sleep(_AGAIN_S)


class _Held(asyncio.Protocol):
    """One of them."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self.closed.set()

    def say(self, data: bytes) -> None:
        """Send something, if there is anybody to hear it."""
        if data and self._transport is not None and not self.closed.is_set():
            self._transport.write(data)

    def end(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()
