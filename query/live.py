"""The live tail: new spans and log records, which a client polls every few seconds.

    LiveHandlers    GET .../explore/spans/live and .../explore/logs/live
    plan            query string -> TailPlan, or all its errors at once; does not read the store
    fetch           rows that have ended since the position and were not shown yet, in descending order of their end
    TailPosition    sent back by the client: the rows that it has, as far as they might be read again

Rows are found by their own times, not by the time at which they were stored. So a response has the rows that ended in
the last minute, except the rows that the client already has: `next` lists these by batch and row. If they do not all
fit, `next` drops the rows that ended first, and later responses show no rows that ended before the last dropped row. So
no row is shown twice, but in a busy project late rows are missed sooner.

A position is the text `next`, which the client sends back as `after`. It is neither secret nor signed, because it only
lists rows that need not be shown.

The cost of a response is bounded: it reads at most the newest MAX_READ_ROWS, from spans that started in the last
quarter of an hour or log records of the last minute.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.http.route import Parameter
from chassis.http.validation import Issues, bounded_int, bounded_text, single_value
from query.analysis import windows
from query.read_store import ReadStore
from query.request.filters import Filter, conditions, parse_filters
from query.request.parameters import DEFAULT_LIMIT, FILTERS_PATH, MAX_LIMIT
from query.routing import (
    FILTERS_OF_LOGS,
    FILTERS_OF_SPANS,
    LIMIT,
    LOG_TAG,
    SPAN_TAG,
    Endpoints,
    explore,
    get_project_id,
)
from query.rows import LOGS, SPANS, LogColumns, SpanColumns, TelemetryTable
from query.scheduler import QueryKey
from query.search.listing import attribute_names_of, read_bounded
from query.search.schemas import Log, Span
from query.search.serializers import log, span
from query.statements import Condition, EndedRows, Window, subjects_of
from query.values import MAX_NANOS, MINUTE

MAX_POSITION: Final = 2_800  # characters
AFTER: Final = Parameter(
    "after",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_POSITION)],
    "The `next` of the previous response. Without `after`, the tail begins with the last minute.",
)
_MAX_BYTES: Final = 2_000  # of the listed rows: some 300 rows of few batches
_ANSWER_BYTES: Final = 15
_BATCH_BYTES: Final = 14
_ROW_BYTES: Final = 5

_Nanos = Annotated[int, Meta(ge=0, le=MAX_NANOS)]
_Row = Annotated[int, Meta(ge=0, le=2**32 - 1)]
RowId = tuple[int, int]  # batch and row


class ShownRows(NamedTuple):
    """The rows of one response, by batch; no row ended after `last_end_ns`."""

    last_end_ns: _Nanos
    rows: list[tuple[Annotated[int, Meta(ge=0)], list[_Row]]]


class TailPosition(NamedTuple):
    """The rows that a client was shown up to `now_ns`: all rows that ended at `floor_ns` or before count as shown, and
    `answers` list shown rows that ended later.
    """

    now_ns: _Nanos
    floor_ns: _Nanos
    answers: list[ShownRows]

    @property
    def row_ids(self) -> tuple[RowId, ...]:
        """The rows that the position lists."""
        return tuple((batch, row) for each in self.answers for batch, rows in each.rows for row in rows)


def next_position(
    previous: TailPosition | None, now_ns: int, floor_ns: int, shown: Sequence[tuple[int, RowId]]
) -> TailPosition:
    """The position after a response with the rows `shown`: (end, id), in descending order of their end."""
    kept, budget = list[ShownRows](), _MAX_BYTES
    rows, last_end_ns = dict[int, list[int]](), 0
    for end_ns, (batch, row) in shown:
        if end_ns <= floor_ns:
            break
        budget -= _ROW_BYTES + (0 if batch in rows else _BATCH_BYTES) + (0 if rows else _ANSWER_BYTES)
        if budget < 0:
            floor_ns = end_ns
            break
        rows.setdefault(batch, []).append(row)
        last_end_ns = last_end_ns or end_ns
    if rows:
        kept.append(ShownRows(last_end_ns, list(rows.items())))
    for answer in sorted(() if previous is None else previous.answers, reverse=True):
        if answer.last_end_ns <= floor_ns:
            break
        budget -= _ANSWER_BYTES + sum(_BATCH_BYTES + _ROW_BYTES * len(each) for _, each in answer.rows)
        if budget < 0:
            floor_ns = answer.last_end_ns
            break
        kept.append(answer)
    return TailPosition(now_ns, floor_ns, kept)


def encode_position(position: TailPosition) -> str:
    """The position as at most MAX_POSITION URL-safe characters."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).rstrip(b"=").decode("ascii")


def decode_position(text: str) -> TailPosition | None:
    """The position of a text; None for a text that is not a position."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(raw, type=TailPosition)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None


MAX_LATENESS_NS: Final = MINUTE  # how long after its end a row is still shown
MAX_SPAN_NS: Final = 15 * MINUTE  # how long before now a span may have started
MAX_READ_ROWS: Final = 2_000_000


class SpanTail(msgspec.Struct):
    """Spans that have ended; spans that ended last come first. Pass `next` as `after` to get the spans that end later.
    `truncated`: some spans were left out, because too many have ended since the previous response, or because it was
    more than a minute ago. Later responses do not show them either.
    """

    data: list[Span]
    next: str
    truncated: bool


class LogTail(msgspec.Struct):
    """Log records, newest first. Pass `next` as `after` to get later records. `truncated`: some records were left out,
    because too many have been written since the previous response, or because it was more than a minute ago. Later
    responses do not show them either.
    """

    data: list[Log]
    next: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class TailPlan:
    """A validated request. Without `after`, a new tail begins."""

    project_id: int
    signal: TelemetryTable
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    limit: int
    after: TailPosition | None
    now_ns: int


class TailRows(NamedTuple):
    """Rows of the signal's select, the position after them, and whether other rows were left out."""

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
        issues.add("query.after", "Must be the `next` of a response.", "invalid")
    resolved = conditions(filters, signal, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    return TailPlan(project_id, signal, filters, resolved, limit, after, now_ns)


async def fetch(store: ReadStore, plan: TailPlan) -> TailRows:
    """Read the rows that were not shown yet. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
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
    """The statement for the longest window that the limits permit, and whether this window lacks some rows."""
    start_ns = max(0, plan.now_ns - MAX_SPAN_NS) if plan.signal is SPANS else floor_ns + 1
    window = Window(start_ns, plan.now_ns)
    newest = await windows.newest_within_limit(store, plan.project_id, window, MAX_READ_ROWS, plan.signal)
    statement = EndedRows(
        project_id=plan.project_id,
        existing_attributes=attribute_names_of(subjects_of(plan.conditions)),
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


class LiveHandlers(Endpoints):
    """The endpoints over each principal's read store."""

    @explore(SPAN_TAG, "/spans/live", SpanTail, AFTER, FILTERS_OF_SPANS, LIMIT, answers_head=False)
    async def tail_spans(self, request: web.Request) -> web.StreamResponse:
        """Show the spans that have ended since the previous response.

        Poll this endpoint every two seconds. A span is shown once. Spans that lasted longer than a quarter of an hour,
        or arrived more than a minute after their end, are not shown.
        """
        return await self._tail(request, SPANS, span_tail)

    @explore(LOG_TAG, "/logs/live", LogTail, AFTER, FILTERS_OF_LOGS, LIMIT, answers_head=False)
    async def tail_logs(self, request: web.Request) -> web.StreamResponse:
        """Show the log records since the previous response.

        Poll this endpoint every two seconds. A record is shown once. Records that arrived more than a minute after
        their time are not shown.
        """
        return await self._tail(request, LOGS, log_tail)

    async def _tail(
        self, request: web.Request, signal: TelemetryTable, build: Callable[[TailRows], object]
    ) -> web.StreamResponse:
        planned = plan(request.query, get_project_id(request), signal, self.clock())
        key = QueryKey.of("live", planned.project_id, planned)
        return await self.respond_with(request, key, lambda store: fetch(store, planned), build)
