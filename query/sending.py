"""Answers from when they are made until their clients have them: how many bytes of them are in memory, and whose.

A client that takes nothing keeps its answer in memory until the connection's own deadline (`chassis.connections`).
Where other answers wait for that room, it is cut sooner, and so is one that takes its time.
"""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from chassis.connections.taking import untaken
from chassis.errors import ServiceUnavailable
from chassis.web import JSON_TYPE
from query import metrics
from query.metrics import QueryMetrics
from query.question import Made
from query.turns import Asker, Shares, TooManyWait, Turns

PIECE: Final = 64 * 2**10  # bytes; so much of an answer is copied for a connection at a time
TRUNCATED: Final = "X-Sluice-Truncated"
_LOOKS: Final = 4  # at who takes too little, in the time that he may


class Sending:
    """Room for `max_bytes` of answers, one user and one organization having their shares of it (`Shares.of`).

    One more waits for `max_wait_s`, `max_waiting` of them at most. Meanwhile a client in its way is cut once it has
    for `stall_s` taken less than `min_rate` bytes a second (nothing where that is 0), or than would take it through its
    answer in `max_wait_s`: who waits would have waited in vain.
    """

    def __init__(
        self,
        max_bytes: int,
        max_wait_s: float,
        max_waiting: int,
        stall_s: float,
        counted: QueryMetrics,
        min_rate: int = 0,
    ) -> None:
        self._room = Turns(max_bytes, Shares.of(max_bytes), max_waiting)
        self._max_wait_s = max_wait_s
        self._stall_s = stall_s
        self._least = max(1.0, stall_s * min_rate)  # bytes in that time
        self._metrics = counted
        self._parcels: set[Parcel] = set()
        self._watch: asyncio.TimerHandle | None = None
        counted.gauge(
            "send_buffer_bytes", "Bytes of responses that are made and not taken yet.", lambda: self._room.held
        )

    async def pack(self, asker: Asker, made: Made) -> "Parcel":
        """Take room for an answer, to be given back. Raises ServiceUnavailable."""
        self._watch_who_stalls()
        try:
            async with asyncio.timeout(self._max_wait_s):
                size = await self._room.take(asker, len(made.body))
        except (TimeoutError, TooManyWait) as error:
            self._metrics.refused(metrics.SEND_BUFFER_FULL)
            raise ServiceUnavailable(
                "Responses that clients do not take fill the send buffer; ask again later."
            ) from error
        parcel = Parcel(self, asker, made, size)
        self._parcels.add(parcel)
        return parcel

    def give_back(self, parcel: "Parcel", size: int) -> None:
        """The answer is not in memory any more."""
        self._parcels.discard(parcel)
        self._room.give_back(parcel.asker, size)

    def _watch_who_stalls(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._stall_s / _LOOKS, self._look)

    def _look(self) -> None:
        """Cut who is in the way of others and takes too little; look again for as long as anybody waits."""
        self._watch = None
        now = asyncio.get_running_loop().time()
        for parcel in [each for each in self._parcels if self._room.in_the_way(each.asker)]:
            in_time = parcel.size * self._stall_s / self._max_wait_s
            if parcel.stalls(now, self._stall_s, max(self._least, in_time)):
                self._metrics.slow_clients_closed.inc(parcel.cut())
        if self._room.waiting:
            self._watch_who_stalls()


class Parcel:
    """An answer in memory, sent over any number of connections."""

    def __init__(self, sending: Sending, asker: Asker, made: Made, size: int) -> None:
        self.asker = asker
        self.size = len(made.body)
        self._sending = sending
        self._made = made
        self._size = size
        self._connections: set[_Pieces] = set()

    def answer(self, request: web.Request) -> web.Response:
        """A 200 of it."""
        pieces = _Pieces(self._made.body, request.transport)
        self._connections.add(pieces)
        answer = web.Response(body=pieces)
        if self._made.truncated:
            answer.headers[TRUNCATED] = self._made.truncated
        return answer

    def stalls(self, now: float, seconds: float, least: float) -> bool:
        """Whether none of its clients has taken `least` bytes for so long, as far as that was looked at."""
        stalled = [each.stalls(now, seconds, least) for each in self._connections]
        return bool(stalled) and all(stalled)

    def cut(self) -> int:
        """Cut its connections; how many."""
        return sum(each.cut() for each in self._connections)

    def give_back(self) -> None:
        """Nobody wants it any more."""
        self._connections.clear()
        self._sending.give_back(self, self._size)


class _Pieces(Payload):
    """The bytes of an answer over one connection, written as its client takes them."""

    def __init__(self, body: bytes, transport: asyncio.Transport | None) -> None:
        super().__init__(body, content_type=JSON_TYPE)
        self._size = len(body)
        self._transport = transport
        self._given = 0  # to the transport
        self._taken: int | None = None  # by the client, when its time began
        self._since = 0.0  # when that was

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Give the connection a piece when it has room for one."""
        body = memoryview(self._value)
        for at in range(0, len(body), PIECE):
            piece = body[at : at + PIECE]
            self._given += len(piece)
            await writer.write(piece)
            await writer.drain()

    def stalls(self, now: float, seconds: float, least: float) -> bool:
        """Whether the client has taken less than `least` bytes for so long."""
        if self._transport is None or self._transport.is_closing():
            return False
        taken = self._given - untaken(self._transport)
        if self._taken is None or taken - self._taken >= least:
            self._taken, self._since = taken, now
        return now - self._since >= seconds

    def cut(self) -> bool:
        """End the connection at once, unless it has ended."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.abort()
        return True
