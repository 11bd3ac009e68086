"""Rows as the statements select them: the columns of each row type, in order, and the SQL that reads each one."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

Texts = dict[str, str]


class AttributeColumns(NamedTuple):
    """The attributes of an item: its own, those of its resource and scope as lists that are stored as one text
    (`proto.storage.attribute_encoding`), and its service.
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
    """The other columns of resource and scope, and what was cut, shown only in full records."""

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
    """A span without its attributes, as the waterfall layout needs it."""

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

    ClickHouse's own bound is not enough: it counts a resource that many rows share once.
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
