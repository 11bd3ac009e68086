"""Spans by time and by a number, on a logarithmic scale: POST .../explore/spans/heatmap.

    plan              body -> time, filters, field, columns and rows; reports all faults at once              -> 400
    read              the newest part of the window within the scan limit (`scan_limit`); its cells in one scan
    build_response    rows -> response, from the lowest row that has a span to the highest

Edges of rows have at most six significant digits, so that a program that reads them as doubles writes the same number.
Edges of durations are whole nanoseconds. A filter with these numbers finds exactly the spans of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.http.validation import Issues
from query.analysis.aggregate import Limits
from query.analysis.windows import ScanWindow, newest_within_limit
from query.read_store import ReadStore
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
from query.rows import SPANS, ColumnKind, Field
from query.settings import QuerySettings
from query.statements import MAX_HOURS, Condition, Heatmap, LogRows, Subject, TimeBuckets, Window, subjects_of
from query.values import SECOND, Count, Range, format_millis, format_timestamp, raw_json

FILTERS_PATH: Final = "body.filters"
DEFAULT_FIELD: Final = "durationMs"
DEFAULT_COLUMNS: Final = 60
MAX_COLUMNS: Final = 120
DEFAULT_ROWS_PER_OCTAVE: Final = 4
MAX_ROWS_PER_OCTAVE: Final = 8
_SIGNIFICANT_DIGITS: Final = 6
_MAX_NANOS: Final = 2**63 - 1
_NANOS_PER_MILLI: Final = 10**6
_DURATION_OCTAVES: Final = (-20, 44)  # of milliseconds: from a nanosecond to the longest duration
_NUMBER_OCTAVES: Final = (-40, 64)  # 120 columns with 8 rows an octave are fewer cells than a read may return


class HeatmapRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The spans and the number to draw; the default is their duration. A null field means the same as a missing
    field."""

    field: KeyText | None = None
    filters: FiltersInBody | None = None
    from_: TimeInput | None = msgspec.field(default=None, name="from")
    to: TimeInput | None = None
    hours: Annotated[int, Meta(ge=1, le=MAX_HOURS)] | None = None
    columns: Annotated[int, Meta(ge=1, le=MAX_COLUMNS)] | None = None
    rows_per_octave: Annotated[int, Meta(ge=1, le=MAX_ROWS_PER_OCTAVE)] | None = None


Edge = Annotated[msgspec.Raw, raw_json("A number in the field's unit: milliseconds for `durationMs`.", type="number")]


class HeatmapRow(msgspec.Struct):
    """A row of values that are at least `from` and less than `to`."""

    from_: Edge = msgspec.field(name="from")
    to: Edge


class SpanHeatmap(msgspec.Struct, rename="camel"):
    """The spans in `range` whose value is a finite number, by time and by value. Column n begins n times
    `columnSeconds` after the beginning of `range`. `rows` ascend without gaps. A cell is an array: column, row, number
    of spans, number of spans with the status ERROR. Cells without spans are left out. `under` counts spans whose value
    is 0 or less, and `over` counts spans whose value is beyond the scale. `total` is the number of all these spans.
    """

    field: str
    range: Range
    column_seconds: Annotated[msgspec.Raw, raw_json("The width of a column.", type="number")]
    columns: Count
    rows: list[HeatmapRow]
    cells: list[Annotated[list[Count], Meta(min_length=4, max_length=4)]]
    under: Count
    over: Count
    total: Count
    scanned: Count
    scan_truncated: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class HeatmapPlan:
    """A validated request."""

    field: str
    subject: Subject
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    window: Window
    columns: int
    rows_per_octave: int


class HeatmapResult(NamedTuple):
    """The part of the window that was scanned, and its cells: (column, row, spans, errors)."""

    scan_window: ScanWindow
    cells: Sequence[tuple[Any, ...]]


def plan(raw: bytes, now_ns: int) -> HeatmapPlan:
    """Validate the body; BadRequest names every offending field."""
    return plan_of_body(HeatmapRequest, raw, now_ns, _build_plan)


def _build_plan(request: HeatmapRequest, now_ns: int, issues: Issues) -> HeatmapPlan | None:
    window = time_range(request.from_, request.to, request.hours).resolve(now_ns, "body", issues)
    filters = filters_of_body(request.filters, FILTERS_PATH, issues)
    resolved = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    field = DEFAULT_FIELD if request.field is None else request.field
    check_key(field, "body.field", issues)
    if window is None:
        return None
    return HeatmapPlan(
        field=field,
        subject=resolve_key(field, SPANS),
        filters=filters,
        conditions=resolved,
        window=window,
        columns=request.columns or DEFAULT_COLUMNS,
        rows_per_octave=request.rows_per_octave or DEFAULT_ROWS_PER_OCTAVE,
    )


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: HeatmapPlan) -> HeatmapResult:
    """The cells. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    scan_window = await newest_within_limit(store, project_id, plan.window, settings.max_scan_rows)
    if not scan_window.spans:
        return HeatmapResult(scan_window, ())
    window = scan_window.window
    statement = Heatmap(
        project_id=project_id,
        existing_attributes=await store.find_existing_attributes(
            project_id, window, subjects_of(plan.conditions, plan.subject)
        ),
        window=window,
        conditions=plan.conditions,
        subject=plan.subject,
        columns=TimeBuckets(window.from_ns, _column_width(window, plan.columns)),
        rows=log_rows(plan.subject, plan.rows_per_octave),
    )
    return HeatmapResult(scan_window, await store.rows(statement))


def build_response(plan: HeatmapPlan, result: HeatmapResult, settings: QuerySettings) -> SpanHeatmap:
    """The response."""
    window = result.scan_window.window
    width = _column_width(window, plan.columns)
    edges = log_rows(plan.subject, plan.rows_per_octave).edges
    last = len(edges) - 2
    drawn = sorted(cell for cell in result.cells if 0 <= cell[1] <= last)
    used = [cell[1] for cell in drawn]
    shown = [n for n in range(min(used), max(used) + 1) if edges[n] < edges[n + 1]] if used else []
    place = {number: index for index, number in enumerate(shown)}
    return SpanHeatmap(
        field=plan.field,
        range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
        column_seconds=msgspec.Raw(_plain(Decimal(width) / SECOND)),
        columns=-(-(window.to_ns - window.from_ns) // width),
        rows=[HeatmapRow(_edge(edges[n]), _edge(edges[n + 1])) for n in shown],
        cells=[[column, place[row], spans, errors] for column, row, spans, errors in drawn],
        under=sum(cell[2] for cell in result.cells if cell[1] < 0),
        over=sum(cell[2] for cell in result.cells if cell[1] > last),
        total=sum(cell[2] for cell in result.cells),
        scanned=result.scan_window.spans,
        scan_truncated=result.scan_window.truncated,
        limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
    )


def log_rows(subject: Subject, per_octave: int) -> LogRows:
    """The scale of `subject`: durations in nanoseconds, all other numbers as doubles."""
    if isinstance(subject, Field) and subject.kind is ColumnKind.DURATION:
        return _duration_rows(per_octave)
    return _number_rows(per_octave)


@cache  # 20 ms of CPU at 4 rows per octave
def _duration_rows(per_octave: int) -> LogRows:
    low, high = _DURATION_OCTAVES
    nanos = tuple(
        int((_power_of_two(n, per_octave, low) * _NANOS_PER_MILLI).to_integral_value(ROUND_CEILING))
        for n in range((high - low) * per_octave + 1)
    )
    return LogRows((*(each for each in nanos if each < _MAX_NANOS), _MAX_NANOS), low, per_octave, _NANOS_PER_MILLI)


@cache  # 50 ms at 4 rows per octave
def _number_rows(per_octave: int) -> LogRows:
    low, high = _NUMBER_OCTAVES
    numbers = (float(_power_of_two(n, per_octave, low)) for n in range((high - low) * per_octave + 1))
    return LogRows(tuple(numbers), low, per_octave)


def _power_of_two(number: int, per_octave: int, lowest: int) -> Decimal:
    """The edge below row `number`, rounded up."""
    with localcontext(Context(prec=50)):
        octave, part = divmod(number, per_octave)
        exact = Decimal(2) ** (lowest + octave) * (Decimal(2) ** (Decimal(part) / per_octave) if part else 1)
        return Context(prec=_SIGNIFICANT_DIGITS, rounding=ROUND_CEILING).plus(exact)


def _edge(edge: float) -> msgspec.Raw:
    """The exact edge: all its digits are significant."""
    return msgspec.Raw(format_millis(edge) if isinstance(edge, int) else _plain(Decimal(repr(edge))))


def _plain(number: Decimal) -> str:
    """The number without an exponent, and without zeros at the end of a fraction."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _column_width(window: Window, columns: int) -> int:
    """The width of a column in nanoseconds."""
    return -(-(window.to_ns - window.from_ns) // columns)
