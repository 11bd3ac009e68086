"""Exports at a steady rate, their time moving with the clock, and what the gateway takes at most.

A body is made once and dated anew for each request: times in protobuf are eight bytes at a place that does not change.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.gateway.bodies import Kind, message, places_of
from tests.proto.otlp.realistic import request

SPANS: Final = 512  # a request, as SDKs send them
_KIND: Final = Kind("traces", "protobuf")
_VARIANTS: Final = 20
_SENDERS: Final = 24  # enough that the gateway, not the wait for an answer, is what limits
_SLICE_S: Final = 5.0  # of the search for what the gateway takes
_MARK_NS: Final = 0x1122334455667788  # stands for a start until the request is sent
_SPREAD_NS: Final = 5 * 10**9


class Sent(NamedTuple):
    """One export: when it was due, its status (0: the connection broke) and the seconds until its answer."""

    due: float
    status: int
    seconds: float


class Body:
    """A request whose spans start within the five seconds before it is sent."""

    def __init__(self, random: Random) -> None:
        made = request("traces", SPANS, random.getrandbits(32))
        self._durations = []
        trace_ids = [random.randbytes(16) for _ in range(SPANS // 8)]
        for number, span in enumerate(made.resource_spans[0].scope_spans[0].spans):  # type: ignore[union-attr]  # traces
            self._durations.append(span.end_time_unix_nano - span.start_time_unix_nano)
            span.trace_id = trace_ids[number // 8]
            span.start_time_unix_nano = span.end_time_unix_nano = _MARK_NS
        self._bytes = bytearray(ExportTraceServiceRequest.FromString(made.SerializeToString()).SerializeToString())
        self._places = places_of(struct.pack("<Q", _MARK_NS), self._bytes)
        self._traces = [(place, trace) for trace in trace_ids for place in places_of(trace, self._bytes)]
        self._random = random

    def now(self) -> bytes:
        """The bytes to send, with trace ids and times of their own."""
        return self.at(time.time_ns())

    def at(self, now: int) -> bytes:
        """The same as of another time, in nanoseconds since 1970."""
        salt = self._random.randbytes(4)
        for number, duration in enumerate(self._durations):
            start = now - _SPREAD_NS + number * (_SPREAD_NS // SPANS)
            struct.pack_into("<Q", self._bytes, self._places[2 * number], start)
            struct.pack_into("<Q", self._bytes, self._places[2 * number + 1], start + duration)
        for place, _ in self._traces:
            self._bytes[place : place + 4] = salt
        return bytes(self._bytes)


class Exporters:
    """Sends over as many connections as it takes; what becomes of each request gathers in `sent`. `request` gives the
    bytes of each by its number.
    """

    def __init__(self, port: int, request: Callable[[int], bytes]) -> None:
        self._port = port
        self._request = request
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.sent: list[Sent] = []

    async def most(self) -> float:
        """Requests a second that the gateway takes when `_SENDERS` connections send one after the other."""
        begun, end = len(self.sent), asyncio.get_running_loop().time() + _SLICE_S
        await asyncio.gather(*(self._without_pause(end) for _ in range(_SENDERS)))
        return sum(one.status == 200 for one in self.sent[begun:]) / _SLICE_S

    async def steady(self, rate: float, seconds: float) -> None:
        """`rate` requests a second, due at fixed times however long the answers take; ends when all are answered."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        async with asyncio.TaskGroup() as sending:
            for number in range(int(seconds * rate)):
                due = begin + number / rate
                await asyncio.sleep(max(0.0, due - loop.time()))
                sending.create_task(self._send(number, due))

    async def _without_pause(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            await self._send(len(self.sent), loop.time())

    async def _send(self, number: int, due: float) -> None:
        try:
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(self._request(number))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        else:
            status = int(head.split(b" ", 2)[1])
            if b"connection: close" in head:
                writer.close()
            else:
                self._idle.append((reader, writer))
        self.sent.append(Sent(due, status, asyncio.get_running_loop().time() - due))


def dated_requests(key: str) -> Callable[[int], bytes]:
    """Requests of a project, each of the time when it is asked for."""
    random = Random(1)
    made = [Body(random) for _ in range(_VARIANTS)]
    return lambda number: message(_KIND, key, made[number % _VARIANTS].now())
