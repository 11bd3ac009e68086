"""Lists of traces (their order, and the fields of each trace), and lists of the longest spans: first their positions,
only from narrow columns, then the rows of one page.
"""

from typing import Final

from query.rows import SPAN_SELECT, SPANS
from query.sql.bindings import Bindings, Query, project_predicate, select, time_predicates
from query.sql.predicates import condition_sql, matching_rows
from query.statements import Position, RankedSpans, SpanRanking, TraceRanges, TraceRanking, TraceSummaries, Window

_TIME: Final = f"toUnixTimestamp64Nano({SPANS.time_column})"
# Rows with equal values of these are one span that was sent again.
_IDENTITY: Final = "(span_id, start_time, duration, name, kind)"
_NO_PARENT: Final = "parent_span_id = toFixedString('', 8)"
_ERROR: Final = 2  # of the status codes


def trace_ranking(statement: TraceRanking) -> Query:
    """Rows: (trace, rank), in order."""
    bindings = Bindings(statement.existing_attributes)
    rank = "max(greatest(duration, 0))" if statement.by_duration else f"max({_TIME})"
    where = matching_rows(statement, SPANS, statement.window, statement.conditions, bindings)
    if statement.shown is not None:
        later = matching_rows(statement, SPANS, statement.shown, statement.conditions, bindings)
        where.append(f"trace_id NOT IN (SELECT trace_id FROM spans WHERE {' AND '.join(later)})")
    recheck = bindings.recheck_condition
    having = ""
    if statement.after is not None:
        after = statement.after
        having = f"HAVING (place, trace_id) < ({bindings.int64(after.rank)}, {bindings.id(after.trace_id)})\n"
    conditions = "\n  AND ".join(where)
    return bindings.query(f"""SELECT trace_id, {rank} AS place{f", max({recheck})" if recheck else ""}
FROM spans
WHERE {conditions}
GROUP BY trace_id
{having}ORDER BY place DESC, trace_id DESC
LIMIT {bindings.uint64(statement.limit)}
""")


def trace_summaries(statement: TraceSummaries) -> Query:
    """Rows: (trace, start, end, spans, errors, services as (name, spans), matched, has a root, root as (span, name,
    service, kind, status)).
    """
    bindings = Bindings(statement.existing_attributes)
    where = [project_predicate(statement, bindings), *time_predicates(SPANS, statement.window, bindings)]
    where.append(f"trace_id IN ({', '.join(bindings.id(each) for each in statement.trace_ids)})")
    matched = [*time_predicates(SPANS, statement.matching, bindings)]
    matched += [condition_sql(condition, bindings) for condition in statement.conditions]
    recheck = bindings.recheck_condition
    conditions = "\n  AND ".join(where)
    sql = f"""SELECT trace_id, min({_TIME}), max({_TIME} + greatest(duration, 0)), uniqExact({_IDENTITY}),
  uniqExactIf({_IDENTITY}, status_code = {_ERROR}),
  sumMap(map(toString(service_name), 1)), countIf({" AND ".join(matched)}), countIf({_NO_PARENT}) > 0,
  argMinIf((span_id, toString(name), toString(service_name), kind, status_code), (start_time, span_id), {_NO_PARENT}){
        f", max({recheck})" if recheck else ""
    }
FROM spans
WHERE {conditions}
GROUP BY trace_id
"""
    return bindings.query(sql)


def trace_ranges(statement: TraceRanges) -> Query:
    """One row: (first start, last start), or no row."""
    bindings = Bindings()
    ids = ", ".join(bindings.id(each) for each in statement.trace_ids)
    return bindings.query(f"""SELECT toUnixTimestamp64Nano(min(min_time)), toUnixTimestamp64Nano(max(max_time))
FROM trace_index
WHERE {project_predicate(statement, bindings)}
  AND trace_id IN ({ids}) AND signal = {SPANS.trace_index_code}
HAVING count() > 0
""")


_LENGTH: Final = "greatest(duration, 0)"
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
    """Rows of the select list of spans. The buckets of the positions let ClickHouse skip all other rows by the sort
    key."""
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
    """The rows after `after`. The bound on the duration column lets ClickHouse use the index on durations."""
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
