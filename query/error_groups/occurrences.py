"""The occurrences of a group, and the full record of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from chassis.http.validation import Issues, bounded_int
from query.error_groups import schemas
from query.error_groups.ids import OccurrenceKey, occurrence_id
from query.error_groups.surrounding_logs import SurroundingLogs, log_context, read_surrounding_logs
from query.fields import SPANS
from query.read_store import ReadStore
from query.rows import OccurrenceColumns
from query.search.listing import RowPage
from query.search.serializers import StoredEvent, hex_id, span, span_events
from query.statements import ErrorRecord, SpanRecords
from query.timestamps import format_timestamp
from query.trace_windows import trace_windows

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
    """The number of log records requested on each side. BadRequest outside of the bounds."""
    issues = Issues()
    logs = bounded_int(query, "logs", DEFAULT_LOGS, 1, MAX_LOGS, issues)
    issues.raise_if_any()
    return logs


async def read_occurrence(
    store: ReadStore, project_id: int, fingerprint: bytes, key: OccurrenceKey, log_limit: int
) -> OccurrenceRows | None:
    """One occurrence with its span and the log records around it; None for an unknown one. Raises StoreErrors."""
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
    """The time of the span event that is this occurrence: the occurrence itself has the span's start time. Of several
    events with the same type and message, the first.
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
    """The row of the span that the occurrence names, the earliest of those that share the id."""
    if not any(occurrence.trace_id) or not any(occurrence.span_id):
        return None
    window = (await trace_windows(store, project_id, occurrence.trace_id)).get(SPANS.trace_index_code)
    if window is None:
        return None
    statement = SpanRecords(
        project_id=project_id, trace_id=occurrence.trace_id, span_id=occurrence.span_id, window=window, limit=1
    )
    rows = await store.rows(statement)
    return rows[0] if rows else None
