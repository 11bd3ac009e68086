"""The built-in fields of spans, log records and errors: their API names, and their columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

SPAN_KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS_CODES: Final = ("UNSET", "OK", "ERROR")
SOURCES: Final = ("span", "log")


class ColumnKind(Enum):
    """How a column stores its value, which determines the comparisons it supports."""

    TEXT = "text"
    ENUM = "names"  # a small number that stands for a name
    INTEGER = "integer"
    DURATION = "duration"  # signed nanoseconds, shown as milliseconds that are not negative
    TIMESTAMP = "instant"
    ID = "id"
    BODY = "body"  # text, with its type letter in another column


@dataclass(frozen=True, slots=True)
class Field:
    """A built-in field. `optional`: its empty value (empty text, zeros, 0) means that it is absent. `names`: all values
    it can have; with `case_insensitive` filters may write them in any case.
    """

    name: str
    column: str
    kind: ColumnKind
    optional: bool = False
    names: tuple[str, ...] = ()
    case_insensitive: bool = False
    size: int = 0  # bytes of an id


@dataclass(frozen=True, slots=True)
class TelemetryTable:
    """A table of telemetry as explore lists it: its name, its time column, its code in trace_index (0: none), its
    built-in fields, and whether its rows have `attributes`.
    """

    name: str
    time_column: str
    trace_index_code: int
    fields: Mapping[str, Field]
    has_attributes: bool = True


def _by_name(*fields: Field) -> Mapping[str, Field]:
    return MappingProxyType({field.name: field for field in fields})


_SHARED: Final = (
    Field("serviceName", "service_name", ColumnKind.TEXT, optional=True),
    Field("environment", "environment", ColumnKind.TEXT),
    Field("release", "release", ColumnKind.TEXT, optional=True),
)

SPANS: Final = TelemetryTable(
    "spans",
    "start_time",
    1,
    _by_name(
        Field("name", "name", ColumnKind.TEXT),
        Field("kind", "kind", ColumnKind.ENUM, names=SPAN_KINDS, case_insensitive=True),
        *_SHARED,
        Field("statusCode", "status_code", ColumnKind.ENUM, names=STATUS_CODES),
        Field("statusMessage", "status_message", ColumnKind.TEXT, optional=True),
        Field("durationMs", "duration", ColumnKind.DURATION),
        Field("startTime", "start_time", ColumnKind.TIMESTAMP),
        Field("traceId", "trace_id", ColumnKind.ID, size=16),
        Field("spanId", "span_id", ColumnKind.ID, size=8),
        Field("parentSpanId", "parent_span_id", ColumnKind.ID, optional=True, size=8),
    ),
)

LOGS: Final = TelemetryTable(
    "logs",
    "time",
    2,
    _by_name(
        Field("severityNumber", "severity_number", ColumnKind.INTEGER, optional=True),
        Field("severityText", "severity_text", ColumnKind.TEXT, optional=True),
        Field("body", "body", ColumnKind.BODY),
        Field("eventName", "event_name", ColumnKind.TEXT, optional=True),
        *_SHARED,
        Field("time", "time", ColumnKind.TIMESTAMP),
        Field("traceId", "trace_id", ColumnKind.ID, optional=True, size=16),
        Field("spanId", "span_id", ColumnKind.ID, optional=True, size=8),
    ),
)


ERRORS: Final = TelemetryTable(
    "error_occurrences",
    "time",
    0,
    _by_name(
        Field("fingerprint", "fingerprint", ColumnKind.ID, size=16),
        Field("type", "type", ColumnKind.TEXT, optional=True),
        Field("message", "message", ColumnKind.TEXT, optional=True),
        Field("source", "source", ColumnKind.TEXT, names=SOURCES),
        *_SHARED,
        Field("time", "time", ColumnKind.TIMESTAMP),
        Field("traceId", "trace_id", ColumnKind.ID, optional=True, size=16),
        Field("spanId", "span_id", ColumnKind.ID, optional=True, size=8),
    ),
    has_attributes=False,
)


def match_enum_name(field: Field, text: str) -> str | None:
    """Return the field's name that a filter means by `text`, or None. Case is folded for ASCII only: no other letter
    equals one of a name.
    """
    if field.case_insensitive and text.isascii():
        text = text.upper()
    return text if text in field.names else None


def trace_id_bytes(text: str) -> bytes | None:
    """Parse a trace id of 32 hex digits, or of 16, padded with zeros on the left; None for any other text and for
    zeros.
    """
    return _id_bytes(text.rjust(32, "0") if len(text) == 16 else text, 16)


def span_id_bytes(text: str) -> bytes | None:
    """Parse a span id of 16 hex digits; None for any other text and for zeros."""
    return _id_bytes(text, 8)


def fingerprint_bytes(text: str) -> bytes | None:
    """Parse a fingerprint of 32 hex digits; None for any other text and for zeros."""
    return _id_bytes(text, 16)


def id_bytes(field: Field, text: str) -> bytes | None:
    """Parse `text` as an id of the field's size; None when no stored id can equal it."""
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
