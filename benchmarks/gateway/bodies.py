"""Requests, of 512 items if nothing else is said, that are alike as a service's requests are, and differ as they do.

An item has 10 attributes and a resource of 10 (`tests.proto.otlp.realistic`). Every base has a service instance of its
own, and every request trace ids of its own, four items to a trace: each trace is a row that the gateway derives.
"""

import gzip
import json
import re
import time
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Final, Literal, NamedTuple

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from proto.otlp.policy import Signal
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.realistic import NOW_NS, request

Encoding = Literal["protobuf", "protobuf gzip", "JSON"]

ITEMS: Final = 512  # of a request, as SDKs send them
MARK: Final = b"http.request.method"  # key of an attribute that every item has once, and nothing else has
_BASES: Final = 16
_PER_BASE: Final = 12  # requests; so a batch of 50 000 rows hardly meets one twice
_SMALL_PER_BASE: Final = 120  # of fewer items, so that it does not meet one hundreds of times
_ITEMS_OF_TRACE: Final = 4
_SERVICES: Final = 8
_AGE_NS: Final = 5 * 10**9  # that the newest item may have when it is sent first
_GZIP_LEVEL: Final = 6  # what most SDKs use


class Kind(NamedTuple):
    """One row of the benchmark."""

    signal: Signal
    encoding: Encoding
    items: int = ITEMS

    @property
    def name(self) -> str:
        """Of the row."""
        return f"{self.signal} {self.encoding}"

    @property
    def headers(self) -> str:
        """What the request says of its body."""
        media = "application/json" if self.encoding == "JSON" else "application/x-protobuf"
        coding = "Content-Encoding: gzip\r\n" if self.encoding == "protobuf gzip" else ""
        return f"Content-Type: {media}\r\n{coding}"


KINDS: Final = tuple(
    Kind(signal, encoding) for encoding in ("protobuf gzip", "protobuf", "JSON") for signal in ("traces", "logs")
)


@lru_cache
def bodies(kind: Kind) -> list[bytes]:
    """The bodies to send in turn."""
    plain = [body for number in range(_BASES) for body in _family(kind, _base(kind, number), Random(number))]
    if kind.encoding == "protobuf gzip":
        return [gzip.compress(body, _GZIP_LEVEL) for body in plain]
    return plain


def message(kind: Kind, key: str, body: bytes) -> bytes:
    """The HTTP request of a project with a body; it says nothing of a project without a `key`."""
    project = f"X-Legacy-Auth: Legacy legacy_key={key}\r\n" if key else ""
    head = f"POST /v1/{kind.signal} HTTP/1.1\r\nHost: localhost\r\n{kind.headers}{project}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def places_of(text: bytes, body: bytes | bytearray) -> list[int]:
    """Where a body has a text."""
    return [found.start() for found in re.finditer(re.escape(text), body)]


def _base(kind: Kind, number: int) -> TracesData | LogsData:
    """A request of one service instance, its items starting within the last seconds."""
    message = request(kind.signal, kind.items, seed=number)
    shift = time.time_ns() - _AGE_NS - NOW_NS
    items = _items(message)
    for place, item in enumerate(items):
        item.trace_id = items[place - place % _ITEMS_OF_TRACE].trace_id
        if isinstance(item, Span):
            item.start_time_unix_nano += shift
            item.end_time_unix_nano += shift
        else:
            item.time_unix_nano += shift
            item.observed_time_unix_nano += shift
    _name(_resource(message), Random(f"{kind.signal} {number}"))
    return message


def _name(resource: Resource, random: Random) -> None:
    """Make the resource one of its own."""
    for attribute in resource.attributes:
        if attribute.key == "service.instance.id":
            attribute.value.string_value = random.randbytes(16).hex()
        elif attribute.key == "service.name":
            attribute.value.string_value = f"{attribute.value.string_value}-{random.randrange(_SERVICES)}"
        elif attribute.key == "process.pid":
            attribute.value.int_value = random.randrange(1, 2**15)


def _resource(message: TracesData | LogsData) -> Resource:
    return message.resource_spans[0].resource if isinstance(message, TracesData) else message.resource_logs[0].resource


def _items(message: TracesData | LogsData) -> Sequence[Span | LogRecord]:
    if isinstance(message, TracesData):
        return message.resource_spans[0].scope_spans[0].spans
    return message.resource_logs[0].scope_logs[0].log_records


def _family(kind: Kind, message: TracesData | LogsData, random: Random) -> list[bytes]:
    """The message some times over, each time with other trace ids."""
    as_text = kind.encoding == "JSON"
    ids = {item.trace_id for item in _items(message)}
    body = message.SerializeToString()
    if as_text:
        body = json.dumps(json.loads(as_json(message)), separators=(",", ":"), ensure_ascii=False).encode()
        ids = {trace_id.hex().encode() for trace_id in ids}
    count = _PER_BASE if kind.items >= ITEMS else _SMALL_PER_BASE
    places = sorted(place for trace_id in ids for place in places_of(trace_id, body))
    return [_salted(body, places, random.randbytes(4), as_text=as_text) for _ in range(count)]


def _salted(body: bytes, places: list[int], salt: bytes, *, as_text: bool) -> bytes:
    """The body with `salt` over the first bytes of every trace id."""
    changed = bytearray(body)
    if as_text:
        salt = salt.hex().encode()
    for place in places:
        changed[place : place + len(salt)] = salt
    return bytes(changed)
