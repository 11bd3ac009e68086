"""The rows that statements select: the columns of each row type, in order, and the SQL that reads each column.

The built-in fields of spans, log records and errors: their API names, and their columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
    that it can have. With `case_insensitive`, filters may write them in any case.
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
    """A table of telemetry: its name, its time column, its code in trace_index (0: none), its built-in fields, and
    whether its rows have `attributes`.
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
    """Return the name of the field's value that `text` means in a filter, or None. Case is folded only for ASCII,
    because names have only ASCII letters.
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


Texts = dict[str, str]


class AttributeColumns(NamedTuple):
    """The attributes of an item: its own attributes; the attributes of its resource and scope, each list stored as one
    text (`proto.storage.attribute_encoding`); and its service.
    """

    service_name: str
    environment: str
    release: str
    attributes: Texts
    attribute_types: str
    resource: str
    scope_name: str
    scope_version: str
    scope: str


class ResourceScopeColumns(NamedTuple):
    """The other columns of resource and scope, and truncations. Only full records show them."""

    dropped_attributes_count: int
    resource_dropped_attributes_count: int
    resource_schema_url: str
    entity_refs: str
    scope_dropped_attributes_count: int
    scope_schema_url: str
    truncations: str


class SpanColumns(NamedTuple):
    """A span's own columns. Ids are bytes, zeros if absent; the duration may be negative."""

    start_ns: int
    duration_ns: int
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    name: str
    kind: int
    status_code: int
    status_message: str
    batch_id: int
    row: int


class SpanRecordColumns(NamedTuple):
    """The columns that only the full record of a span shows. Events and links are JSON lists, empty text for none."""

    trace_state: str
    flags: int
    events: str
    dropped_events_count: int
    links: str
    dropped_links_count: int


class LogColumns(NamedTuple):
    """A log record's own columns."""

    time_ns: int
    time_source: int
    observed_ns: int
    trace_id: bytes
    span_id: bytes
    flags: int
    severity_number: int
    severity_text: str
    event_name: str
    body: str
    body_type: str
    batch_id: int
    row: int


class BriefSpanColumns(NamedTuple):
    """A span without its attributes, for the layout of the waterfall."""

    start_ns: int
    duration_ns: int
    span_id: bytes
    parent_span_id: bytes
    name: str
    kind: int
    status_code: int
    service_name: str
    batch_id: int
    row: int


class TraceRowColumns(NamedTuple):
    """A span as a row of the page's waterfall. `events` and `links`: their numbers."""

    start_ns: int
    duration_ns: int
    span_id: bytes
    parent_span_id: bytes
    name: str
    kind: int
    status_code: int
    service_name: str
    batch_id: int
    row: int
    status_message: str
    release: str
    environment: str
    events: int
    links: int


class OccurrenceColumns(NamedTuple):
    """An error occurrence without its stack trace."""

    time_ns: int
    trace_id: bytes
    span_id: bytes
    type: str
    message: str
    source: str
    service_name: str
    environment: str
    release: str
    batch_id: int
    row: int


_SPAN_SQL: Final = {"start_ns": "toUnixTimestamp64Nano(start_time)", "duration_ns": "duration"}
_LOG_SQL: Final = {"time_ns": "toUnixTimestamp64Nano(time)", "observed_ns": "toUnixTimestamp64Nano(observed_time)"}

_OCCURRENCE_SQL: Final = {"time_ns": "toUnixTimestamp64Nano(time)"}


def _select(names: tuple[str, ...], sql: dict[str, str]) -> tuple[str, ...]:
    return tuple(sql.get(name, name) for name in names)


SPAN_SELECT: Final = _select(SpanColumns._fields + AttributeColumns._fields, _SPAN_SQL)
SPAN_RECORD_SELECT: Final = _select(
    SpanColumns._fields + AttributeColumns._fields + ResourceScopeColumns._fields + SpanRecordColumns._fields, _SPAN_SQL
)
LOG_SELECT: Final = _select(LogColumns._fields + AttributeColumns._fields + ResourceScopeColumns._fields, _LOG_SQL)
TRACE_ROW_SELECT: Final = _select(
    TraceRowColumns._fields, _SPAN_SQL | {"events": "JSONLength(events)", "links": "JSONLength(links)"}
)
BRIEF_SPAN_SELECT: Final = _select(BriefSpanColumns._fields, _SPAN_SQL)
OCCURRENCE_SELECT: Final = _select(OccurrenceColumns._fields, _OCCURRENCE_SQL)
OCCURRENCE_RECORD_SELECT: Final = (*OCCURRENCE_SELECT, "stacktrace")
ATTRIBUTE_SELECT: Final = ("batch_id", "row", *AttributeColumns._fields)


def within_bytes(rows: list[tuple[Any, ...]], budget: int, *, page_started: bool) -> list[tuple[Any, ...]]:
    """The longest prefix of `rows` within `budget` bytes; at least one row, unless `page_started`.

    ClickHouse's own limit is not enough, because it counts a resource that many rows share only once.
    """
    for count, row in enumerate(rows):
        budget -= text_size(row)
        if budget < 0 and (count or page_started):
            return rows[:count]
    return rows


def text_size(row: Sequence[Any]) -> int:
    """The approximate size of a row in ClickHouse, in bytes: its texts, with 8 bytes of overhead for each."""
    size = 0
    for each in row:
        if isinstance(each, dict):
            size += sum(len(key) + len(text) + 16 for key, text in each.items())
        elif isinstance(each, str):
            size += len(each) + 8
    return size
