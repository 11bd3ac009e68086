"""Several figures of groups of spans, over time, in one pass: POST .../explore/spans/figures.

    plan              body -> time, filters, figures, keys, interval; reports all faults at once              -> 400
    read              the newest part of the window within the scan limit (`scan_limit`);
                      groups, figures and series from one scan; if there are too many cells, first the groups, then the
                      series of the shown groups
    build_response    rows -> response, zero-filled

A figure has the value that `analysis.aggregate` computes with the same function, field and filters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.clickhouse import QueryTooLarge
from chassis.http.validation import Issues
from query.analysis.aggregate import (
    DEFAULT_LIMIT,
    FILTERS_PATH,
    MAX_LIMIT,
    JsonNumber,
    Limits,
    Value,
    empty_value,
    group_text,
    to_json,
)
from query.analysis.windows import (
    MAX_INTERVAL_SECONDS,
    ScanWindow,
    buckets_of_seconds,
    interval_seconds,
    labels_of_seconds,
    newest_within_limit,
)
from query.read_store import ReadStore
from query.request.filters import (
    PLACEHOLDERS,
    Filter,
    FilterInputs,
    FiltersInBody,
    KeyText,
    check_filters,
    check_key,
    conditions,
    filters_of_body,
    resolve_key,
)
from query.request.parameters import TimeInput, plan_of_body, time_range
from query.rows import SPANS
from query.settings import QuerySettings
from query.statements import (
    MAX_HOURS,
    Condition,
    Figure,
    FigureRanking,
    FigureSeries,
    Fn,
    GroupKey,
    RankedFigures,
    Subject,
    Window,
    subjects_of,
)
from query.values import Count, Range, format_timestamp

MAX_FIGURES: Final = 6
MAX_GROUP_KEYS: Final = 3


class RequestedFigure(msgspec.Struct, forbid_unknown_fields=True):
    """A function, and `filters` that select the spans of a group for it. A null field means the same as a missing
    field.
    """

    fn: Fn
    field: KeyText | None = None
    filters: FilterInputs | None = None


class FiguresRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The figures, and the spans to group. `sort`: the index of the figure that ranks the groups. `intervalSeconds`: 0
    for no series. A null field means the same as a missing field.
    """

    figures: Annotated[list[RequestedFigure], Meta(min_length=1, max_length=MAX_FIGURES)]
    from_: TimeInput | None = msgspec.field(default=None, name="from")
    to: TimeInput | None = None
    hours: Annotated[int, Meta(ge=1, le=MAX_HOURS)] | None = None
    group_by: Annotated[list[KeyText], Meta(max_length=MAX_GROUP_KEYS)] | None = None
    filters: FiltersInBody | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] | None = None
    sort: Annotated[int, Meta(ge=0, le=MAX_FIGURES - 1)] | None = None
    interval_seconds: Annotated[int, Meta(ge=0, le=MAX_INTERVAL_SECONDS)] | None = None


GroupTexts = Annotated[
    list[str | None], Meta(description="One text for each key of `groupBy`; null for the spans without the key.")
]
Values = Annotated[list[Value], Meta(description="One value for each figure in `figures`.")]


class ShownFigure(msgspec.Struct):
    """A figure as requested."""

    fn: Fn
    field: str | None
    filters: FilterInputs


class FiguresGroup(msgspec.Struct):
    """One group. `count`: the number of all its spans, independent of the filters of the figures."""

    group: GroupTexts
    count: Count
    values: Values


class FiguresPoint(msgspec.Struct):
    """The spans in `range` that start in the interval which begins at `bucket`."""

    bucket: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    count: Count
    values: Values


class FiguresSeries(msgspec.Struct):
    """A series with one point for every interval of the range."""

    group: GroupTexts
    points: list[FiguresPoint]


class Figures(msgspec.Struct, rename="camel"):
    """Figures of the spans in `range`: for each group, and for each interval of each group. `intervalSeconds` is null
    if no series was requested.
    """

    figures: list[ShownFigure]
    group_by: list[str]
    interval_seconds: int | None
    range: Range
    groups: list[FiguresGroup]
    series: list[FiguresSeries]
    scanned: Count
    scan_truncated: bool
    group_count: Count
    groups_truncated: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class FiguresPlan:
    """A validated request. `filters`: the filters of the request and of each figure, each list with its path.
    `interval_seconds`: 0 for no series.
    """

    request: FiguresRequest
    filters: tuple[tuple[str, tuple[Filter, ...]], ...]
    conditions: tuple[Condition, ...]
    figures: tuple[Figure, ...]
    group_by: tuple[Subject, ...]
    window: Window
    interval_seconds: int

    def subjects(self) -> Iterator[Subject]:
        """All fields and attributes that the statements read."""
        yield from subjects_of(self.conditions, *self.group_by)
        for figure in self.figures:
            yield from subjects_of(figure.conditions, figure.subject)


class FiguresRow(NamedTuple):
    """A group as ClickHouse returns it: its buckets are (number, spans, value, ...)."""

    keys: tuple[GroupKey, ...]
    spans: int
    values: tuple[Any, ...]
    buckets: Sequence[tuple[Any, ...]]


class FiguresResult(NamedTuple):
    """The part of the window that was scanned, the groups to show, and the number of all groups."""

    scan_window: ScanWindow
    rows: Sequence[FiguresRow]
    group_count: int


def plan(raw: bytes, now_ns: int) -> FiguresPlan:
    """Validate the body; BadRequest names every offending field."""
    count = {"fn": "count"}
    placeholders = {"figures": [count], "figures[]": count} | PLACEHOLDERS
    return plan_of_body(FiguresRequest, raw, now_ns, _build_plan, placeholders)


def _build_plan(request: FiguresRequest, now_ns: int, issues: Issues) -> FiguresPlan | None:
    if (request.sort or 0) >= len(request.figures) and not issues.has_issue_under("body.figures"):
        message = f"Must be less than the number of figures, {len(request.figures)}."
        issues.add("body.sort", message, "too_large")
    window = time_range(request.from_, request.to, request.hours).resolve(now_ns, "body", issues)
    filters = filters_of_body(request.filters, FILTERS_PATH, issues)
    resolved = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    figures, filters_of_figures = list[Figure](), list[tuple[str, tuple[Filter, ...]]]()
    for index, each in enumerate(request.figures):
        figure, written = _figure(each, f"body.figures[{index}]", now_ns, issues)
        figures.append(figure)
        filters_of_figures.append((f"body.figures[{index}].filters", written))
    for index, key in enumerate(request.group_by or ()):
        check_key(key, f"body.groupBy[{index}]", issues)
    if window is None:
        return None
    return FiguresPlan(
        request=request,
        filters=((FILTERS_PATH, filters), *filters_of_figures),
        conditions=resolved,
        figures=tuple(figures),
        group_by=tuple(resolve_key(each, SPANS) for each in request.group_by or ()),
        window=window,
        interval_seconds=interval_seconds(request.interval_seconds, window, issues),
    )


def _figure(requested: RequestedFigure, path: str, now_ns: int, issues: Issues) -> tuple[Figure, tuple[Filter, ...]]:
    """The figure, and its filters as written."""
    if requested.field is not None:
        check_key(requested.field, f"{path}.field", issues)
    elif requested.fn is not Fn.COUNT:
        issues.add(f"{path}.field", f"{requested.fn} requires a field.", "missing")
    filters = check_filters(requested.filters or (), f"{path}.filters", issues)
    resolved = conditions(filters, SPANS, now_ns, f"{path}.filters", issues)
    subject = None if requested.field is None else resolve_key(requested.field, SPANS)
    return Figure(requested.fn, subject, resolved), filters


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: FiguresPlan) -> FiguresResult:
    """The groups to show, with their time buckets. Raises BadRequest for a pattern that does not compile, and
    StoreErrors.
    """
    for path, filters in plan.filters:
        await store.validate_regexes(filters, path)
    scan_window = await newest_within_limit(store, project_id, plan.window, settings.max_scan_rows)
    if not scan_window.spans:
        return _result(scan_window, (), plan)
    ranking = FigureRanking(
        project_id=project_id,
        existing_attributes=await store.find_existing_attributes(project_id, scan_window.window, plan.subjects()),
        window=scan_window.window,
        conditions=plan.conditions,
        figures=plan.figures,
        group_by=plan.group_by,
        rank_by=plan.request.sort or 0,
        limit=plan.request.limit or DEFAULT_LIMIT,
    )
    if not plan.interval_seconds or not settings.max_series:
        rows = [(*row[:-1], (), row[-1]) for row in await store.rows(ranking)]
        return _result(scan_window, rows, plan)
    common = {field.name: getattr(ranking, field.name) for field in fields(FigureRanking)}
    buckets = buckets_of_seconds(scan_window.window, plan.interval_seconds)
    try:
        rows = await store.rows(RankedFigures(**common, buckets=buckets), max_groups=settings.max_group_cardinality)
    except QueryTooLarge:
        ranked = await store.rows(ranking)
        groups = tuple(row[: len(plan.group_by)] for row in ranked[: settings.max_series]) if plan.group_by else ()
        del common["rank_by"], common["limit"]
        rows = await _with_series(store, ranked, FigureSeries(**common, buckets=buckets, groups=groups))
    return _result(scan_window, rows, plan)


async def _with_series(
    store: ReadStore, ranked: Sequence[tuple[Any, ...]], statement: FigureSeries
) -> list[tuple[Any, ...]]:
    """The ranked groups, each with its buckets, from a second scan."""
    if not ranked:
        return []
    width = max(1, len(statement.group_by))
    series = {row[:width]: row[width] for row in await store.rows(statement)}
    return [(*row[:-1], series.get(row[:width], ()), row[-1]) for row in ranked]


def _result(scan_window: ScanWindow, rows: Sequence[tuple[Any, ...]], plan: FiguresPlan) -> FiguresResult:
    width = max(1, len(plan.group_by))
    if not rows and not plan.group_by:
        return FiguresResult(scan_window, [FiguresRow((), 0, (None,) * len(plan.figures), ())], 1)
    found = [FiguresRow(row[:width] if plan.group_by else (), row[width], row[width + 1 : -2], row[-2]) for row in rows]
    return FiguresResult(scan_window, found, rows[0][-1] if rows else 0)


def build_response(plan: FiguresPlan, result: FiguresResult, settings: QuerySettings) -> Figures:
    """The response."""
    scan_window = result.scan_window
    groups = [FiguresGroup(_texts(row, plan), row.spans, _values(row.values, row.spans, plan)) for row in result.rows]
    with_series = result.rows[: settings.max_series] if plan.interval_seconds else ()
    labels = labels_of_seconds(scan_window.window, plan.interval_seconds) if plan.interval_seconds else []
    return Figures(
        figures=[ShownFigure(each.fn, each.field, each.filters or []) for each in plan.request.figures],
        group_by=plan.request.group_by or [],
        interval_seconds=plan.interval_seconds or None,
        range=Range(format_timestamp(scan_window.window.from_ns), format_timestamp(scan_window.window.to_ns)),
        groups=groups,
        series=[FiguresSeries(_texts(row, plan), _points(row, labels, plan)) for row in with_series],
        scanned=scan_window.spans,
        scan_truncated=scan_window.truncated,
        group_count=result.group_count,
        groups_truncated=result.group_count > len(groups),
        limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
    )


def _texts(row: FiguresRow, plan: FiguresPlan) -> list[str | None]:
    return [group_text(key, subject) for key, subject in zip(row.keys, plan.group_by, strict=True)]


def _points(row: FiguresRow, labels: Sequence[str], plan: FiguresPlan) -> list[FiguresPoint]:
    bucket_by_number: Mapping[int, tuple[Any, ...]] = {bucket[0]: bucket for bucket in row.buckets}
    points = []
    for number, label in enumerate(labels):
        _, spans, *values = bucket_by_number.get(number, (number, 0))
        points.append(FiguresPoint(label, spans, _values(values, spans, plan)))
    return points


def _values(values: Sequence[Any], spans: int, plan: FiguresPlan) -> list[JsonNumber]:
    if not spans:
        return [empty_value(figure.fn) for figure in plan.figures]
    return [to_json(value, each.fn, each.subject) for value, each in zip(values, plan.figures, strict=True)]
