"""Aggregates of groups of spans, over time. Spans are aggregated per cell: one group in one time bucket.

In one scan, a group's value is computed from the states of its cells, so that no span is read twice. If there are too
many cells for that, groups are ranked without time buckets first, and those that are shown are read again; the values
are the same.

Groups are distinguished by their stored values, because formatting their texts for every span would be expensive.
`query.sql.aggregate_functions` defines what a cell stores, and how the values of cells and groups are computed.
"""

from typing import Final

from query.rows import SPANS, ColumnKind, Field, TelemetryTable
from query.sql.aggregate_functions import AggregateSql, aggregate_sql
from query.sql.bindings import Bindings, Query, project_predicate, time_predicates
from query.sql.predicates import ALWAYS, condition_sql, field_sql, value_sql
from query.statements import Aggregation, GroupKey, GroupRanking, GroupSeries, SpanCount, Subject, TimeBuckets, Window

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
    return _query(f"SELECT sum(spans) FROM (\n{counts})\n", bindings)


def aggregation(statement: Aggregation) -> Query:
    """Rows: (group, spans, value, buckets as (number, spans, value), number of groups), ordered by value, the greatest
    first and NULL last, then by the group's text, an absent group last.

    A group is as its column stores it (for attributes a text or NULL); durations are nanoseconds.
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
    sql = f"""SELECT grp, sum(n) AS spans, {aggregate.group_value} AS figure,
  groupArray((step, n, {aggregate.bucket_value})) AS steps, count() OVER () AS groups{recheck}
FROM (
{cells}
GROUP BY grp, step)
GROUP BY grp
{_order_and_limit(statement, bindings)}"""
    return _query(sql, bindings)


def group_ranking(statement: GroupRanking) -> Query:
    """Rows: (group, spans, value, number of groups), in the same order."""
    bindings = Bindings(statement.existing_attributes)
    aggregate = aggregate_sql(statement.fn, statement.subject, bindings)
    cells = _bucket_aggregates(statement, aggregate, (group_key(statement.group_by, bindings),), bindings)
    recheck = recheck_column("max(overlooked) OVER ()", bindings)
    sql = f"""SELECT grp, n, {aggregate.bucket_value} AS figure, count() OVER () AS groups{recheck}
FROM (
{cells}
GROUP BY grp)
{_order_and_limit(statement, bindings)}"""
    return _query(sql, bindings)


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
    sql = f"""SELECT grp, groupArray((step, n, {aggregate.bucket_value})) AS steps{recheck}
FROM (
{cells}
GROUP BY grp, step)
GROUP BY grp
"""
    return _query(sql, bindings)


def _bucket_aggregates(
    statement: _GroupedStatement, aggregate: AggregateSql, keys: tuple[str, ...], bindings: Bindings
) -> str:
    """Rows: (grp, step if it is one of the keys, n, the aggregate's state columns of a cell); without GROUP BY."""
    where = [project_predicate(statement, bindings), *time_predicates(statement.signal, statement.window, bindings)]
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
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
    """The last column of a statement that needs a recheck."""
    return f",\n  {expression}" if bindings.recheck_condition else ""


def _query(sql: str, bindings: Bindings) -> Query:
    return Query(sql, bindings.used_parameters(sql), needs_recheck=bindings.recheck_condition is not None)


def group_key(subject: Subject | None, bindings: Bindings) -> str:
    """The expression that distinguishes groups, by as few bytes as possible. An absent attribute is NULL, because "" is
    a value.
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
