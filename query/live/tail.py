"""The rows that ended lately: GET .../explore/spans/live and .../explore/logs/live.

plan     query string -> TailPlan, or all its faults at once; does not read the store
fetch    the rows that ended since the position and were not shown, those that ended last first; and the next position

The cost of an answer is bounded: it reads spans that started in the last quarter of an hour, log records of the last
minute, and of both the newest MAX_READ_ROWS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from chassis.http.validation import Issues, bounded_int, bounded_text, single_value
from query.analysis import scan_limit
from query.fields import SPANS, TelemetryTable
from query.live.position import MAX_POSITION, RowId, TailPosition, decode_position, encode_position, next_position
from query.read_store import ReadStore
from query.request.filters import Filter, conditions, parse_filters
from query.request.parameters import DEFAULT_LIMIT, FILTERS_PATH, MAX_LIMIT
from query.rows import LogColumns, SpanColumns
from query.search.listing import attribute_names_of, read_bounded
from query.search.schemas import Log, Span
from query.search.serializers import log, span
from query.statements import Condition, EndedRows
from query.statements.window import Window
from query.timestamps import MINUTE

MAX_LATENESS_NS: Final = MINUTE  # how long after its end a row is still shown
MAX_SPAN_NS: Final = 15 * MINUTE  # how long before now a span may have started
MAX_READ_ROWS: Final = 2_000_000


class SpanTail(msgspec.Struct):
    """Spans that ended, those that ended last first. Pass `next` as `after` to get those that come after them.
    `truncated`: more came since the previous answer than this one shows, or that was more than a minute ago; what is
    not shown will not be shown.
    """

    data: list[Span]
    next: str
    truncated: bool


class LogTail(msgspec.Struct):
    """Log records, newest first. Pass `next` as `after` to get those that come after them. `truncated`: more came since
    the previous answer than this one shows, or that was more than a minute ago; what is not shown will not be shown.
    """

    data: list[Log]
    next: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class TailPlan:
    """A validated request. Without `after` the tail begins."""

    project_id: int
    signal: TelemetryTable
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    limit: int
    after: TailPosition | None
    now_ns: int


class TailRows(NamedTuple):
    """Rows of the signal's select, the position after them, and whether others were left out."""

    rows: list[tuple[Any, ...]]
    position: TailPosition
    truncated: bool


def plan(query: Mapping[str, str], project_id: int, signal: TelemetryTable, now_ns: int) -> TailPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    limit = bounded_int(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
    text = bounded_text(query, "after", 1, MAX_POSITION, issues)
    after = None if text is None else decode_position(text)
    if text is not None and after is None and not issues.has_issue_under("query.after"):
        issues.add("query.after", "Must be the `next` of an answer.", "invalid")
    resolved = conditions(filters, signal, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    return TailPlan(project_id, signal, filters, resolved, limit, after, now_ns)


async def fetch(store: ReadStore, plan: TailPlan) -> TailRows:
    """Read what was not shown. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    floor_ns, is_late = max(0, plan.now_ns - MAX_LATENESS_NS), False
    if plan.after is not None:
        is_late, floor_ns = floor_ns > plan.after.now_ns, max(floor_ns, plan.after.floor_ns)
    if floor_ns + 1 >= plan.now_ns:
        return TailRows([], next_position(plan.after, plan.now_ns, floor_ns, ()), is_late)
    statement, is_short = await _statement(store, plan, floor_ns)
    rows, is_cut = await read_bounded(store, statement, plan.limit + 1, store.max_page_bytes, page_started=False)
    ends = [_end(row, plan.signal) for row in rows]
    if is_cut or len(rows) > plan.limit:
        is_cut = True
        floor_ns = max(floor_ns, ends[min(len(rows) - 1, plan.limit)][0])
    position = next_position(plan.after, plan.now_ns, floor_ns, ends[: plan.limit])
    return TailRows(rows[: plan.limit], position, is_late or ((is_cut or is_short) and plan.after is not None))


def span_tail(tail: TailRows) -> SpanTail:
    """The tail as a response."""
    return SpanTail([span(row) for row in tail.rows], encode_position(tail.position), tail.truncated)


def log_tail(tail: TailRows) -> LogTail:
    """The tail as a response."""
    return LogTail([log(row) for row in tail.rows], encode_position(tail.position), tail.truncated)


async def _statement(store: ReadStore, plan: TailPlan, floor_ns: int) -> tuple[EndedRows, bool]:
    """With the start of the window as far back as the limits permit, and whether that is too late for some rows."""
    start_ns = max(0, plan.now_ns - MAX_SPAN_NS) if plan.signal is SPANS else floor_ns + 1
    window = Window(start_ns, plan.now_ns)
    newest = await scan_limit.newest_within_limit(store, plan.project_id, window, MAX_READ_ROWS, plan.signal)
    subjects = [subject for each in plan.conditions for subject in each.subjects]
    statement = EndedRows(
        project_id=plan.project_id,
        existing_attributes=attribute_names_of(subjects),
        signal=plan.signal,
        window=newest.window,
        after_ns=floor_ns,
        conditions=plan.conditions,
        shown=() if plan.after is None else plan.after.row_ids,
        limit=1,
    )
    return statement, newest.truncated


def _end(row: Sequence[Any], signal: TelemetryTable) -> tuple[int, RowId]:
    """When a row ended, and its id."""
    if signal is SPANS:
        columns = SpanColumns._make(row[: len(SpanColumns._fields)])
        return columns.start_ns + max(columns.duration_ns, 0), (columns.batch_id, columns.row)
    record = LogColumns._make(row[: len(LogColumns._fields)])
    return record.time_ns, (record.batch_id, record.row)
