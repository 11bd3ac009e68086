"""Answers from when they are made until their clients have them: how many bytes of them are in memory, and whose.

A client that takes nothing keeps its answer in memory until the connection's own deadline (`chassis.http.connections`).
Where other answers wait for that room, it is cut sooner, and so is one that takes its time.
"""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from chassis.errors import ServiceUnavailable
from chassis.http.connections.send_progress import unacknowledged_bytes
from chassis.http.web import JSON_TYPE
from query import metrics
from query.fair_semaphore import FairSemaphore, QueueFull, Requester, ShareLimits
from query.metrics import QueryMetrics
from query.question import JsonResult

CHUNK_BYTES: Final = 64 * 2**10  # bytes; so much of an answer is copied for a connection at a time
TRUNCATED_HEADER: Final = "X-Sluice-Truncated"
_CHECKS_PER_STALL: Final = 4  # at who takes too little, in the time that he may


class SendBuffer:
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
        query_metrics: QueryMetrics,
        min_rate: int = 0,
    ) -> None:
        self._capacity = FairSemaphore(max_bytes, ShareLimits.of(max_bytes), max_waiting)
        self._max_wait_s = max_wait_s
        self._stall_s = stall_s
        self._min_bytes = max(1.0, stall_s * min_rate)  # bytes in that time
        self._metrics = query_metrics
        self._responses: set[BufferedResponse] = set()
        self._timer: asyncio.TimerHandle | None = None
        query_metrics.register_gauge(
            "send_buffer_bytes", "Bytes of responses that are made and not taken yet.", lambda: self._capacity.in_use
        )

    async def reserve(self, requester: Requester, result: JsonResult) -> "BufferedResponse":
        """Take room for an answer, to be given back. Raises ServiceUnavailable."""
        self._schedule_check()
        try:
            async with asyncio.timeout(self._max_wait_s):
                size = await self._capacity.acquire(requester, len(result.body))
        except (TimeoutError, QueueFull) as error:
            self._metrics.record_refusal(metrics.SEND_BUFFER_FULL)
            raise ServiceUnavailable(
                "Responses that clients do not take fill the send buffer; ask again later."
            ) from error
        parcel = BufferedResponse(self, requester, result, size)
        self._responses.add(parcel)
        return parcel

    def release(self, response: "BufferedResponse", size: int) -> None:
        """The answer is not in memory any more."""
        self._responses.discard(response)
        self._capacity.release(response.requester, size)

    def _schedule_check(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._stall_s / _CHECKS_PER_STALL, self._abort_stalled)

    def _abort_stalled(self) -> None:
        """Cut who is in the way of others and takes too little; look again for as long as anybody waits."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        for parcel in [each for each in self._responses if self._capacity.blocks_others(each.requester)]:
            in_time = parcel.size * self._stall_s / self._max_wait_s
            if parcel.is_stalled(now, self._stall_s, max(self._min_bytes, in_time)):
                self._metrics.slow_clients_closed.inc(parcel.abort())
        if self._capacity.waiting:
            self._schedule_check()


class BufferedResponse:
    """An answer in memory, sent over any number of connections."""

    def __init__(self, buffer: SendBuffer, requester: Requester, result: JsonResult, size: int) -> None:
        self.requester = requester
        self.size = len(result.body)
        self._buffer = buffer
        self._result = result
        self._reserved_bytes = size
        self._connections: set[_ChunkedPayload] = set()

    def to_response(self, request: web.Request) -> web.Response:
        """A 200 of it."""
        pieces = _ChunkedPayload(self._result.body, request.transport)
        self._connections.add(pieces)
        answer = web.Response(body=pieces)
        if self._result.truncated:
            answer.headers[TRUNCATED_HEADER] = self._result.truncated
        return answer

    def is_stalled(self, now: float, seconds: float, min_bytes: float) -> bool:
        """Whether none of its clients has taken `least` bytes for so long, as far as that was looked at."""
        stalled = [each.is_stalled(now, seconds, min_bytes) for each in self._connections]
        return bool(stalled) and all(stalled)

    def abort(self) -> int:
        """Cut its connections; how many."""
        return sum(each.abort() for each in self._connections)

    def release(self) -> None:
        """Nobody wants it any more."""
        self._connections.clear()
        self._buffer.release(self, self._reserved_bytes)


class _ChunkedPayload(Payload):
    """The bytes of an answer over one connection, written as its client takes them."""

    def __init__(self, body: bytes, transport: asyncio.Transport | None) -> None:
        super().__init__(body, content_type=JSON_TYPE)
        self._size = len(body)
        self._transport = transport
        self._written_bytes = 0  # to the transport
        self._checkpoint_bytes: int | None = None  # by the client, when its time began
        self._checkpoint_at = 0.0  # when that was

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Give the connection a piece when it has room for one."""
        body = memoryview(self._value)
        for at in range(0, len(body), CHUNK_BYTES):
            piece = body[at : at + CHUNK_BYTES]
            self._written_bytes += len(piece)
            await writer.write(piece)
            await writer.drain()

    def is_stalled(self, now: float, seconds: float, min_bytes: float) -> bool:
        """Whether the client has taken less than `least` bytes for so long."""
        if self._transport is None or self._transport.is_closing():
            return False
        taken = self._written_bytes - unacknowledged_bytes(self._transport)
        if self._checkpoint_bytes is None or taken - self._checkpoint_bytes >= min_bytes:
            self._checkpoint_bytes, self._checkpoint_at = taken, now
        return now - self._checkpoint_at >= seconds

    def abort(self) -> bool:
        """End the connection at once, unless it has ended."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.abort()
        return True
