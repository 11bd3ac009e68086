"""The occurrences of a group, and the full record of one occurrence.

An id encodes an `OccurrenceKey` (time, batch and row), so that a look-up reads only the rows of one five-minute bucket.

`read_surrounding_logs` finds the log records of its trace or its service around its time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec

from chassis.http.validation import Issues, bounded_int
from query.error_groups import schemas
from query.read_store import ReadStore
from query.rows import LOGS, SPANS, OccurrenceColumns, text_size
from query.search.listing import RowPage, read_bounded
from query.search.serializers import StoredEvent, hex_id, log, span, span_events
from query.statements import Condition, ErrorRecord, Listing, SpanRecords, TextIn, Window, slices, slices_oldest_first
from query.values import HOUR, MAX_NANOS, format_timestamp

_DIGITS: Final = 40


class OccurrenceKey(NamedTuple):
    """The stored location of an occurrence."""

    time_ns: int
    batch_id: int
    row: int


def occurrence_id(key: OccurrenceKey) -> str:
    """Format a key as 40 hex digits."""
    return f"{key.time_ns:016x}{key.batch_id:016x}{key.row:08x}"


def parse_occurrence_id(text: str) -> OccurrenceKey | None:
    """Parse an id; None for any other text."""
    if len(text) != _DIGITS or not text.isascii() or not text.isalnum():
        return None
    try:
        key = OccurrenceKey(int(text[:16], 16), int(text[16:32], 16), int(text[32:], 16))
    except ValueError:
        return None
    return key if key.time_ns < MAX_NANOS else None


SERVICE_LOGS_RADIUS_NS: Final = HOUR  # how far from the occurrence a service's records are searched


@dataclass(frozen=True, slots=True)
class SurroundingLogs:
    """Rows of LOG_SELECT on both sides of a point in time, nearest first, and whether there are more beyond."""

    scope: str
    before: tuple[list[tuple[Any, ...]], bool]
    after: tuple[list[tuple[Any, ...]], bool]


async def read_surrounding_logs(
    store: ReadStore, project_id: int, occurrence: OccurrenceColumns, moment_ns: int, limit: int
) -> SurroundingLogs | None:
    """At most `limit` records on each side of `moment_ns`, of with at most half a page's bytes. None if there is
    neither a trace with records nor a service.
    """
    moment_ns = min(moment_ns, MAX_NANOS - 2)
    scoped = await _scope(store, project_id, occurrence, moment_ns)
    if scoped is None:
        return None
    scope, statement = scoped
    budget = store.max_page_bytes // 2
    before = statement.window.intersect(Window(0, moment_ns + 1))
    after = statement.window.intersect(Window(moment_ns + 1, MAX_NANOS))
    return SurroundingLogs(
        scope,
        await _nearest(store, statement, slices(before) if before else iter(()), limit, budget),
        await _nearest(
            store,
            replace(statement, oldest_first=True),
            slices_oldest_first(after) if after else iter(()),
            limit,
            budget,
        ),
    )


def log_context(logs: SurroundingLogs) -> schemas.LogContext:
    """The records as a response, in order of time."""
    before, more_before = logs.before
    after, more_after = logs.after
    return schemas.LogContext(
        logs.scope,
        schemas.LogPart([log(row) for row in reversed(before)], more_before),
        schemas.LogPart([log(row) for row in after], more_after),
    )


async def _scope(
    store: ReadStore, project_id: int, occurrence: OccurrenceColumns, moment_ns: int
) -> tuple[str, Listing] | None:
    """The log records to choose from: of the trace if it has any, otherwise of the service in its environment."""
    if any(occurrence.trace_id):
        trace_window = (await store.trace_windows(project_id, occurrence.trace_id)).get(LOGS.trace_index_code)
        if trace_window is not None:
            listing = Listing(
                project_id=project_id, signal=LOGS, window=trace_window, trace_id=occurrence.trace_id, limit=1
            )
            return "trace", listing
    if not occurrence.service_name:
        return None
    window = Window(max(0, moment_ns - SERVICE_LOGS_RADIUS_NS), min(MAX_NANOS, moment_ns + SERVICE_LOGS_RADIUS_NS))
    names = {"serviceName": occurrence.service_name, "environment": occurrence.environment}
    conditions = tuple(Condition(LOGS.fields[field], TextIn((name,))) for field, name in names.items())
    return "service", Listing(project_id=project_id, signal=LOGS, window=window, conditions=conditions, limit=1)


async def _nearest(
    store: ReadStore, statement: Listing, parts: Iterator[Window], limit: int, budget: int
) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows, and whether there are more. One part of the time range is read after the other."""
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        found, is_cut = await read_bounded(
            store, replace(statement, window=part), limit + 1 - len(rows), budget, bool(rows)
        )
        rows += found
        budget -= sum(map(text_size, found))
        if len(rows) > limit or is_cut:
            return rows[:limit], True
    return rows, False


DEFAULT_LOGS: Final = 20
MAX_LOGS: Final = 100
_EXCEPTION: Final = "exception"


@dataclass(frozen=True, slots=True)
class OccurrenceRows:
    """The rows of one occurrence."""

    fingerprint: bytes
    occurrence: OccurrenceColumns
    stacktrace: str
    raised_ns: int
    span: tuple[Any, ...] | None
    surrounding_logs: SurroundingLogs | None


def parse_log_limit(query: Mapping[str, str]) -> int:
    """The number of log records requested on each side. Raises BadRequest if it is out of bounds."""
    issues = Issues()
    logs = bounded_int(query, "logs", DEFAULT_LOGS, 1, MAX_LOGS, issues)
    issues.raise_if_any()
    return logs


async def read_occurrence(
    store: ReadStore, project_id: int, fingerprint: bytes, key: OccurrenceKey, log_limit: int
) -> OccurrenceRows | None:
    """One occurrence with its span and the log records around it; None for an unknown occurrence. Raises
    StoreErrors."""
    rows = await store.rows(ErrorRecord(project_id=project_id, fingerprint=fingerprint, **key._asdict()))
    if not rows:
        return None
    *cells, stacktrace = rows[0]
    occurrence = OccurrenceColumns._make(cells)
    span_row = await _read_span(store, project_id, occurrence)
    raised_ns = _raised_ns(occurrence, span_row)
    surrounding_logs = await read_surrounding_logs(store, project_id, occurrence, raised_ns, log_limit)
    return OccurrenceRows(fingerprint, occurrence, stacktrace, raised_ns, span_row, surrounding_logs)


def occurrence_page(page: RowPage, fingerprint: bytes) -> schemas.OccurrencePage:
    """A page of rows of OCCURRENCE_SELECT."""
    data = [schemas.Occurrence(**_fields(OccurrenceColumns._make(row), fingerprint)) for row in page.rows]
    return schemas.OccurrencePage(data, page.next_cursor, page.next_cursor is not None)


def occurrence_record(found: OccurrenceRows, resolved_stacktrace: str | None) -> schemas.OccurrenceRecord:
    """The full occurrence as a response."""
    return schemas.OccurrenceRecord(
        **_fields(found.occurrence, found.fingerprint),
        stacktrace=found.stacktrace or None,
        resolved_stacktrace=resolved_stacktrace,
        raised_at=format_timestamp(found.raised_ns),
        span=None if found.span is None else span(found.span),
        logs=None if found.surrounding_logs is None else log_context(found.surrounding_logs),
    )


def _fields(occurrence: OccurrenceColumns, fingerprint: bytes) -> dict[str, Any]:
    key = OccurrenceKey(occurrence.time_ns, occurrence.batch_id, occurrence.row)
    return {
        "id": occurrence_id(key),
        "fingerprint": fingerprint.hex(),
        "time": format_timestamp(occurrence.time_ns),
        "type": occurrence.type or None,
        "message": occurrence.message or None,
        "source": occurrence.source,
        "trace_id": hex_id(occurrence.trace_id),
        "span_id": hex_id(occurrence.span_id),
        "service_name": occurrence.service_name or None,
        "environment": occurrence.environment,
        "release": occurrence.release or None,
    }


def _raised_ns(occurrence: OccurrenceColumns, span_row: tuple[Any, ...] | None) -> int:
    """The time of the span event that is this occurrence: the occurrence itself has the span's start time. If several
    events have the same type and message, the first one counts.
    """
    if occurrence.source != "span" or span_row is None:
        return occurrence.time_ns
    events = [each for each in span_events(span_row) if each.name == _EXCEPTION and each.time_unix_nano]
    matching = [
        each
        for each in events
        if _has_exception_attribute(each, "type", occurrence.type)
        and _has_exception_attribute(each, "message", occurrence.message)
    ]
    return next((each.time_unix_nano for each in matching or events), occurrence.time_ns)


def _has_exception_attribute(event: StoredEvent, name: str, text: str) -> bool:
    attributes = msgspec.json.decode(event.attributes, type=dict[str, object])
    return attributes.get(f"{_EXCEPTION}.{name}", "") == text


async def _read_span(store: ReadStore, project_id: int, occurrence: OccurrenceColumns) -> tuple[Any, ...] | None:
    """The row of the span that the occurrence names. If several spans have this id, the earliest one."""
    if not any(occurrence.trace_id) or not any(occurrence.span_id):
        return None
    window = (await store.trace_windows(project_id, occurrence.trace_id)).get(SPANS.trace_index_code)
    if window is None:
        return None
    statement = SpanRecords(
        project_id=project_id, trace_id=occurrence.trace_id, span_id=occurrence.span_id, window=window, limit=1
    )
    rows = await store.rows(statement)
    return rows[0] if rows else None
