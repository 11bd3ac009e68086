"""The worst that one project key may legally send: little on the wire, and as much as can be for an engine that handles
rows one by one, dictionaries as a whole, or keys by the million.
"""

import gzip
import os
import time
from collections.abc import Callable
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

VALUE: Final = 16 * 2**10  # bytes of a value that is not truncated


def attributes(count: int, name: str, size: int = VALUE, key_size: int = 0) -> list[KeyValue]:
    return [
        KeyValue(key=f"{name}{n}".ljust(key_size, "k"), value=AnyValue(string_value=f"{name}-".ljust(size, "x")[:size]))
        for n in range(count)
    ]


class Traces:
    """A request under construction."""

    def __init__(self) -> None:
        self.message = ExportTraceServiceRequest()
        self._now = time.time_ns()

    def spans(self, count: int, resource: list[KeyValue], scope: list[KeyValue]) -> list[object]:
        """So many under a resource and a scope of their own."""
        group = self.message.resource_spans.add()
        group.resource.attributes.extend(resource)
        scoped = group.scope_spans.add()
        scoped.scope.attributes.extend(scope)
        return [
            scoped.spans.add(
                trace_id=os.urandom(16),
                span_id=os.urandom(8),
                name=f"n{n % 10}",
                start_time_unix_nano=self._now - n,
                end_time_unix_nano=self._now,
            )
            for n in range(count)
        ]

    def packed(self) -> bytes:
        return gzip.compress(self.message.SerializeToString(), 1)


def shared(_number: int) -> bytes:
    """5 000 spans that share a resource and a scope of 2 MiB."""
    request = Traces()
    request.spans(5_000, attributes(128, "r"), attributes(128, "s"))
    return request.packed()


def distinct(number: int) -> bytes:
    """Hundreds of resources of 128 KiB, all different."""
    request = Traces()
    for n in range(400):
        request.spans(1, attributes(8, f"{number}-{n}-r", VALUE - 24), attributes(1, f"{number}-{n}-s", VALUE - 24))
    return request.packed()


def services(number: int) -> bytes:
    """Thousands of service names as long as they may be, which are in the primary key."""
    request = Traces()
    for n in range(3_000):
        request.spans(
            1, [KeyValue(key="service.name", value=AnyValue(string_value=f"{number}-{n}".ljust(1_024, "s")))], []
        )
    return request.packed()


def types(number: int) -> bytes:
    """Lists of attribute types of 32 KiB."""
    request = Traces()
    for n, span in enumerate(request.spans(1_500, [], [])):
        span.attributes.extend(attributes(128, f"{number}-{n % 4}-", 1, 250))  # type: ignore[attr-defined]
    return request.packed()


def keys(number: int) -> bytes:
    """200 000 distinct attribute keys."""
    request = Traces()
    for n, span in enumerate(request.spans(10_000, [], [])):
        span.attributes.extend(attributes(20, f"{number}-{n}-", 8))  # type: ignore[attr-defined]
    return request.packed()


def events(_number: int) -> bytes:
    """One span of 60 MiB."""
    request = Traces()
    (span,) = request.spans(1, [], [])
    for n in range(30):
        span.events.add(name="e").attributes.extend(attributes(128, f"{n}-"))  # type: ignore[attr-defined]
    return request.packed()


def exceptions(number: int) -> bytes:
    """A thousand exceptions whose types and stack traces are long."""
    request = Traces()
    for n, span in enumerate(request.spans(1_000, [], [])):
        event = span.events.add(name="exception")  # type: ignore[attr-defined]
        for name in ("type", "message", "stacktrace"):
            event.attributes.append(
                KeyValue(key=f"exception.{name}", value=AnyValue(string_value=f"{number}-{n}".ljust(VALUE, "t")))
            )
    return request.packed()


def bodies(number: int) -> bytes:
    """Sixty log records of a mebibyte."""
    message = ExportLogsServiceRequest()
    scoped = message.resource_logs.add().scope_logs.add()
    for n in range(60):
        record = scoped.log_records.add(time_unix_nano=time.time_ns())
        record.body.string_value = f"{number}-{n}".ljust(2**20 - 64, "b")
    return gzip.compress(message.SerializeToString(), 1)


# What is sent, to which path, and how often: the next merge has all of it to deal with.
WORST: Final[dict[str, tuple[Callable[[int], bytes], str, int]]] = {
    "shared": (shared, "traces", 8),
    "distinct": (distinct, "traces", 6),
    "services": (services, "traces", 4),
    "types": (types, "traces", 4),
    "keys": (keys, "traces", 3),
    "events": (events, "traces", 3),
    "exceptions": (exceptions, "traces", 3),
    "bodies": (bodies, "logs", 3),
}
