"""Small requests for table tests: fields in, an export request of one item out."""

from proto.otlp.protobuf_writer import bytes_field, double_field, fixed64_field, varint, varint_field
from tests.proto.otlp.generate import NOW_NS

TRACE_ID = bytes(range(1, 17))
SPAN_ID = bytes(range(1, 9))


def string(text: str | bytes) -> bytes:
    """AnyValues by kind."""
    return bytes_field(1, text.encode() if isinstance(text, str) else text)


def boolean(value: int) -> bytes:
    return varint_field(2, value)


def integer(value: int) -> bytes:
    return varint_field(3, value)


def double(value: float) -> bytes:
    return double_field(4, value)


def array(*values: bytes) -> bytes:
    return bytes_field(5, b"".join(bytes_field(1, value) for value in values))


def mapping(*entries: bytes) -> bytes:
    return bytes_field(6, b"".join(bytes_field(1, entry) for entry in entries))


def binary(value: bytes) -> bytes:
    return bytes_field(7, value)


def pair(key: str | bytes, value: bytes | None = None) -> bytes:
    """A KeyValue; `None` leaves the value out."""
    raw = key.encode() if isinstance(key, str) else key
    return bytes_field(1, raw) + (b"" if value is None else bytes_field(2, value))


def attributes(number: int, *pairs: bytes) -> bytes:
    return b"".join(bytes_field(number, one) for one in pairs)


def span(
    *fields: bytes, trace_id: bytes = TRACE_ID, span_id: bytes = SPAN_ID, start: int = NOW_NS, end: int = NOW_NS + 5
) -> bytes:
    """A Span with what it must have."""
    ids = bytes_field(1, trace_id) + bytes_field(2, span_id)
    return ids + fixed64_field(7, start) + fixed64_field(8, end) + b"".join(fields)


def log(*fields: bytes, time: int = NOW_NS) -> bytes:
    return (fixed64_field(1, time) if time else b"") + b"".join(fields)


def request(*items: bytes, resource: bytes = b"", scope: bytes = b"", scoped: bytes = b"", sent: bytes = b"") -> bytes:
    """One request; `scoped` and `sent` are further fields of ScopeSpans and ResourceSpans (or ...Logs)."""
    inner = bytes_field(1, scope) + b"".join(bytes_field(2, item) for item in items) + scoped
    return bytes_field(1, bytes_field(1, resource) + bytes_field(2, inner) + sent)


def group(number: int, inner: bytes = b"") -> bytes:
    return varint(number << 3 | 3) + inner + varint(number << 3 | 4)


def groups(nested: int) -> bytes:
    body = b""
    for _ in range(nested):
        body = group(9, body)
    return body


def nested_arrays(depth: int) -> bytes:
    """A value of that depth: 1 is a value that holds none."""
    value = integer(1)
    for _ in range(depth - 1):
        value = array(value)
    return value
