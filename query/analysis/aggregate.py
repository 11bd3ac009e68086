"""Figures of groups of spans, over time: POST .../explore/spans/aggregate (specification 4.2).

    plan   a body -> time, filters, function, keys, interval; every fault of it at once                       -> 400
    read   the newest part of the window with no more spans than may be looked at (`ceiling`)
           groups and their series from one scan; of very many cells the groups first, then the series of those shown
    answer rows -> JSON, zero-filled

The figures are exact for the part that `range` names, up to the rounding of doubles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.clickhouse import QueryTooLarge
from chassis.http.validation import Issues, decode_with_placeholders
from query.analysis import scan_limit
from query.analysis.aggregate_json import JsonNumber, empty_value, group_text, to_json
from query.analysis.scan_limit import ScanWindow
from query.analysis.time_buckets import (
    MAX_INTERVAL_MINUTES,
    MAX_POINTS,
    bucket_labels,
    default_interval_minutes,
    point_count,
    time_buckets,
)
from query.fields import SPANS
from query.json_types import Count, Range
from query.read_store import ReadStore
from query.request.bodies import TimeInput, time_range
from query.request.filters import Filter, FilterInputs, KeyText, check_filters, check_key, conditions, resolve_key
from query.settings import QuerySettings
from query.statements import Aggregation, Condition, Fn, GroupKey, GroupRanking, GroupSeries, Subject
from query.statements.window import MAX_HOURS, Window
from query.timestamps import format_timestamp

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 100
FILTERS_PATH: Final = "body.filters"

Value = Annotated[JsonNumber, Meta(extra_json_schema={"type": ["number", "null"]})]


class AggregateRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which figures, of which spans. null means what absence means."""

    # Specification 4.2.

    fn: Fn
    from_: TimeInput | None = msgspec.field(default=None, name="from")
    to: TimeInput | None = None
    hours: Annotated[int, Meta(ge=1, le=MAX_HOURS)] | None = None
    field: KeyText | None = None
    group_by: KeyText | None = None
    filters: FilterInputs | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] | None = None
    interval_minutes: Annotated[int, Meta(ge=1, le=MAX_INTERVAL_MINUTES)] | None = None


class Group(msgspec.Struct):
    """`group`: null for the spans without the key. `count`: its spans, whatever the function looks at."""

    group: str | None
    value: Value
    count: Count


class Point(msgspec.Struct):
    """What starts in the interval that begins at `bucket`, as far as `range` goes."""

    bucket: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    value: Value
    count: Count


class Series(msgspec.Struct):
    """A point for every interval of the range."""

    group: str | None
    points: list[Point]


class Limits(msgspec.Struct, rename="camel"):
    """The ceilings of this service."""

    max_scan_rows: int
    max_series: int
    max_group_cardinality: int


class Aggregate(msgspec.Struct, rename="camel"):
    """The figures of the spans in `range`: of each group as a whole, and over time."""

    # Specification 4.2, exactly its keys.

    fn: Fn
    field: str | None
    group_by: str | None
    range: Range
    groups: list[Group]
    series: list[Series]
    scanned: Count
    scan_truncated: bool
    group_count: Count
    groups_truncated: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """A request that can be answered. `minutes`: the interval of the series."""

    request: AggregateRequest
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    window: Window
    interval_minutes: int

    @property
    def subject(self) -> Subject | None:
        return _subject(self.request.field)

    @property
    def group_by(self) -> Subject | None:
        return _subject(self.request.group_by)


class GroupRow(NamedTuple):
    """A group as the engine gives it: its steps are (number, spans, figure), `groups` is how many there are."""

    key: GroupKey
    spans: int
    value: Any
    buckets: Sequence[tuple[int, int, Any]]
    group_count: int


_NO_SPANS: Final = GroupRow(None, 0, None, (), 1)


class AggregateResult(NamedTuple):
    """The part of the window that was looked at, and the groups to show."""

    scan_window: ScanWindow
    rows: Sequence[GroupRow]


def plan(raw: bytes, now_ns: int) -> AggregatePlan:
    """BadRequest names every offending field of the body."""
    issues = Issues()
    request = decode_with_placeholders(AggregateRequest, raw, {"fn": "count"}, issues)
    planned = None if request is None else _build_plan(request, now_ns, issues)
    issues.raise_if_any()
    if planned is None:
        raise TypeError("a body that gives no plan has an issue")
    return planned


def _build_plan(request: AggregateRequest, now_ns: int, issues: Issues) -> AggregatePlan | None:
    window = time_range(request.from_, request.to, request.hours).resolve(now_ns, "body", issues)
    filters = check_filters(request.filters or (), FILTERS_PATH, issues)
    tests = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    _check_keys(request, issues)
    minutes = None if window is None else _interval_minutes(request, window, issues)
    return None if window is None or minutes is None else AggregatePlan(request, filters, tests, window, minutes)


def _check_keys(request: AggregateRequest, issues: Issues) -> None:
    if request.field is not None:
        check_key(request.field, "body.field", issues)
    elif request.fn is not Fn.COUNT and not issues.has_issue_under("body.field"):
        issues.add("body.field", f"{request.fn} needs a field.", "missing")
    if request.group_by is not None:
        check_key(request.group_by, "body.groupBy", issues)


def _interval_minutes(request: AggregateRequest, window: Window, issues: Issues) -> int:
    if request.interval_minutes is None:
        return default_interval_minutes(window)
    if point_count(window, request.interval_minutes) > MAX_POINTS:
        message = f"A series has at most {MAX_POINTS} points; ask for a longer interval or less time."
        issues.add("body.intervalMinutes", message, "too_small")
    return request.interval_minutes


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: AggregatePlan) -> AggregateResult:
    """The groups that are to be shown, with their steps. Raises StoreErrors."""
    part = await scan_limit.newest_within_limit(store, project_id, plan.window, settings.max_scan_rows)
    if not part.spans:
        return AggregateResult(part, ())
    subjects = [each for each in (plan.subject, plan.group_by) if each is not None]
    subjects += [each.subject for each in plan.conditions]
    statement = Aggregation(
        project_id=project_id,
        existing_attributes=await store.find_existing_attributes(project_id, part.window, subjects),
        window=part.window,
        conditions=plan.conditions,
        fn=plan.request.fn,
        subject=plan.subject,
        group_by=plan.group_by,
        buckets=time_buckets(part.window, plan.interval_minutes),
        limit=plan.request.limit or DEFAULT_LIMIT,
    )
    try:
        rows = await store.rows(statement, max_groups=settings.max_group_cardinality)
    except QueryTooLarge:
        rows = await _two_pass(store, statement)
    return AggregateResult(part, [GroupRow._make(row) for row in rows])


async def _two_pass(store: ReadStore, statement: Aggregation) -> list[tuple[Any, ...]]:
    """The same rows. The first scan holds every group but no steps, the second the steps of the groups shown."""
    parts = {field.name: getattr(statement, field.name) for field in fields(GroupRanking) if field.name != "limit"}
    ranked = await store.rows(GroupRanking(**parts, limit=statement.limit))
    if not ranked:
        return []
    groups = () if statement.group_by is None else tuple(row[0] for row in ranked)
    series = dict(await store.rows(GroupSeries(**parts, buckets=statement.buckets, groups=groups)))
    return [(*row[:3], series.get(row[0], ()), row[3]) for row in ranked]


def encode_response(plan: AggregatePlan, result: AggregateResult, settings: QuerySettings) -> bytes:
    """The answer as JSON."""
    request, part = plan.request, result.scan_window
    rows = result.rows if plan.group_by is not None or result.rows else (_NO_SPANS,)
    groups = [_group(row, plan) for row in rows]
    group_count = rows[0].group_count if rows else 0
    begins = bucket_labels(part.window, plan.interval_minutes)
    series = [Series(group.group, _points(row.buckets, begins, plan)) for group, row in zip(groups, rows, strict=True)]
    body = Aggregate(
        fn=request.fn,
        field=request.field,
        group_by=request.group_by,
        range=Range(format_timestamp(part.window.from_ns), format_timestamp(part.window.to_ns)),
        groups=groups,
        series=series[: settings.max_series],
        scanned=part.spans,
        scan_truncated=part.truncated,
        group_count=group_count,
        groups_truncated=group_count > len(groups),
        limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
    )
    return msgspec.json.encode(body)


def _group(row: GroupRow, asked: AggregatePlan) -> Group:
    return Group(group_text(row.key, asked.group_by), _value(row.value, row.spans, asked), row.spans)


def _points(steps: Sequence[tuple[int, int, Any]], begins: Sequence[str], asked: AggregatePlan) -> list[Point]:
    found: Mapping[int, tuple[int, int, Any]] = {step[0]: step for step in steps}
    points = []
    for number, begin in enumerate(begins):
        _, spans, figure = found.get(number, (number, 0, None))
        points.append(Point(begin, _value(figure, spans, asked), spans))
    return points


def _value(figure: Any, spans: int, asked: AggregatePlan) -> JsonNumber:
    fn = asked.request.fn
    return to_json(figure, fn, asked.subject) if spans else empty_value(fn)


def _subject(key: str | None) -> Subject | None:
    return None if key is None else resolve_key(key, SPANS)
