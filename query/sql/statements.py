"""One function per statement."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from query.asking.window import Window
from query.fields import ERRORS, LOGS, SPANS, Signal
from query.rows import (
    ATTRIBUTE_SELECT,
    LOG_SELECT,
    OCCURRENCE_SELECT,
    RECORD_SELECT,
    SKELETON_SELECT,
    SPAN_SELECT,
)
from query.sql import compare, errors
from query.sql.aggregate import aggregation, group_ranking, group_series, span_count
from query.sql.attributes import attribute_keys, carried_lists, not_finite, rolled_up_keys, tally
from query.sql.bindings import Bindings, Query
from query.sql.clauses import project, select, within
from query.sql.conditions import condition_sql
from query.tree import (
    Aggregation,
    AttributeKeys,
    CarriedLists,
    CohortSize,
    ConditionCounts,
    ErrorFacets,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorTraces,
    FieldPairs,
    GroupRanking,
    GroupSeries,
    KeyCounts,
    KeyPairs,
    KeyValues,
    KnownError,
    KnownKeys,
    LatestErrors,
    Listing,
    ListPairs,
    NotFinite,
    Position,
    RolledUpKeys,
    SpanCount,
    SpanRecords,
    Statement,
    Tally,
    TraceAttributes,
    TraceBounds,
    TraceSize,
    TraceSkeleton,
)

_SELECT: Final = {SPANS.table: SPAN_SELECT, LOGS.table: LOG_SELECT, ERRORS.table: OCCURRENCE_SELECT}
_PLACE: Final = "trace_id, span_id, batch_id, row"
_RESEND: Final = "span_id, start_time, duration, name, kind"  # rows equal in these are one span, sent again
_EARLIEST: Final = "start_time, span_id, batch_id, row"
_PLACES_FROM: Final = "arrayZip({batches}, {rows})"


def emit(statement: Statement) -> Query:
    """The SQL of `statement` and its parameters."""
    return _EMITTERS[type(statement)](statement)


def pattern_probe(pattern: str) -> Query:
    """Compiles `pattern` as the engine does, whether or not any row would be tested against it."""
    bindings = Bindings()
    return Query(f"SELECT match('', {bindings.text(pattern)})\n", bindings.values)


def _list(statement: Listing) -> Query:
    bindings, signal = Bindings(statement.known), statement.signal
    where = [project(statement, bindings), *within(signal, statement.window, bindings)]
    if statement.trace_id is not None:
        where.append(f"trace_id = {bindings.id(statement.trace_id)}")
    if statement.after is not None:
        where.append(_before(signal, statement.after, bindings))
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    direction = "ASC" if statement.oldest_first else "DESC"
    order = ", ".join(f"{column} {direction}" for column in (signal.time, *_PLACE.split(", ")))
    tail = (f"ORDER BY {order}", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(_SELECT[signal.table], signal.table, where, tail, bindings)


def _known_keys(statement: KnownKeys) -> Query:
    bindings, window = Bindings(), statement.window
    where = [
        project(statement, bindings),
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
    where = [project(statement, bindings), f"trace_id = {bindings.id(statement.trace_id)}"]
    return select(columns, "trace_index", where, ("GROUP BY signal",), bindings)


def _trace_skeleton(statement: TraceSkeleton) -> Query:
    bindings = Bindings()
    where = _trace(statement, statement.trace_id, statement.window, bindings)
    tail = (f"ORDER BY {_EARLIEST}", f"LIMIT 1 BY {_RESEND}", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(SKELETON_SELECT, SPANS.table, where, tail, bindings)


def _trace_size(statement: TraceSize) -> Query:
    bindings = Bindings()
    where = _trace(statement, statement.trace_id, statement.window, bindings)
    return select((f"uniqExact({_RESEND})",), SPANS.table, where, (), bindings)


def _trace_attributes(statement: TraceAttributes) -> Query:
    bindings = Bindings()
    where = _trace(statement, statement.trace_id, statement.window, bindings)
    if statement.places:
        batches = bindings.uint64s(tuple(batch for batch, _ in statement.places))
        rows = bindings.uint32s(tuple(row for _, row in statement.places))
        where.append(f"(batch_id, row) IN {_PLACES_FROM.format(batches=batches, rows=rows)}")
    return select(ATTRIBUTE_SELECT, SPANS.table, where, (), bindings)


def _span_records(statement: SpanRecords) -> Query:
    bindings = Bindings()
    where = _trace(statement, statement.trace_id, statement.window, bindings)
    where.append(f"span_id = {bindings.id(statement.span_id)}")
    tail = (f"ORDER BY {_EARLIEST}", f"LIMIT 1 BY {_RESEND}", f"LIMIT {bindings.uint64(statement.limit)}")
    return select(RECORD_SELECT, SPANS.table, where, tail, bindings)


def _trace(statement: Statement, trace_id: bytes, window: Window, bindings: Bindings) -> list[str]:
    """The predicates of every statement on the spans of one trace."""
    return [
        project(statement, bindings),
        *within(SPANS, window, bindings),
        f"trace_id = {bindings.id(trace_id)}",
    ]


def _before(signal: Signal, after: Position, bindings: Bindings) -> str:
    """Further down a list in descending order."""
    place = ", ".join(
        (
            bindings.instant(after.time_ns),
            bindings.id(after.trace_id),
            bindings.id(after.span_id),
            bindings.uint64(after.batch_id),
            bindings.uint32(after.row),
        )
    )
    return f"({signal.time}, {_PLACE}) < ({place})"


_EMITTERS: Final[Mapping[type, Callable[[Any], Query]]] = {
    Listing: _list,
    KnownKeys: _known_keys,
    TraceBounds: _trace_bounds,
    TraceSkeleton: _trace_skeleton,
    TraceSize: _trace_size,
    TraceAttributes: _trace_attributes,
    SpanRecords: _span_records,
    ErrorRanking: errors.ranking,
    ErrorFacets: errors.facets,
    ErrorTraces: errors.traces,
    LatestErrors: errors.latest,
    ErrorSeries: errors.series,
    KnownError: errors.known,
    ErrorRecord: errors.record,
    SpanCount: span_count,
    Aggregation: aggregation,
    GroupRanking: group_ranking,
    GroupSeries: group_series,
    AttributeKeys: attribute_keys,
    CarriedLists: carried_lists,
    NotFinite: not_finite,
    RolledUpKeys: rolled_up_keys,
    Tally: tally,
    CohortSize: compare.cohort_size,
    FieldPairs: compare.field_pairs,
    ListPairs: compare.list_pairs,
    KeyPairs: compare.key_pairs,
    KeyValues: compare.key_values,
    KeyCounts: compare.key_counts,
    ConditionCounts: compare.condition_counts,
}
