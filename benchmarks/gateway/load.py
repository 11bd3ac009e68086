"""The senders, in a process of their own: connections that each send the next request once they have an answer."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

import uvloop

from benchmarks.gateway.bodies import Kind, bodies
from benchmarks.gateway.grpc_load import GrpcSender, grpc_messages

_ANSWER_S: Final = 60.0


class Target(NamedTuple):
    """Where to send, over HTTP or over gRPC; `headers` end with a line end each."""

    port: int
    headers: str
    grpc: bool = False


class Sent(NamedTuple):
    """What a stretch of load came to: items of requests answered 200, other requests by status, seconds to the 200s."""

    items: int
    refused: dict[int, int]
    latencies: list[float]
    seconds: float


class LoadError(Exception):
    """A connection broke or an answer did not come."""


def send(target: Target, kind: Kind, connections: int, seconds: float) -> Sent:
    """Send for so long, and wait for the last answers. Blocks; meant for a process of its own."""
    return uvloop.run(_send(target, kind, connections, seconds))


def prepare(kind: Kind) -> int:
    """Make the bodies; their mean size."""
    made = bodies(kind)
    return sum(map(len, made)) // len(made)


async def _send(target: Target, kind: Kind, connections: int, seconds: float) -> Sent:
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    senders = _senders(target, kind, connections, begin + seconds)
    for sender in senders:
        await loop.create_connection(lambda sender=sender: sender, "127.0.0.1", target.port)  # type: ignore[misc]
    async with asyncio.timeout(seconds + _ANSWER_S):
        await asyncio.gather(*(sender.done for sender in senders))
    refused: dict[int, int] = {}
    for status in itertools.chain.from_iterable(sender.refused for sender in senders):
        refused[status] = refused.get(status, 0) + 1
    latencies = [seconds for sender in senders for seconds in sender.latencies]
    return Sent(len(latencies) * kind.items, refused, latencies, time.perf_counter() - begin)


def _senders(target: Target, kind: Kind, connections: int, end: float) -> Sequence["_Sender | GrpcSender"]:
    loop = asyncio.get_running_loop()
    if target.grpc:
        framed = itertools.cycle(grpc_messages(kind, target.headers, bodies(kind)))
        return [GrpcSender(framed, end, loop.create_future()) for _ in range(connections)]
    messages = itertools.cycle(
        [
            f"POST /v1/{kind.signal} HTTP/1.1\r\nHost: localhost\r\n{kind.headers}{target.headers}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
            for body in bodies(kind)
        ]
    )
    return [_Sender(messages, end, loop.create_future()) for _ in range(connections)]


class _Sender(asyncio.Protocol):
    """One connection."""

    def __init__(self, messages: Iterator[bytes], end: float, done: "asyncio.Future[None]") -> None:
        self._messages = messages
        self._end = end
        self._begun = 0.0
        self._answer = b""
        self._transport: asyncio.Transport | None = None
        self.done = done
        self.latencies: list[float] = []
        self.refused: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first."""
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop says so only by what it does
        self._next()

    def data_received(self, data: bytes) -> None:
        """Send the next after a whole answer."""
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        status = int(head[9:12])
        if status == 200:
            self.latencies.append(time.perf_counter() - self._begun)
        else:
            self.refused.append(status)
        self._answer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Too early, unless this side has closed it."""
        if not self.done.done():
            self.done.set_exception(LoadError(f"the connection broke: {exc}"))

    def _next(self) -> None:
        assert self._transport is not None
        self._begun = time.perf_counter()
        if self._begun < self._end:
            self._transport.write(next(self._messages))
        else:
            self.done.set_result(None)
            self._transport.close()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
