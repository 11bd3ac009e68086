"""The longest spans of a window: their positions first, from narrow columns alone; then the rows of one page."""

from typing import Final

from query.fields import SPANS
from query.rows import SPAN_SELECT
from query.sql.bindings import Bindings, Query
from query.sql.clauses import project_predicate, select, time_predicates
from query.sql.predicates import condition_sql
from query.statements import Position, RankedSpans, SpanRanking
from query.statements.window import Window

_LENGTH: Final = "greatest(duration, 0)"
_TIME: Final = f"toUnixTimestamp64Nano({SPANS.time_column})"
_KEY: Final = (_LENGTH, SPANS.time_column, "trace_id", "span_id", "batch_id", "row")
_ORDER: Final = f"ORDER BY {', '.join(f'{column} DESC' for column in _KEY)}"


def span_ranking(statement: SpanRanking) -> Query:
    """Rows: (time, trace, span, batch, row, duration), longest first: the fields of a position."""
    bindings = Bindings(statement.existing_attributes)
    where = [project_predicate(statement, bindings), *time_predicates(SPANS, statement.window, bindings)]
    if statement.trace_id is not None:
        where.append(f"trace_id = {bindings.id(statement.trace_id)}")
    if statement.after is not None:
        where += _after(statement.after, bindings)
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    columns = (_TIME, "trace_id", "span_id", "batch_id", "row", _LENGTH)
    return select(columns, SPANS.name, where, (_ORDER, f"LIMIT {bindings.uint64(statement.limit)}"), bindings)


def ranked_spans(statement: RankedSpans) -> Query:
    """Rows of the select list of spans. The buckets of the positions make the sort key skip everything else."""
    bindings, positions = Bindings(), statement.positions
    project = project_predicate(statement, bindings)
    times = tuple(each.time_ns for each in positions)
    buckets = ", ".join(dict.fromkeys(bindings.bucket(time) for time in times))
    rows = ", ".join(
        (
            bindings.int64s(times),
            bindings.uint64s(tuple(each.batch_id for each in positions)),
            bindings.uint32s(tuple(each.row for each in positions)),
        )
    )
    where = [
        project,
        *time_predicates(SPANS, Window(min(times), max(times) + 1), bindings),
        f"toStartOfFiveMinutes({SPANS.time_column}) IN ({buckets})",
        f"({_TIME}, batch_id, row) IN arrayZip({rows})",
    ]
    return select(SPAN_SELECT, SPANS.name, where, (_ORDER, f"LIMIT {bindings.uint64(statement.limit)}"), bindings)


def _after(after: Position, bindings: Bindings) -> list[str]:
    """The rows after `after`. The bound on the column itself lets the index on durations skip."""
    if after.duration_ns is None:
        raise ValueError("a position among the longest spans requires a duration")
    duration = bindings.int64(after.duration_ns)
    position = ", ".join(
        (
            duration,
            bindings.timestamp(after.time_ns),
            bindings.id(after.trace_id),
            bindings.id(after.span_id),
            bindings.uint64(after.batch_id),
            bindings.uint32(after.row),
        )
    )
    return [f"duration <= {duration}", f"({', '.join(_KEY)}) < ({position})"]
