"""Log records by group, over time: POST .../explore/logs/aggregate.

    plan              body -> time, filters, key, interval; reports all faults at once                        -> 400
    read              the newest part of the window within the scan limit (`query.analysis.windows`);
                      groups and their series from one scan; if there are too many cells, first the groups, then the
                      series of the shown groups
    build_response    rows -> response, zero-filled

Groups, their ranking and series are the same as in `query.analysis.aggregate` with the function `count`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.clickhouse import QueryTooLarge
from chassis.http.validation import Issues
from query.analysis.aggregate import DEFAULT_LIMIT, MAX_LIMIT, GroupRow, Limits, group_text, read_groups
from query.analysis.windows import (
    MAX_INTERVAL_SECONDS,
    ScanWindow,
    buckets_of_seconds,
    interval_seconds,
    labels_of_seconds,
    newest_within_limit,
)
from query.read_store import MAX_GROUP_BYTES, ReadStore
from query.request.filters import (
    Filter,
    FiltersInBody,
    KeyText,
    check_key,
    conditions,
    filters_of_body,
    resolve_key,
)
from query.request.parameters import TimeInput, plan_of_body, time_range
from query.rows import LOGS
from query.settings import QuerySettings
from query.statements import MAX_HOURS, Aggregation, Condition, Fn, GroupRanking, Subject, Window, subjects_of
from query.values import Count, Range, format_timestamp


class LogKey(msgspec.Struct, rename="camel"):
    """A key for filters and groups. `numeric`: whether its value is a finite number in all of these records."""

    key: str
    records: Count
    numeric: bool


class LogKeys(msgspec.Struct, rename="camel"):
    """Built-in fields and attributes of the log records in `range`, sorted by the number of records, then by key.
    `scanned` is the number of records that were read. `scanTruncated`: the window has older records that were not read.
    """

    data: list[LogKey]
    range: Range
    scanned: Count
    scan_truncated: bool


class LogCountsRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The log records to count. `intervalSeconds`: 0 for no series. A null field means the same as a missing field."""

    from_: TimeInput | None = msgspec.field(default=None, name="from")
    to: TimeInput | None = None
    hours: Annotated[int, Meta(ge=1, le=MAX_HOURS)] | None = None
    group_by: KeyText | None = None
    filters: FiltersInBody | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] | None = None
    interval_seconds: Annotated[int, Meta(ge=0, le=MAX_INTERVAL_SECONDS)] | None = None


class LogGroup(msgspec.Struct):
    """One group. `group`: null for the records without the key."""

    group: str | None
    count: Count


class LogPoint(msgspec.Struct):
    """The records in `range` of the interval that begins at `bucket`."""

    bucket: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    count: Count


class LogSeries(msgspec.Struct):
    """A series with one point for every interval of the range."""

    group: str | None
    points: list[LogPoint]


class LogCounts(msgspec.Struct, rename="camel"):
    """The number of log records in `range`: for each group, and for each interval of each group. `intervalSeconds` is
    null if no series was requested.
    """

    group_by: str | None
    interval_seconds: int | None
    range: Range
    groups: list[LogGroup]
    series: list[LogSeries]
    scanned: Count
    scan_truncated: bool
    group_count: Count
    groups_truncated: bool
    limits: Limits


FILTERS_PATH: Final = "body.filters"
_NO_RECORDS: Final = GroupRow(None, 0, None, (), 1)


@dataclass(frozen=True, slots=True)
class LogCountsPlan:
    """A validated request. `interval_seconds`: 0 for no series."""

    request: LogCountsRequest
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    group_by: Subject | None
    window: Window
    interval_seconds: int


class LogCountsResult(NamedTuple):
    """The part of the window that was scanned, and the groups to show."""

    scan_window: ScanWindow
    rows: Sequence[GroupRow]


def plan(raw: bytes, now_ns: int) -> LogCountsPlan:
    """Validate the body; BadRequest names every offending field."""
    return plan_of_body(LogCountsRequest, raw, now_ns, _build_plan)


def _build_plan(request: LogCountsRequest, now_ns: int, issues: Issues) -> LogCountsPlan | None:
    window = time_range(request.from_, request.to, request.hours).resolve(now_ns, "body", issues)
    filters = filters_of_body(request.filters, FILTERS_PATH, issues)
    resolved = conditions(filters, LOGS, now_ns, FILTERS_PATH, issues)
    if request.group_by is not None:
        check_key(request.group_by, "body.groupBy", issues)
    if window is None:
        return None
    group_by = None if request.group_by is None else resolve_key(request.group_by, LOGS)
    return LogCountsPlan(
        request, filters, resolved, group_by, window, interval_seconds(request.interval_seconds, window, issues)
    )


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: LogCountsPlan) -> LogCountsResult:
    """The groups to show, with their time buckets. Raises BadRequest for a pattern that does not compile, and
    StoreErrors.
    """
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    scan_window = await newest_within_limit(store, project_id, plan.window, settings.max_scan_rows, LOGS)
    window = scan_window.window
    if not scan_window.spans:
        return LogCountsResult(scan_window, ())
    ranking = GroupRanking(
        project_id=project_id,
        existing_attributes=await store.find_existing_attributes(
            project_id, window, subjects_of(plan.conditions, plan.group_by), LOGS
        ),
        signal=LOGS,
        window=window,
        conditions=plan.conditions,
        fn=Fn.COUNT,
        subject=None,
        group_by=plan.group_by,
        limit=plan.request.limit or DEFAULT_LIMIT,
    )
    if not plan.interval_seconds or not settings.max_series:
        ranked = await store.rows(ranking, MAX_GROUP_BYTES)
        return LogCountsResult(scan_window, [GroupRow._make((*row[:3], (), row[3])) for row in ranked])
    common = {field.name: getattr(ranking, field.name) for field in fields(GroupRanking)}
    statement = Aggregation(**common, buckets=buckets_of_seconds(window, plan.interval_seconds))
    found = await read_groups(store, settings, statement)
    if sum(len(row.key) for row in found if isinstance(row.key, str)) > MAX_GROUP_BYTES:
        raise QueryTooLarge("the texts of the groups are too long")
    return LogCountsResult(scan_window, found)


def build_response(plan: LogCountsPlan, result: LogCountsResult, settings: QuerySettings) -> LogCounts:
    """The response."""
    window = result.scan_window.window
    rows = result.rows if plan.group_by is not None or result.rows else (_NO_RECORDS,)
    groups = [LogGroup(group_text(row.key, plan.group_by), row.spans) for row in rows]
    group_count = rows[0].group_count if rows else 0
    labels = labels_of_seconds(window, plan.interval_seconds) if plan.interval_seconds else []
    with_series = rows[: settings.max_series] if plan.interval_seconds else ()
    return LogCounts(
        group_by=plan.request.group_by,
        interval_seconds=plan.interval_seconds or None,
        range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
        groups=groups,
        series=[
            LogSeries(group.group, _points(row.buckets, labels))
            for group, row in zip(groups, with_series, strict=False)
        ],
        scanned=result.scan_window.spans,
        scan_truncated=result.scan_window.truncated,
        group_count=group_count,
        groups_truncated=group_count > len(groups),
        limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
    )


def _points(buckets: Sequence[tuple[int, int, Any]], labels: Sequence[str]) -> list[LogPoint]:
    counts = {number: records for number, records, _ in buckets}
    return [LogPoint(label, counts.get(number, 0)) for number, label in enumerate(labels)]
