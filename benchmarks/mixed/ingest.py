"""Exports whose time moves with the clock.

A body is made once and dated anew for each request: times in protobuf are eight bytes at a place that does not change.
"""

import itertools
import struct
import time
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.gateway.bodies import Kind, message, places_of
from tests.proto.otlp.realistic import request

SPANS: Final = 512  # a request, as SDKs send them
_KIND: Final = Kind("traces", "protobuf")
_VARIANTS: Final = 20
_MARK_NS: Final = 0x1122334455667788  # stands for a start until the request is sent
_SPREAD_NS: Final = 5 * 10**9


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


def dated_requests(key: str) -> Iterator[bytes]:
    """Requests of a project, without an end, each of the time when it is sent."""
    return (message(_KIND, key, body.now()) for body in itertools.cycle(_bodies()))


@cache
def _bodies() -> list[Body]:
    random = Random(1)
    return [Body(random) for _ in range(_VARIANTS)]
