"""Aggregates of groups of spans, over time. Spans are aggregated per cell: one group in one time bucket.

In one scan, a group's value is computed from the states of its cells, so that no span is read twice. If there are too
many cells, groups are ranked without time buckets first, and the shown groups are read again. The values are the same.

Groups are distinguished by their stored values, because formatting their texts for every span would be expensive.
`query.sql.aggregate_functions` defines what a cell stores, and how the values of cells and groups are computed.

Also has the SQL of a service map: the calls between services, and the figures of each service.
"""

from typing import Final

from query.rows import SPAN_KINDS, SPANS, STATUS_CODES, ColumnKind, Field, TelemetryTable
from query.sql.aggregate_functions import AggregateSql, aggregate_sql
from query.sql.bindings import Bindings, Query, project_predicate, time_predicates
from query.sql.predicates import ALWAYS, condition_sql, field_sql, matching_rows, value_sql
from query.statements import (
    Aggregation,
    GroupKey,
    GroupRanking,
    GroupSeries,
    ServiceCalls,
    ServiceFigures,
    SpanCount,
    Subject,
    TimeBuckets,
    Window,
)

_GroupedStatement = Aggregation | GroupRanking | GroupSeries

_ONE_GROUP: Final = "0"


def span_count(statement: SpanCount) -> Query:
    """One row: (spans,). Complete buckets are counted from the index alone."""
    bindings = Bindings()
    project = project_predicate(statement, bindings)
    signal, whole = statement.signal, statement.whole_buckets
    parts = [_whole_buckets(signal, whole, bindings)] if whole is not None else []
    parts += [" AND ".join(time_predicates(signal, edge, bindings)) for edge in statement.partial_buckets]
    rows = f"SELECT count() AS spans FROM {signal.name} WHERE {project}"
    counts = "\nUNION ALL ".join(f"{rows} AND {part}" for part in parts)
    return bindings.query(f"SELECT sum(spans) FROM (\n{counts})\n")


def aggregation(statement: Aggregation) -> Query:
    """Rows: (group, spans, value, buckets as (number, spans, value), number of groups), ordered by value, the greatest
    first and NULL last, then by the group's text, an absent group last.

    A group is the value that its column stores (for attributes a text or NULL). Durations are nanoseconds.
    """
    bindings = Bindings(statement.existing_attributes)
    aggregate = aggregate_sql(statement.fn, statement.subject, bindings, mergeable=True)
    cells = _bucket_aggregates(
        statement,
        aggregate,
        (group_key(statement.group_by, bindings), bucket_index(statement.buckets, bindings, statement.signal)),
        bindings,
    )
    recheck = recheck_column("max(max(overlooked)) OVER ()", bindings)
    return bindings.query(f"""SELECT grp, sum(n) AS spans, {aggregate.group_value} AS figure,
  groupArray((step, n, {aggregate.bucket_value})) AS steps, count() OVER () AS groups{recheck}
FROM (
{cells}
GROUP BY grp, step)
GROUP BY grp
{_order_and_limit(statement, bindings)}""")


def group_ranking(statement: GroupRanking) -> Query:
    """Rows: (group, spans, value, number of groups), in the same order."""
    bindings = Bindings(statement.existing_attributes)
    aggregate = aggregate_sql(statement.fn, statement.subject, bindings)
    cells = _bucket_aggregates(statement, aggregate, (group_key(statement.group_by, bindings),), bindings)
    recheck = recheck_column("max(overlooked) OVER ()", bindings)
    return bindings.query(f"""SELECT grp, n, {aggregate.bucket_value} AS figure, count() OVER () AS groups{recheck}
FROM (
{cells}
GROUP BY grp)
{_order_and_limit(statement, bindings)}""")


def group_series(statement: GroupSeries) -> Query:
    """Rows: (group, buckets as (number, spans, value)), unordered."""
    bindings = Bindings(statement.existing_attributes)
    aggregate = aggregate_sql(statement.fn, statement.subject, bindings)
    key = group_key(statement.group_by, bindings)
    step = bucket_index(statement.buckets, bindings, statement.signal)
    cells = _bucket_aggregates(statement, aggregate, (key, step), bindings)
    if statement.groups:
        in_groups = _in_groups(key, statement.groups, bindings)
        cells += (
            f"\n  AND ({in_groups} OR {bindings.recheck_condition})"
            if bindings.recheck_condition
            else f"\n  AND ({in_groups})"
        )
    recheck = recheck_column("max(overlooked)", bindings)
    return bindings.query(f"""SELECT grp, groupArray((step, n, {aggregate.bucket_value})) AS steps{recheck}
FROM (
{cells}
GROUP BY grp, step)
GROUP BY grp
""")


def _bucket_aggregates(
    statement: _GroupedStatement, aggregate: AggregateSql, keys: tuple[str, ...], bindings: Bindings
) -> str:
    """Rows: (grp, step if it is one of the keys, n, the aggregate's state columns of a cell); without GROUP BY."""
    where = matching_rows(statement, statement.signal, statement.window, statement.conditions, bindings)
    columns = [f"{key} AS {name}" for key, name in zip(keys, ("grp", "step"), strict=False)]
    columns += ["count() AS n", *aggregate.state_columns]
    if bindings.recheck_condition:
        columns.append(f"max({bindings.recheck_condition}) AS overlooked")
    selected = ",\n  ".join(columns)
    return f"SELECT {selected}\nFROM {statement.signal.name}\nWHERE " + "\n  AND ".join(where)


def _order_and_limit(statement: Aggregation | GroupRanking, bindings: Bindings) -> str:
    limit = bindings.uint64(statement.limit)
    return f"ORDER BY figure DESC NULLS LAST, {group_order(statement.group_by)}\nLIMIT {limit}\n"


def recheck_column(expression: str, bindings: Bindings) -> str:
    """The last column of a statement that needs a recheck; empty for others."""
    return f",\n  {expression}" if bindings.recheck_condition else ""


def group_key(subject: Subject | None, bindings: Bindings) -> str:
    """The expression that distinguishes groups with as few bytes as possible. An absent attribute is NULL, because ""
    is a value.
    """
    if subject is None:
        return _ONE_GROUP
    if not isinstance(subject, Field):
        value = value_sql(subject, bindings)
        return value.text if value.present == ALWAYS else f"if({value.present}, {value.text}, NULL)"
    match subject.kind:
        case ColumnKind.DURATION:
            return f"greatest({subject.column}, 0)"
        case ColumnKind.TIMESTAMP:
            return f"toUnixTimestamp64Nano({subject.column})"
        case ColumnKind.BODY:
            return f"if({field_sql(subject).present}, {subject.column}, NULL)"
    return subject.column


def group_order(subject: Subject | None, column: str = "grp") -> str:
    """Order by the bytes of the displayed text, an absent group last; `column` has the group."""
    if not isinstance(subject, Field) or subject.kind is ColumnKind.BODY:
        return f"{column} ASC NULLS LAST"
    absent = f"NOT ({field_sql(subject).present.replace(subject.column, column)}), " if subject.optional else ""
    match subject.kind:
        case ColumnKind.DURATION | ColumnKind.ENUM | ColumnKind.INTEGER:
            return absent + field_sql(subject).text.replace(subject.column, column)
    # Timestamps and ids sort in the order of their texts.
    return absent + column


def _in_groups(key: str, groups: tuple[GroupKey, ...], bindings: Bindings) -> str:
    texts = tuple(each for each in groups if isinstance(each, str))
    integers = tuple(each for each in groups if isinstance(each, int))
    ids = [bindings.id(each) for each in groups if isinstance(each, bytes)]
    tests = []
    if texts:
        tests.append(f"ifNull(has({bindings.texts(texts)}, {key}), 0)")
    if integers:
        tests.append(f"has({bindings.int64s(integers)}, toInt64({key}))")
    if ids:
        tests.append(f"{key} IN ({', '.join(ids)})")
    if None in groups:
        tests.append(f"isNull({key})")
    return " OR ".join(tests)


def bucket_index(buckets: TimeBuckets, bindings: Bindings, signal: TelemetryTable = SPANS) -> str:
    since = f"toUnixTimestamp64Nano({signal.time_column}) - {bindings.int64(buckets.origin_ns)}"
    return f"toUInt16(intDiv({since}, {bindings.int64(buckets.width_ns)}))"


def _whole_buckets(signal: TelemetryTable, window: Window, bindings: Bindings) -> str:
    bucket = f"toStartOfFiveMinutes({signal.time_column})"
    return f"{bucket} >= {bindings.bucket(window.from_ns)} AND {bucket} <= {bindings.bucket(window.to_ns - 1)}"


_LENGTH: Final = "toInt128(greatest(duration, 0))"
_FAILED: Final = f"status_code = {STATUS_CODES.index('ERROR')}"
_CALLING: Final = f"kind IN ({SPAN_KINDS.index('CLIENT')}, {SPAN_KINDS.index('PRODUCER')})"
_CALLED: Final = f"kind IN ({SPAN_KINDS.index('SERVER')}, {SPAN_KINDS.index('CONSUMER')})"
_EARLIEST: Final = "(start_time, batch_id, row)"  # if spans have the same id, the earliest is the parent


def service_calls(statement: ServiceCalls) -> Query:
    """Rows: (caller, callee, calls, failed calls, total nanoseconds)."""
    bindings = Bindings(statement.existing_attributes)
    shared = _of_traces(statement, bindings)
    calling = "\n  AND ".join([*shared, _CALLING])
    called = "\n  AND ".join([*shared, _CALLED, *(condition_sql(each, bindings) for each in statement.conditions)])
    recheck = bindings.recheck_condition
    return bindings.query(f"""SELECT caller, callee, count() AS calls, countIf(failed), sum(length){
        recheck_column("max(overlooked)", bindings)
    }
FROM (
SELECT trace_id, parent_span_id, service_name AS callee, {_FAILED} AS failed, {_LENGTH} AS length{
        f", {recheck} AS overlooked" if recheck else ""
    }
FROM spans
WHERE {called}) AS called
INNER JOIN (
SELECT trace_id, span_id, argMin(service_name, {_EARLIEST}) AS caller
FROM spans
WHERE {calling}
GROUP BY trace_id, span_id) AS calling
ON called.trace_id = calling.trace_id AND called.parent_span_id = calling.span_id
GROUP BY caller, callee
ORDER BY calls DESC, caller, callee
LIMIT {bindings.uint64(statement.limit)}
""")


def service_figures(statement: ServiceFigures) -> Query:
    """Rows: (service, spans, served calls, failed calls, total nanoseconds)."""
    bindings = Bindings(statement.existing_attributes)
    where = _of_traces(statement, bindings)
    if statement.services is not None:
        where.append(f"service_name IN {bindings.texts(statement.services)}")
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
    recheck = bindings.recheck_condition
    conditions = "\n  AND ".join(where)
    sql = f"""SELECT service_name, count() AS held, countIf({_CALLED}), countIf({_CALLED} AND {_FAILED}),
  sumIf({_LENGTH}, {_CALLED}){recheck_column(f"max({recheck})", bindings)}
FROM spans
WHERE {conditions}
GROUP BY service_name
ORDER BY held DESC, service_name
LIMIT {bindings.uint64(statement.limit)}
"""
    return bindings.query(sql)


def _of_traces(statement: ServiceCalls | ServiceFigures, bindings: Bindings) -> list[str]:
    """The predicates of all spans that a map reads. The CRC-32 is the same as zlib's."""
    where = [project_predicate(statement, bindings), *time_predicates(SPANS, statement.window, bindings)]
    if statement.one_in > 1:
        where.append(f"CRC32(trace_id) % {bindings.uint32(statement.one_in)} = 0")
    return where
