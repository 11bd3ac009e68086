"""The own fields of spans, log records and errors: what the API calls them, and where and how the tables hold them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

SPAN_KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS_CODES: Final = ("UNSET", "OK", "ERROR")
SOURCES: Final = ("span", "log")


class Form(Enum):
    """How a column holds its value, and so which comparisons it takes."""

    TEXT = "text"
    NAMES = "names"  # a small number that stands for a name
    INTEGER = "integer"
    DURATION = "duration"  # signed nanoseconds, shown as milliseconds that are not negative
    INSTANT = "instant"
    ID = "id"
    BODY = "body"  # text beside a column with its type letter


@dataclass(frozen=True, slots=True)
class Field:
    """An own field. `optional`: its empty value (empty text, zeros, 0) means that it is absent. `names`: all values
    that it has, which filters may write in any case where it says so.
    """

    name: str
    column: str
    form: Form
    optional: bool = False
    names: tuple[str, ...] = ()
    any_case: bool = False
    size: int = 0  # bytes of an id


@dataclass(frozen=True, slots=True)
class Signal:
    """A table of telemetry as explore lists it: its name, its time column, its code in trace_index (0: none), its own
    fields, and whether its rows carry `attributes`.
    """

    table: str
    time: str
    code: int
    fields: Mapping[str, Field]
    attributes: bool = True


def _by_name(*fields: Field) -> Mapping[str, Field]:
    return MappingProxyType({field.name: field for field in fields})


_SHARED: Final = (
    Field("serviceName", "service_name", Form.TEXT, optional=True),
    Field("environment", "environment", Form.TEXT),
    Field("release", "release", Form.TEXT, optional=True),
)

SPANS: Final = Signal(
    "spans",
    "start_time",
    1,
    _by_name(
        Field("name", "name", Form.TEXT),
        Field("kind", "kind", Form.NAMES, names=SPAN_KINDS, any_case=True),
        *_SHARED,
        Field("statusCode", "status_code", Form.NAMES, names=STATUS_CODES),
        Field("statusMessage", "status_message", Form.TEXT, optional=True),
        Field("durationMs", "duration", Form.DURATION),
        Field("startTime", "start_time", Form.INSTANT),
        Field("traceId", "trace_id", Form.ID, size=16),
        Field("spanId", "span_id", Form.ID, size=8),
        Field("parentSpanId", "parent_span_id", Form.ID, optional=True, size=8),
    ),
)

LOGS: Final = Signal(
    "logs",
    "time",
    2,
    _by_name(
        Field("severityNumber", "severity_number", Form.INTEGER, optional=True),
        Field("severityText", "severity_text", Form.TEXT, optional=True),
        Field("body", "body", Form.BODY),
        Field("eventName", "event_name", Form.TEXT, optional=True),
        *_SHARED,
        Field("time", "time", Form.INSTANT),
        Field("traceId", "trace_id", Form.ID, optional=True, size=16),
        Field("spanId", "span_id", Form.ID, optional=True, size=8),
    ),
)


ERRORS: Final = Signal(
    "error_occurrences",
    "time",
    0,
    _by_name(
        Field("fingerprint", "fingerprint", Form.ID, size=16),
        Field("type", "type", Form.TEXT, optional=True),
        Field("message", "message", Form.TEXT, optional=True),
        Field("source", "source", Form.TEXT, names=SOURCES),
        *_SHARED,
        Field("time", "time", Form.INSTANT),
        Field("traceId", "trace_id", Form.ID, optional=True, size=16),
        Field("spanId", "span_id", Form.ID, optional=True, size=8),
    ),
    attributes=False,
)


def name_of(field: Field, text: str) -> str | None:
    """The one of the field's names that a filter means by `text`. Case is that of ASCII: no other letter is equal to
    one of a name.
    """
    if field.any_case and text.isascii():
        text = text.upper()
    return text if text in field.names else None


def trace_id_bytes(text: str) -> bytes | None:
    """A trace id of 32 hex digits, or of 16 filled with zeros on the left; None for any other text and for zeros."""
    return _id_bytes(text.rjust(32, "0") if len(text) == 16 else text, 16)


def span_id_bytes(text: str) -> bytes | None:
    """A span id of 16 hex digits; None for any other text and for zeros."""
    return _id_bytes(text, 8)


def fingerprint_bytes(text: str) -> bytes | None:
    """A fingerprint of 32 hex digits; None for any other text."""
    return _id_bytes(text, 16)


def id_bytes(field: Field, text: str) -> bytes | None:
    """`text` as an id of the field's size; None when no stored id can equal it."""
    if field.name == "fingerprint":
        return fingerprint_bytes(text)
    return trace_id_bytes(text) if field.size == 16 else span_id_bytes(text)


def _id_bytes(text: str, size: int) -> bytes | None:
    if len(text) != 2 * size or not text.isascii() or not text.isalnum():
        return None  # bytes.fromhex would skip spaces
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return None
    return value if any(value) else None
