"""Clients that mean no good, each for a time and in a process of its own; they say what they have done.

All but the bombs and the flood need no key: they are held off before one is looked at.
"""

import asyncio
import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

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
_ANSWER: Final = 65_536  # bytes, of which nothing is made


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

    def __init__(self, port: int, said: Sequence[bytes], count: int, *, drips: bool) -> None:
        self._port = port
        self._said = said
        self._count = count
        self._drips = drips
        self._held = self._made = self._most = 0

    async def hold(self, seconds: float) -> str:
        """Hold them for so long; how many there were."""
        end = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(self._keep(place, end) for place in range(self._count)))
        return f"{self._most} connections at once, {self._made} in all"

    async def _keep(self, place: int, end: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(place // _AT_ONCE * 0.02)
        while loop.time() < end:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(ADDRESS, 0))
            except OSError:
                await asyncio.sleep(_AGAIN_S)
                continue
            self._made, self._held = self._made + 1, self._held + 1
            self._most = max(self._most, self._held)
            with suppress(ConnectionError):
                writer.write(self._said[place % len(self._said)])
                await self._until_closed(reader, writer, end)
            self._held -= 1
            writer.close()
            await asyncio.sleep(_AGAIN_S)

    async def _until_closed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: float) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(_DRIP_S, left_s) if self._drips else left_s):
                    if not await reader.read(_ANSWER):
                        return
            except TimeoutError:
                if self._drips:
                    writer.write(b"x")
