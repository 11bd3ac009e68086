"""Limits the bytes of responses in memory, in total and per requester, from their building until their clients have
read them.

A client that reads nothing keeps its response in memory until the connection's own deadline
(`chassis.http.connections`). If other responses wait for this memory, the connection of a client that reads nothing or
too slowly is closed sooner.
"""

import asyncio
from typing import Final, NamedTuple

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from chassis.errors import JSON_TYPE, ServiceUnavailable
from chassis.http.compression import GZIP, MIN_BYTES, accepts_gzip, gzip_body
from chassis.http.connections.timeouts import unacknowledged_bytes
from chassis.http.web import JSON_HEADERS
from chassis.limits.fairness import FairSemaphore, QueueFull, Requester, ShareLimits
from query import metrics

CHUNK_BYTES: Final = 64 * 2**10  # bytes of a response that are copied to a connection at a time
TRUNCATED_HEADER: Final = "X-Sluice-Truncated"
_CHECKS_PER_STALL: Final = 4  # checks for stalled clients per stall_s


class JsonResult(NamedTuple):
    """The JSON of a 200; `truncated` names what was cut short if the body has no field that reports it."""

    body: bytes
    truncated: str = ""


class SendBuffer:
    """Memory for `max_bytes` of responses. One user and one organization can hold at most their shares
    (`ShareLimits.of`).

    Further responses wait for at most `max_wait_s`; at most `max_waiting` responses wait. While responses wait, a
    client that blocks them is disconnected if it reads too slowly for `stall_s`: less than `min_rate` bytes per second
    (if `min_rate` is 0: nothing), or too slowly to complete its response within `max_wait_s`, because the waiting
    responses would then time out.
    """

    def __init__(
        self,
        max_bytes: int,
        max_wait_s: float,
        max_waiting: int,
        stall_s: float,
        query_metrics: metrics.QueryMetrics,
        min_rate: int = 0,
    ) -> None:
        self._capacity = FairSemaphore(max_bytes, ShareLimits.of(max_bytes), max_waiting)
        self._max_wait_s = max_wait_s
        self._stall_s = stall_s
        self._min_bytes = max(1.0, stall_s * min_rate)  # bytes within stall_s
        self._metrics = query_metrics
        self._responses: set[BufferedResponse] = set()
        self._timer: asyncio.TimerHandle | None = None
        query_metrics.register_gauge(
            "send_buffer_bytes",
            "Size in bytes of responses that clients have not read yet.",
            lambda: self._capacity.in_use,
        )

    async def reserve(self, requester: Requester, result: JsonResult) -> "BufferedResponse":
        """Reserve memory for a response, which the caller must release. Its compressed form, which is much smaller, is
        not included. Raises ServiceUnavailable.
        """
        self._schedule_check()
        try:
            async with asyncio.timeout(self._max_wait_s):
                size = await self._capacity.acquire(requester, len(result.body))
        except (TimeoutError, QueueFull) as error:
            self._metrics.record_refusal(metrics.SEND_BUFFER_FULL)
            raise ServiceUnavailable(
                "The send buffer is full of responses that clients have not read; retry later."
            ) from error
        response = BufferedResponse(self, requester, result, size)
        self._responses.add(response)
        return response

    def release(self, response: "BufferedResponse", size: int) -> None:
        """Release the memory of a response."""
        self._responses.discard(response)
        self._capacity.release(response.requester, size)

    def _schedule_check(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._stall_s / _CHECKS_PER_STALL, self._abort_stalled)

    def _abort_stalled(self) -> None:
        """Disconnect clients that block others and read too slowly; check again as long as responses wait."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        for response in [each for each in self._responses if self._capacity.blocks_others(each.requester)]:
            if response.is_stalled(now, self._stall_s, self._min_bytes, self._stall_s / self._max_wait_s):
                self._metrics.slow_clients_closed.inc(response.abort())
        if self._capacity.waiting:
            self._schedule_check()


class BufferedResponse:
    """A response in memory, sent over any number of connections."""

    def __init__(self, buffer: SendBuffer, requester: Requester, result: JsonResult, size: int) -> None:
        self.requester = requester
        self._buffer = buffer
        self._result = result
        self._reserved_bytes = size
        self._connections: set[_ChunkedPayload] = set()
        self._compressed: asyncio.Future[bytes] | None = None

    async def to_response(self, request: web.Request) -> web.Response:
        """A 200 response with this body, compressed if it is large and the client accepts it."""
        body, headers = self._result.body, dict(JSON_HEADERS)
        if len(body) > MIN_BYTES:
            headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
            if accepts_gzip(request):
                body, headers[hdrs.CONTENT_ENCODING] = await self._compress(), GZIP
        payload = _ChunkedPayload(body, request.transport)
        self._connections.add(payload)
        if self._result.truncated:
            headers[TRUNCATED_HEADER] = self._result.truncated
        return web.Response(body=payload, headers=headers)

    async def _compress(self) -> bytes:
        """The compressed body, made once for all clients."""
        if self._compressed is None:
            self._compressed = asyncio.ensure_future(gzip_body(self._result.body))
        return await asyncio.shield(self._compressed)

    def is_stalled(self, now: float, seconds: float, min_bytes: float, min_share: float) -> bool:
        """Whether none of its clients has read both `min_bytes` and the share `min_share` of the body within `seconds`,
        as far as checks have observed.
        """
        stalled = [each.is_stalled(now, seconds, min_bytes, min_share) for each in self._connections]
        return bool(stalled) and all(stalled)

    def abort(self) -> int:
        """Abort its connections and return their number."""
        return sum(each.abort() for each in self._connections)

    def release(self) -> None:
        """Release the memory; no request needs the response."""
        self._connections.clear()
        self._buffer.release(self, self._reserved_bytes)


class _ChunkedPayload(Payload):
    """The bytes of a response over one connection, written as the client reads them."""

    def __init__(self, body: bytes, transport: asyncio.Transport | None) -> None:
        super().__init__(body, content_type=JSON_TYPE)
        self._size = len(body)
        self._transport = transport
        self._written_bytes = 0  # to the transport
        self._checkpoint_bytes: int | None = None  # bytes that the client had read at the last checkpoint
        self._checkpoint_at = 0.0  # the checkpoint's time

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write a chunk whenever the connection has room for one."""
        body = memoryview(self._value)
        for start in range(0, len(body), CHUNK_BYTES):
            chunk = body[start : start + CHUNK_BYTES]
            self._written_bytes += len(chunk)
            await writer.write(chunk)
            await writer.drain()

    def is_stalled(self, now: float, seconds: float, min_bytes: float, min_share: float) -> bool:
        """Whether the client has read less than `min_bytes`, or less than the share `min_share` of the body, for
        `seconds`."""
        if self._transport is None or self._transport.is_closing():
            return False
        read_bytes = self._written_bytes - unacknowledged_bytes(self._transport)
        required = max(min_bytes, len(self._value) * min_share)
        if self._checkpoint_bytes is None or read_bytes - self._checkpoint_bytes >= required:
            self._checkpoint_bytes, self._checkpoint_at = read_bytes, now
        return now - self._checkpoint_at >= seconds

    def abort(self) -> bool:
        """Close the connection at once, unless it is closed already."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.abort()
        return True
