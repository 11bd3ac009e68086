"""Export requests as they come from SDKs, Collectors and browsers: spans and logs, protobuf and JSON, gzip and plain,
small and large. Needs nothing but Python, so that the locust file can be taken elsewhere.

Traces are trees: a request to a service, its calls to others and to databases; one in thirty fails, with an exception.
"""

import gzip
import json
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

Signal = Literal["traces", "logs"]
Value = str | int | float | bool

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
KEPT: Final = 12  # bodies of a kind; to make one anew for each request would take more than sending it
RENEWED_EVERY: Final = 40  # uses

_SERVICES: Final = ("frontend", "checkout", "cart", "payment", "catalogue", "search", "shipping", "mail")
_ROUTES: Final = ("/", "/cart", "/cart/{id}", "/checkout", "/products/{sku}", "/search", "/health", "/orders/{id}")
_STATEMENTS: Final = ("SELECT * FROM carts WHERE id = ?", "INSERT INTO orders VALUES (?, ?)", "UPDATE stock SET n = ?")
_ERRORS: Final = (
    ("TimeoutError", "upstream took longer than 2 s"),
    ("KeyError", "'sku'"),
    ("ValueError", "not a price"),
)
_LEVELS: Final = ((9, "INFO"),) * 8 + ((13, "WARN"), (17, "ERROR"))
_STACK: Final = 'Traceback (most recent call last):\n  File "/srv/{0}/views.py", line {1}, in get\n{2}: {3}'
_FAILURE: Final = 1 / 30


class Kind(NamedTuple):
    """What one sort of sender sends."""

    name: str
    signal: Signal
    items: tuple[int, int]  # at least, at most
    media: str
    compressed: bool


SDK_TRACES: Final = Kind("SDK traces", "traces", (5, 80), PROTOBUF, compressed=False)
SDK_LOGS: Final = Kind("SDK logs", "logs", (5, 60), PROTOBUF, compressed=False)
FULL_TRACES: Final = Kind("SDK traces, a full batch", "traces", (512, 512), PROTOBUF, compressed=True)
COLLECTOR_TRACES: Final = Kind("Collector traces", "traces", (800, 4_000), PROTOBUF, compressed=True)
COLLECTOR_LOGS: Final = Kind("Collector logs", "logs", (800, 4_000), PROTOBUF, compressed=True)
BROWSER_TRACES: Final = Kind("browser traces, JSON", "traces", (1, 12), JSON, compressed=False)
JSON_LOGS: Final = Kind("logs, JSON gzip", "logs", (100, 500), JSON, compressed=True)
KINDS: Final = (SDK_TRACES, SDK_LOGS, FULL_TRACES, COLLECTOR_TRACES, COLLECTOR_LOGS, BROWSER_TRACES, JSON_LOGS)


class Export(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    items: int


class Mix:
    """Requests of each kind, of which a few are kept and one is made anew now and then."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kept: dict[Kind, list[Export]] = {}
        self._uses = 0

    def next(self, kind: Kind) -> Export:
        """A request of a kind."""
        kept = self._kept.setdefault(kind, [])
        self._uses += 1
        if len(kept) < KEPT:
            kept.append(export(kind, self._random))
            return kept[-1]
        if self._uses % RENEWED_EVERY == 0:
            kept[self._random.randrange(KEPT)] = export(kind, self._random)
        return self._random.choice(kept)


def export(kind: Kind, source: random.Random) -> Export:
    """A request of its own."""
    count = source.randint(*kind.items)
    service = source.choice(_SERVICES)
    items = list(_spans(source, service, count)) if kind.signal == "traces" else list(_logs(source, service, count))
    body = (_as_json if kind.media == JSON else _as_protobuf)(kind.signal, _resource(source, service), items)
    headers = {"Content-Type": kind.media}
    if kind.compressed:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, 6)
    return Export(f"/v1/{kind.signal}", headers, body, count)


def _resource(source: random.Random, service: str) -> dict[str, Value]:
    return {
        "service.name": service,
        "service.version": f"2026.11.{source.randrange(3)}",
        "service.namespace": "shop",
        "service.instance.id": f"{service}-{source.randrange(4)}",
        "deployment.environment.name": "production",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": "1.45.2",
        "host.name": f"node-{source.randrange(12)}.internal",
        "process.pid": source.randrange(1, 30_000),
    }


def _spans(source: random.Random, service: str, count: int) -> Iterator[dict[str, Any]]:
    """Spans of traces of up to 20, each a child of one before it."""
    left = count
    while left:
        size = min(left, source.randint(1, 20))
        left -= size
        trace_id, start = source.randbytes(16), time.time_ns() - source.randrange(5 * 10**9)
        ids = [source.randbytes(8) for _ in range(size)]
        for place in range(size):
            parent = ids[source.randrange(place)] if place else b""
            yield _span(source, service, trace_id, ids[place], parent, start + place * 10**5)


def _span(
    source: random.Random, service: str, trace_id: bytes, span_id: bytes, parent_id: bytes, start: int
) -> dict[str, Any]:
    route, failed = source.choice(_ROUTES), source.random() < _FAILURE
    span: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": f"GET {route}" if source.random() < 0.7 else "SELECT shop",
        "kind": source.choice((1, 2, 3)),
        "start": start,
        "end": start + int(source.lognormvariate(16.5, 1.2)),
        "failed": failed,
        "error": source.choice(_ERRORS) if failed else None,
        "service": service,
    }
    common: dict[str, Value] = {
        "http.route": route,
        "url.path": route.replace("{id}", str(source.randrange(10**6))),
        "http.request.method": "GET",
        "server.address": f"{source.choice(_SERVICES)}.internal",
        "server.port": 8080,
        "user.id": f"u-{source.randrange(10**5)}",
        "network.protocol.version": "1.1",
        "app.cached": source.random() < 0.4,
        "app.score": round(source.random(), 4),
    }
    database: dict[str, Value] = {"db.system.name": "postgresql", "db.query.text": source.choice(_STATEMENTS)}
    status: dict[str, Value] = {"http.response.status_code": 500 if failed else 200}
    span["attributes"] = common | (database if span["name"] == "SELECT shop" else status)
    return span


def _logs(source: random.Random, service: str, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        number, text = source.choice(_LEVELS)
        yield {
            "traceId": source.randbytes(16),
            "spanId": source.randbytes(8),
            "time": time.time_ns() - source.randrange(5 * 10**9),
            "severity": (number, text),
            "body": f"{source.choice(_ROUTES)} answered in {source.randrange(2_000)} ms by {service}",
            "attributes": {"code.function.name": "views.get", "thread.id": source.randrange(64), "user.id": "u-1"},
        }


# --- OTLP in JSON


def _as_json(signal: Signal, resource: dict[str, Value], items: Sequence[dict[str, Any]]) -> bytes:
    one, scope, many = ("Spans", "scopeSpans", "spans") if signal == "traces" else ("Logs", "scopeLogs", "logRecords")
    write = _json_span if signal == "traces" else _json_log
    scoped = {"scope": {"name": "load"}, many: [write(item) for item in items]}
    request = {f"resource{one}": [{"resource": {"attributes": _json_attributes(resource)}, scope: [scoped]}]}
    return json.dumps(request, separators=(",", ":")).encode()


def _json_attributes(attributes: dict[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _json_value(value)} for key, value in attributes.items()]


def _json_value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _json_span(span: dict[str, Any]) -> dict[str, Any]:
    written = {
        "traceId": span["traceId"].hex(),
        "spanId": span["spanId"].hex(),
        "parentSpanId": span["parentSpanId"].hex(),
        "name": span["name"],
        "kind": span["kind"],
        "startTimeUnixNano": str(span["start"]),
        "endTimeUnixNano": str(span["end"]),
        "attributes": _json_attributes(span["attributes"]),
        "status": {"code": 2 if span["failed"] else 0},
    }
    if span["failed"]:
        exception = {
            "name": "exception",
            "timeUnixNano": str(span["end"]),
            "attributes": _json_attributes(_raised(span)),
        }
        written["events"] = [exception]
    return written


def _json_log(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": record["traceId"].hex(),
        "spanId": record["spanId"].hex(),
        "timeUnixNano": str(record["time"]),
        "severityNumber": record["severity"][0],
        "severityText": record["severity"][1],
        "body": {"stringValue": record["body"]},
        "attributes": _json_attributes(record["attributes"]),
    }


def _raised(span: dict[str, Any]) -> dict[str, Value]:
    kind, message = span["error"]
    stack = _STACK.format(span["service"], len(message), kind, message)
    return {"exception.type": kind, "exception.message": message, "exception.stacktrace": stack}


# --- and in protobuf, field by field: opentelemetry/proto/trace/v1, logs/v1, common/v1


def _as_protobuf(signal: Signal, resource: dict[str, Value], items: Sequence[dict[str, Any]]) -> bytes:
    write: Callable[[dict[str, Any]], bytes] = _span_message if signal == "traces" else _log_message
    scoped = _field(1, _field(1, b"load")) + b"".join(_field(2, write(item)) for item in items)
    return _field(1, _field(1, _attributes(1, resource)) + _field(2, scoped))


def _span_message(span: dict[str, Any]) -> bytes:
    message = (
        _field(1, span["traceId"])
        + _field(2, span["spanId"])
        + (_field(4, span["parentSpanId"]) if span["parentSpanId"] else b"")
        + _field(5, span["name"].encode())
        + _number(6, span["kind"])
        + _fixed(7, span["start"])
        + _fixed(8, span["end"])
        + _attributes(9, span["attributes"])
    )
    if span["failed"]:
        event = _fixed(1, span["end"]) + _field(2, b"exception") + _attributes(3, _raised(span))
        message += _field(11, event) + _field(15, _number(3, 2))
    return message


def _log_message(record: dict[str, Any]) -> bytes:
    return (
        _fixed(1, record["time"])
        + _number(2, record["severity"][0])
        + _field(3, record["severity"][1].encode())
        + _field(5, _field(1, record["body"].encode()))
        + _attributes(6, record["attributes"])
        + _field(9, record["traceId"])
        + _field(10, record["spanId"])
    )


def _attributes(number: int, attributes: dict[str, Value]) -> bytes:
    return b"".join(
        _field(number, _field(1, key.encode()) + _field(2, _any_value(value))) for key, value in attributes.items()
    )


def _any_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, value)
    if isinstance(value, float):
        return b"\x21" + struct.pack("<d", value)
    return _field(1, value.encode())


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _fixed(number: int, value: int) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<Q", value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
