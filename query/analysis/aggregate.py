"""Aggregates of groups of spans, over time: POST .../explore/spans/aggregate (specification 4.2).

    plan              body -> time, filters, function, keys, interval; reports all faults at once             -> 400
    read              the newest part of the window within the scan limit (`scan_limit`);
                      groups and their series from one scan; if there are too many cells, first the groups, then the
                      series of the shown groups
    build_response    rows -> response, zero-filled

The values are exact for the part of the window that `range` shows, up to the rounding of doubles.

Aggregates as JSON: counts are integers, durations are milliseconds with nanosecond precision, values of attributes are
doubles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.clickhouse import QueryTooLarge
from chassis.http.validation import Issues
from query.analysis.windows import (
    MAX_INTERVAL_MINUTES,
    MAX_POINTS,
    ScanWindow,
    bucket_labels,
    default_interval_minutes,
    newest_within_limit,
    point_count,
    time_buckets,
)
from query.read_store import ReadStore
from query.request.filters import (
    PLACEHOLDERS,
    Filter,
    FilterInputs,
    KeyText,
    check_filters,
    check_key,
    conditions,
    resolve_key,
)
from query.request.parameters import TimeInput, plan_of_body, time_range
from query.rows import SPANS, ColumnKind, Field
from query.settings import QuerySettings
from query.statements import (
    MAX_HOURS,
    Aggregation,
    Condition,
    Fn,
    GroupKey,
    GroupRanking,
    GroupSeries,
    Subject,
    Window,
    subjects_of,
)
from query.values import Count, Range, format_millis, format_timestamp

_ZERO_WHEN_EMPTY: Final = frozenset({Fn.COUNT, Fn.COUNT_UNIQUE, Fn.SUM})

JsonNumber = int | float | msgspec.Raw | None


def to_json(value: Any, fn: Fn, subject: Subject | None) -> JsonNumber:
    """Convert a value from ClickHouse; None if there was nothing to aggregate."""
    if value is None:
        return None
    if fn in (Fn.COUNT, Fn.COUNT_UNIQUE):
        return int(value)
    if isinstance(subject, Field):
        return msgspec.Raw(format_millis(int(value)))
    return float(value)


def empty_value(fn: Fn) -> int | None:
    """The value of a group or a time bucket without spans."""
    return 0 if fn in _ZERO_WHEN_EMPTY else None


def group_text(group: GroupKey, subject: Subject | None) -> str | None:
    """The text of a group from ClickHouse, in the form that filters use; None for the spans without the key."""
    if group is None or not isinstance(subject, Field):
        return group if isinstance(group, str) else None
    if subject.optional and (not any(group) if isinstance(group, bytes) else not group):
        return None
    match subject.kind:
        case ColumnKind.ENUM:
            return subject.names[int(group)] if int(group) < len(subject.names) else ""
        case ColumnKind.DURATION:
            return format_millis(int(group))
        case ColumnKind.TIMESTAMP:
            return format_timestamp(int(group))
    return group.hex() if isinstance(group, bytes) else str(group)


DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 100
FILTERS_PATH: Final = "body.filters"

Value = Annotated[JsonNumber, Meta(extra_json_schema={"type": ["number", "null"]})]


class AggregateRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The function, and the spans to aggregate. A null field means the same as a missing field."""

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
    """One group. `group`: null for the spans without the key. `count`: all spans of the group, with or without the
    field."""

    group: str | None
    value: Value
    count: Count


class Point(msgspec.Struct):
    """The spans in `range` that start in the interval which begins at `bucket`."""

    bucket: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    value: Value
    count: Count


class Series(msgspec.Struct):
    """A series with one point for every interval of the range."""

    group: str | None
    points: list[Point]


class Limits(msgspec.Struct, rename="camel"):
    """The limits of this service."""

    max_scan_rows: int
    max_series: int
    max_group_cardinality: int


class Aggregate(msgspec.Struct, rename="camel"):
    """Aggregates of the spans in `range`: one value for each group, and one for each interval of each group."""

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
    """A validated request. `interval_minutes`: the interval of the series."""

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
    """A group as ClickHouse returns it. Its buckets are (number, spans, value). `group_count` is the number of all
    groups.
    """

    key: GroupKey
    spans: int
    value: Any
    buckets: Sequence[tuple[int, int, Any]]
    group_count: int


_NO_SPANS: Final = GroupRow(None, 0, None, (), 1)


class AggregateResult(NamedTuple):
    """The part of the window that was scanned, and the groups to show."""

    scan_window: ScanWindow
    rows: Sequence[GroupRow]


def plan(raw: bytes, now_ns: int) -> AggregatePlan:
    """Validate the body; BadRequest names every offending field."""
    return plan_of_body(AggregateRequest, raw, now_ns, _build_plan, {"fn": "count"} | PLACEHOLDERS)


def _build_plan(request: AggregateRequest, now_ns: int, issues: Issues) -> AggregatePlan | None:
    window = time_range(request.from_, request.to, request.hours).resolve(now_ns, "body", issues)
    filters = check_filters(request.filters or (), FILTERS_PATH, issues)
    resolved = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    _check_keys(request, issues)
    minutes = None if window is None else _interval_minutes(request, window, issues)
    return None if window is None or minutes is None else AggregatePlan(request, filters, resolved, window, minutes)


def _check_keys(request: AggregateRequest, issues: Issues) -> None:
    if request.field is not None:
        check_key(request.field, "body.field", issues)
    elif request.fn is not Fn.COUNT and not issues.has_issue_under("body.field"):
        issues.add("body.field", f"{request.fn} requires a field.", "missing")
    if request.group_by is not None:
        check_key(request.group_by, "body.groupBy", issues)


def _interval_minutes(request: AggregateRequest, window: Window, issues: Issues) -> int:
    if request.interval_minutes is None:
        return default_interval_minutes(window)
    if point_count(window, request.interval_minutes) > MAX_POINTS:
        message = f"A series has at most {MAX_POINTS} points; use a longer interval or a shorter time range."
        issues.add("body.intervalMinutes", message, "too_small")
    return request.interval_minutes


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: AggregatePlan) -> AggregateResult:
    """The groups to show, with their time buckets. Raises BadRequest for a pattern that does not compile, and
    StoreErrors.
    """
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    scan_window = await newest_within_limit(store, project_id, plan.window, settings.max_scan_rows)
    if not scan_window.spans:
        return AggregateResult(scan_window, ())
    statement = Aggregation(
        project_id=project_id,
        existing_attributes=await store.find_existing_attributes(
            project_id, scan_window.window, subjects_of(plan.conditions, plan.subject, plan.group_by)
        ),
        window=scan_window.window,
        conditions=plan.conditions,
        fn=plan.request.fn,
        subject=plan.subject,
        group_by=plan.group_by,
        buckets=time_buckets(scan_window.window, plan.interval_minutes),
        limit=plan.request.limit or DEFAULT_LIMIT,
    )
    return AggregateResult(scan_window, await read_groups(store, settings, statement))


async def read_groups(store: ReadStore, settings: QuerySettings, statement: Aggregation) -> list[GroupRow]:
    """The groups of `statement`, in two scans if it has too many cells. Raises StoreErrors."""
    try:
        rows = await store.rows(statement, max_groups=settings.max_group_cardinality)
    except QueryTooLarge:
        rows = await _two_pass(store, statement)
    return [GroupRow._make(row) for row in rows]


async def _two_pass(store: ReadStore, statement: Aggregation) -> list[tuple[Any, ...]]:
    """The rows of `statement` in two scans: the first has every group but no buckets, the second the buckets of the
    groups shown. Raises StoreErrors.
    """
    common = {field.name: getattr(statement, field.name) for field in fields(GroupRanking) if field.name != "limit"}
    ranked = await store.rows(GroupRanking(**common, limit=statement.limit))
    if not ranked:
        return []
    groups = () if statement.group_by is None else tuple(row[0] for row in ranked)
    series = dict(await store.rows(GroupSeries(**common, buckets=statement.buckets, groups=groups)))
    return [(*row[:3], series.get(row[0], ()), row[3]) for row in ranked]


def build_response(plan: AggregatePlan, result: AggregateResult, settings: QuerySettings) -> Aggregate:
    """The response."""
    request, scan_window = plan.request, result.scan_window
    rows = result.rows if plan.group_by is not None or result.rows else (_NO_SPANS,)
    groups = [_group(row, plan) for row in rows]
    group_count = rows[0].group_count if rows else 0
    labels = bucket_labels(scan_window.window, plan.interval_minutes)
    series = [Series(group.group, _points(row.buckets, labels, plan)) for group, row in zip(groups, rows, strict=True)]
    return Aggregate(
        fn=request.fn,
        field=request.field,
        group_by=request.group_by,
        range=Range(format_timestamp(scan_window.window.from_ns), format_timestamp(scan_window.window.to_ns)),
        groups=groups,
        series=series[: settings.max_series],
        scanned=scan_window.spans,
        scan_truncated=scan_window.truncated,
        group_count=group_count,
        groups_truncated=group_count > len(groups),
        limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
    )


def _group(row: GroupRow, plan: AggregatePlan) -> Group:
    return Group(group_text(row.key, plan.group_by), _value(row.value, row.spans, plan), row.spans)


def _points(buckets: Sequence[tuple[int, int, Any]], labels: Sequence[str], plan: AggregatePlan) -> list[Point]:
    bucket_by_number: Mapping[int, tuple[int, int, Any]] = {bucket[0]: bucket for bucket in buckets}
    points = []
    for number, label in enumerate(labels):
        _, spans, value = bucket_by_number.get(number, (number, 0, None))
        points.append(Point(label, _value(value, spans, plan), spans))
    return points


def _value(value: Any, spans: int, plan: AggregatePlan) -> JsonNumber:
    fn = plan.request.fn
    return to_json(value, fn, plan.subject) if spans else empty_value(fn)


def _subject(key: str | None) -> Subject | None:
    return None if key is None else resolve_key(key, SPANS)
