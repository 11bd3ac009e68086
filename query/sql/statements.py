"""`emit` and one function per statement."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from query.rows import (
    ATTRIBUTE_SELECT,
    BRIEF_SPAN_SELECT,
    ERRORS,
    LOG_SELECT,
    LOGS,
    OCCURRENCE_SELECT,
    SPAN_RECORD_SELECT,
    SPAN_SELECT,
    SPANS,
    TRACE_ROW_SELECT,
    TelemetryTable,
)
from query.sql import compare, error_groups, traces
from query.sql.aggregate import aggregation, group_ranking, group_series, service_calls, service_figures, span_count
from query.sql.attributes import (
    attribute_keys,
    distinct_attribute_sets,
    non_finite_counts,
    presence_counts,
    rollup_keys,
)
from query.sql.bindings import Bindings, Query, project_predicate, select, time_predicates
from query.sql.figures import figure_ranking, figure_series, heatmap, ranked_figures
from query.sql.predicates import condition_sql
from query.statements import (
    Aggregation,
    AttributeKeys,
    CohortSize,
    ConditionCounts,
    DistinctAttributeSets,
    EndedRows,
    ErrorFacets,
    ErrorGroupType,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorSparklines,
    ErrorTraces,
    ExistingAttributeKeys,
    FieldPairs,
    FigureRanking,
    FigureSeries,
    FirstOccurrences,
    GroupRanking,
    GroupSeries,
    Heatmap,
    KeyCardinality,
    KeyCounts,
    KeyPairs,
    LatestOccurrences,
    Listing,
    ListPairs,
    NonFiniteCounts,
    Position,
    PresenceCounts,
    RankedFigures,
    RankedSpans,
    RollupKeys,
    ServiceCalls,
    ServiceFigures,
    SpanCount,
    SpanRanking,
    SpanRecords,
    Statement,
    TraceAttributes,
    TraceBounds,
    TraceRanges,
    TraceRanking,
    TraceRows,
    TraceSize,
    TraceSpansBrief,
    TraceSummaries,
    Window,
)

_SELECT: Final = {SPANS.name: SPAN_SELECT, LOGS.name: LOG_SELECT, ERRORS.name: OCCURRENCE_SELECT}
_ROW_KEY: Final = "trace_id, span_id, batch_id, row"
# Rows with equal values of these are one span that was sent again.
_SPAN_IDENTITY: Final = "span_id, start_time, duration, name, kind"
_EARLIEST: Final = "start_time, span_id, batch_id, row"
_END: Final = {
    SPANS.name: "toUnixTimestamp64Nano(start_time) + greatest(duration, 0)",
    LOGS.name: "toUnixTimestamp64Nano(time)",
}


def emit(statement: Statement) -> Query:
    """The SQL of `statement` and its parameters."""
    return _EMITTERS[type(statement)](statement)


def regex_probe(pattern: str) -> Query:
    """Compiles `pattern` in ClickHouse, even if no row is tested against it."""
    bindings = Bindings()
    return Query(f"SELECT match('', {bindings.text(pattern)})\n", bindings.values)


def _list(statement: Listing) -> Query:
    bindings, signal = Bindings(statement.existing_attributes), statement.signal
    where = [project_predicate(statement, bindings), *time_predicates(signal, statement.window, bindings)]
    if statement.trace_id is not None:
        where.append(f"trace_id = {bindings.id(statement.trace_id)}")
    if statement.after is not None:
        where.append(_before(signal, statement.after, bindings))
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    direction = "ASC" if statement.oldest_first else "DESC"
    order = ", ".join(f"{column} {direction}" for column in (signal.time_column, *_ROW_KEY.split(", ")))
    tail = (f"ORDER BY {order}", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(_SELECT[signal.name], signal.name, where, tail, bindings)


def _ended(statement: EndedRows) -> Query:
    bindings, signal, window = Bindings(statement.existing_attributes), statement.signal, statement.window
    where = [project_predicate(statement, bindings), *time_predicates(signal, window, bindings)]
    end = _END[signal.name]
    where += [f"{end} > {bindings.int64(statement.after_ns)}", f"{end} < {bindings.int64(window.to_ns)}"]
    if statement.shown:
        where.append(f"(batch_id, row) NOT IN {_row_ids(statement.shown, bindings)}")
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    order = ", ".join(f"{column} DESC" for column in (end, *_ROW_KEY.split(", ")))
    tail = (f"ORDER BY {order}", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(_SELECT[signal.name], signal.name, where, tail, bindings)


def _existing_attribute_keys(statement: ExistingAttributeKeys) -> Query:
    bindings, window = Bindings(), statement.window
    where = [
        project_predicate(statement, bindings),
        f"bucket >= {bindings.bucket(window.from_ns)}",
        f"bucket <= {bindings.bucket(window.to_ns - 1)}",
        f"has({bindings.texts(statement.names)}, key)",
    ]
    return select(("DISTINCT toString(key)",), "attribute_keys", where, (), bindings)


def _trace_bounds(statement: TraceBounds) -> Query:
    bindings = Bindings()
    columns = (
        "signal",
        "toUnixTimestamp64Nano(min(min_time))",
        "toUnixTimestamp64Nano(max(max_time))",
    )
    where = [project_predicate(statement, bindings), f"trace_id = {bindings.id(statement.trace_id)}"]
    return select(columns, "trace_index", where, ("GROUP BY signal",), bindings)


def _trace_spans(select_list: tuple[str, ...], statement: TraceSpansBrief | TraceRows) -> Query:
    bindings = Bindings()
    where = _trace_predicates(statement, statement.trace_id, statement.window, bindings)
    return _earliest(select_list, statement.limit, where, bindings)


def _trace_size(statement: TraceSize) -> Query:
    bindings = Bindings()
    where = _trace_predicates(statement, statement.trace_id, statement.window, bindings)
    return select((f"uniqExact({_SPAN_IDENTITY})",), SPANS.name, where, (), bindings)


def _trace_attributes(statement: TraceAttributes) -> Query:
    bindings = Bindings()
    where = _trace_predicates(statement, statement.trace_id, statement.window, bindings)
    if statement.row_ids:
        where.append(f"(batch_id, row) IN {_row_ids(statement.row_ids, bindings)}")
    return select(ATTRIBUTE_SELECT, SPANS.name, where, (), bindings)


def _span_records(statement: SpanRecords) -> Query:
    bindings = Bindings()
    where = _trace_predicates(statement, statement.trace_id, statement.window, bindings)
    where.append(f"span_id = {bindings.id(statement.span_id)}")
    return _earliest(SPAN_RECORD_SELECT, statement.limit, where, bindings)


def _earliest(select_list: tuple[str, ...], limit: int, where: Iterable[str], bindings: Bindings) -> Query:
    """The earliest spans; a span that was sent again is returned once."""
    tail = (f"ORDER BY {_EARLIEST}", f"LIMIT 1 BY {_SPAN_IDENTITY}", f"LIMIT {bindings.uint64(limit)}")
    return select(select_list, SPANS.name, where, tail, bindings)


def _trace_predicates(statement: Statement, trace_id: bytes, window: Window, bindings: Bindings) -> list[str]:
    """The predicates of every statement on the spans of one trace."""
    return [
        project_predicate(statement, bindings),
        *time_predicates(SPANS, window, bindings),
        f"trace_id = {bindings.id(trace_id)}",
    ]


def _row_ids(ids: tuple[tuple[int, int], ...], bindings: Bindings) -> str:
    """An array of (batch, row)."""
    batches = bindings.uint64s(tuple(batch for batch, _ in ids))
    rows = bindings.uint32s(tuple(row for _, row in ids))
    return f"arrayZip({batches}, {rows})"


def _before(signal: TelemetryTable, after: Position, bindings: Bindings) -> str:
    """The rows after `after` in a list in descending order."""
    position = ", ".join(
        (
            bindings.timestamp(after.time_ns),
            bindings.id(after.trace_id),
            bindings.id(after.span_id),
            bindings.uint64(after.batch_id),
            bindings.uint32(after.row),
        )
    )
    return f"({signal.time_column}, {_ROW_KEY}) < ({position})"


_EMITTERS: Final[Mapping[type, Callable[[Any], Query]]] = {
    Listing: _list,
    EndedRows: _ended,
    SpanRanking: traces.span_ranking,
    RankedSpans: traces.ranked_spans,
    ExistingAttributeKeys: _existing_attribute_keys,
    TraceBounds: _trace_bounds,
    TraceSpansBrief: partial(_trace_spans, BRIEF_SPAN_SELECT),
    TraceRows: partial(_trace_spans, TRACE_ROW_SELECT),
    TraceSize: _trace_size,
    TraceRanking: traces.trace_ranking,
    TraceSummaries: traces.trace_summaries,
    TraceRanges: traces.trace_ranges,
    TraceAttributes: _trace_attributes,
    SpanRecords: _span_records,
    ErrorRanking: error_groups.ranking,
    ErrorFacets: error_groups.facets,
    ErrorTraces: error_groups.traces,
    LatestOccurrences: error_groups.latest,
    ErrorSeries: error_groups.series,
    ErrorSparklines: error_groups.sparklines,
    FirstOccurrences: error_groups.first_occurrences,
    ErrorGroupType: error_groups.group_type,
    ErrorRecord: error_groups.record,
    SpanCount: span_count,
    Aggregation: aggregation,
    GroupRanking: group_ranking,
    GroupSeries: group_series,
    RankedFigures: ranked_figures,
    FigureRanking: figure_ranking,
    FigureSeries: figure_series,
    Heatmap: heatmap,
    ServiceCalls: service_calls,
    ServiceFigures: service_figures,
    AttributeKeys: attribute_keys,
    DistinctAttributeSets: distinct_attribute_sets,
    NonFiniteCounts: non_finite_counts,
    RollupKeys: rollup_keys,
    PresenceCounts: presence_counts,
    CohortSize: compare.cohort_size,
    FieldPairs: compare.field_pairs,
    ListPairs: compare.list_pairs,
    KeyPairs: compare.key_pairs,
    KeyCardinality: compare.key_cardinality,
    KeyCounts: compare.key_counts,
    ConditionCounts: compare.condition_counts,
}
