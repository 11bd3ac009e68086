"""Several figures of groups of spans, over time: like `query.sql.aggregate`, but with several keys and several
functions.

Figures of the same spans share their number of spans, and percentiles of the same values share one state: a second
percentile then costs a pass over the values of a cell, but not another copy of them.

Also has the SQL of a heatmap: spans counted by columns of time and rows of a number.
"""

import math
from typing import Final, NamedTuple

from query.rows import SPANS, STATUS_CODES, ColumnKind, Field
from query.sql.aggregate import bucket_index, group_key, group_order, recheck_column
from query.sql.aggregate_functions import AggregatedSpans, AggregateSql, aggregate_sql
from query.sql.bindings import Bindings, Query
from query.sql.predicates import ALWAYS, NEVER, ValueSql, condition_sql, matching_rows, value_sql
from query.statements import (
    Condition,
    Figure,
    FigureRanking,
    FigureSeries,
    Fn,
    GroupKey,
    Heatmap,
    RankedFigures,
    Subject,
)

_Statement = FigureRanking | FigureSeries | RankedFigures

_ONE_GROUP: Final = "0"


class _FiguresSql(NamedTuple):
    """The conditions of figures by name, the state columns of a cell, and for each figure its value for one cell and
    for several cells.
    """

    named_conditions: tuple[str, ...]
    state_columns: tuple[str, ...]
    bucket_values: tuple[str, ...]
    group_values: tuple[str, ...]


def ranked_figures(statement: RankedFigures) -> Query:
    """Rows: (one column per key of the group, spans, one value per figure, buckets as (number, spans, value, ...),
    number of groups), ordered by the value at `rank_by`, the greatest first and NULL last, then by the group's texts,
    absent texts last. Without keys, the group is one column.
    """
    bindings = Bindings(statement.existing_attributes)
    figures = _figures_sql(statement.figures, bindings, mergeable=True)
    names, keys = _group_columns(statement.group_by, bindings)
    cells = _cells(statement, figures, (*keys, f"{bucket_index(statement.buckets, bindings)} AS step"), bindings)
    recheck = recheck_column("max(max(overlooked)) OVER ()", bindings)
    return bindings.query(f"""SELECT {names}, sum(n) AS spans,
  {_numbered(figures.group_values)},
  groupArray({_step(figures)}) AS steps, count() OVER () AS groups{recheck}
FROM (
{cells}
GROUP BY {names}, step)
GROUP BY {names}
{_order_and_limit(statement, bindings)}""")


def figure_ranking(statement: FigureRanking) -> Query:
    """Rows: (one column per key of the group, spans, one value per figure, number of groups), in the same order."""
    bindings = Bindings(statement.existing_attributes)
    figures = _figures_sql(statement.figures, bindings, mergeable=False)
    names, keys = _group_columns(statement.group_by, bindings)
    recheck = recheck_column("max(overlooked) OVER ()", bindings)
    return bindings.query(f"""SELECT {names}, n,
  {_numbered(figures.bucket_values)},
  count() OVER () AS groups{recheck}
FROM (
{_cells(statement, figures, keys, bindings)}
GROUP BY {names})
{_order_and_limit(statement, bindings)}""")


def figure_series(statement: FigureSeries) -> Query:
    """Rows: (one column per key of the group, buckets as (number, spans, value, ...)), unordered."""
    bindings = Bindings(statement.existing_attributes)
    figures = _figures_sql(statement.figures, bindings, mergeable=False)
    names, keys = _group_columns(statement.group_by, bindings)
    cells = _cells(statement, figures, (*keys, f"{bucket_index(statement.buckets, bindings)} AS step"), bindings)
    if statement.groups:
        in_groups = _in_groups(statement.group_by, statement.groups, bindings)
        alternatives = [in_groups, bindings.recheck_condition] if bindings.recheck_condition else [in_groups]
        cells += f"\n  AND ({' OR '.join(alternatives)})"
    recheck = recheck_column("max(overlooked)", bindings)
    return bindings.query(f"""SELECT {names}, groupArray({_step(figures)}) AS steps{recheck}
FROM (
{cells}
GROUP BY {names}, step)
GROUP BY {names}
""")


def _figures_sql(figures: tuple[Figure, ...], bindings: Bindings, *, mergeable: bool) -> _FiguresSql:
    """Equal figures, and percentiles of the same values, share their state columns."""
    columns, found = dict[str, None](), list[AggregateSql]()
    states = list(dict.fromkeys(map(_state_of, figures)))
    conditions = list(dict.fromkeys(each.conditions for each in figures if each.conditions))
    for figure in figures:
        condition, count = ALWAYS, "n"
        if figure.conditions:
            index = conditions.index(figure.conditions)
            condition, count = f"covered{index}", f"n{index}"
            columns[f"countIf({condition}) AS {count}"] = None
        state = _state_of(figure)
        percentiles = tuple(fn for fn in Fn if fn.thousandths and Figure(fn, *state[1:]) in figures)
        spans = AggregatedSpans(condition, count, str(states.index(state)), percentiles)
        aggregate = aggregate_sql(figure.fn, figure.subject, bindings, mergeable=mergeable, spans=spans)
        columns.update(dict.fromkeys(aggregate.state_columns))
        found.append(_empty_without_spans(figure, count, aggregate))
    named = tuple(f"({_all_of(each, bindings)}) AS covered{index}" for index, each in enumerate(conditions))
    bucket_values = tuple(each.bucket_value for each in found)
    return _FiguresSql(named, tuple(columns), bucket_values, tuple(each.group_value for each in found))


def _state_of(figure: Figure) -> tuple[Fn | None, Subject | None, tuple[Condition, ...]]:
    return (None if figure.fn.thousandths else figure.fn, figure.subject, figure.conditions)


def _empty_without_spans(figure: Figure, count: str, aggregate: AggregateSql) -> AggregateSql:
    """A group always has spans, but not always spans that meet the conditions of the figure."""
    if not figure.conditions or figure.fn in (Fn.COUNT, Fn.COUNT_UNIQUE):
        return aggregate
    empty = "0" if figure.fn is Fn.SUM else "NULL"
    of_group = f"if(sum({count}) = 0, {empty}, {aggregate.group_value})" if aggregate.group_value else ""
    return AggregateSql(
        aggregate.state_columns,
        f"if({count} = 0, {empty}, {aggregate.bucket_value})",
        of_group,
    )


def _all_of(conditions: tuple[Condition, ...], bindings: Bindings) -> str:
    return " AND ".join(condition_sql(each, bindings) for each in conditions)


def _group_columns(group_by: tuple[Subject, ...], bindings: Bindings) -> tuple[str, tuple[str, ...]]:
    """The names of the columns of a group, and their definitions."""
    keys = tuple(group_key(each, bindings) for each in group_by) or (_ONE_GROUP,)
    names = tuple(f"grp{index}" for index in range(len(keys)))
    return ", ".join(names), tuple(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))


def _cells(statement: _Statement, figures: _FiguresSql, keys: tuple[str, ...], bindings: Bindings) -> str:
    """Rows: (the keys, n, the state columns of a cell); without GROUP BY."""
    where = matching_rows(statement, SPANS, statement.window, statement.conditions, bindings)
    columns = [*keys, "count() AS n", *figures.state_columns]
    if bindings.recheck_condition:
        columns.append(f"max({bindings.recheck_condition}) AS overlooked")
    selected = ",\n  ".join(columns)
    named = f"WITH {', '.join(figures.named_conditions)}\n" if figures.named_conditions else ""
    return f"{named}SELECT {selected}\nFROM spans\nWHERE " + "\n  AND ".join(where)


def _numbered(values: tuple[str, ...]) -> str:
    return ",\n  ".join(f"{value} AS figure{index}" for index, value in enumerate(values))


def _step(figures: _FiguresSql) -> str:
    return f"({', '.join(('step', 'n', *figures.bucket_values))})"


def _order_and_limit(statement: RankedFigures | FigureRanking, bindings: Bindings) -> str:
    texts = ", ".join(group_order(each, f"grp{index}") for index, each in enumerate(statement.group_by))
    order = f"ORDER BY figure{statement.rank_by} DESC NULLS LAST" + (f", {texts}" if texts else "")
    return f"{order}\nLIMIT {bindings.uint64(statement.limit)}\n"


def _in_groups(group_by: tuple[Subject, ...], groups: tuple[tuple[GroupKey, ...], ...], bindings: Bindings) -> str:
    """Whether the keys of a row are one of `groups`: one look-up in a set for any number of groups."""
    keys = [part for each in group_by for part in _comparable(each, bindings)]
    rows = []
    for group in groups:
        values = [
            part for each, value in zip(group_by, group, strict=True) for part in _constant(each, value, bindings)
        ]
        rows.append(f"({', '.join(values)})")
    left = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
    return f"{left} IN ({', '.join(rows)})"


def _comparable(subject: Subject, bindings: Bindings) -> list[str]:
    key = group_key(subject, bindings)
    if not isinstance(subject, Field):
        return [f"isNull({key})", f"ifNull({key}, '')"]
    if subject.kind is ColumnKind.ID:
        return [key]
    return [f"toString({key})" if subject.kind is ColumnKind.TEXT else f"toInt64({key})"]


def _constant(subject: Subject, value: GroupKey, bindings: Bindings) -> list[str]:
    """`value` as a constant that can be compared with `_comparable`."""
    if not isinstance(subject, Field):
        return ["1", "''"] if value is None else ["0", bindings.text(str(value))]
    if isinstance(value, bytes):
        return [bindings.id(value)]
    return [bindings.int64(value) if isinstance(value, int) else bindings.text(str(value))]


_ERROR: Final = STATUS_CODES.index("ERROR")
_EXACT_FLOAT: Final = f"{2**53}."  # not every larger integer is a Float64
_LARGEST_INTEGER: Final = f"{2**64}."  # larger than any integer of an attribute


def heatmap(statement: Heatmap) -> Query:
    """Rows: (column, row, spans, spans with an error), unordered. Row -1 has the values below all rows, and the row
    after the last one has the values above all rows.

    A rounded logarithm finds the row or a neighbour of it. Comparisons with the edges then decide, in the same way as
    the filters `gte` and `lt`.
    """
    bindings = Bindings(statement.existing_attributes)
    where = matching_rows(statement, SPANS, statement.window, statement.conditions, bindings)
    value, edges, is_number = _value(statement, bindings)
    if is_number is not None:
        alternatives = [is_number, bindings.recheck_condition] if bindings.recheck_condition else [is_number]
        where.append(f"({' OR '.join(alternatives)})")
    recheck = recheck_column("max(overlooked)", bindings)
    columns = [
        f"{_column(statement, bindings)} AS time",
        f"{value} AS value",
        f"{_near(statement)} AS near",
        f"status_code = {_ERROR} AS failed",
    ]
    if bindings.recheck_condition:
        columns.append(f"{bindings.recheck_condition} AS overlooked")
    selected, conditions = ",\n  ".join(columns), "\n  AND ".join(where)
    sql = f"""SELECT time, toInt16(near + (value >= {edges}[near + 2]) - (value < {edges}[near + 1])) AS height,
  count(), countIf(failed){recheck}
FROM (
SELECT {selected}
FROM spans
WHERE {conditions})
GROUP BY time, height
"""
    return bindings.query(sql)


def _value(statement: Heatmap, bindings: Bindings) -> tuple[str, str, str | None]:
    """The number to draw, the edges in its type, and the condition that a span has this number (None: always)."""
    subject = statement.subject
    if isinstance(subject, Field) and subject.kind is ColumnKind.DURATION:
        return f"greatest({subject.column}, 0)", bindings.int64s(tuple(map(int, statement.rows.edges))), None
    found = value_sql(subject, bindings)
    edges = bindings.float64s(tuple(map(float, statement.rows.edges)))
    if found.numeric == NEVER:
        return "0.", edges, NEVER
    return _comparable_number(found), edges, found.numeric


def _comparable_number(value: ValueSql) -> str:
    """The number as a double. If an integer is less than its nearest double, the previous double is used instead, which
    compares with edges (doubles) in the same way as the integer.
    """
    number = value.number
    rounded_up = (
        f"{number} >= {_EXACT_FLOAT} AND {number} < {_LARGEST_INTEGER}"
        f" AND ifNull(toInt128OrNull({value.text}) < toInt128(least({number}, {_LARGEST_INTEGER})), 0)"
    )
    return f"if({rounded_up}, reinterpretAsFloat64(reinterpretAsUInt64({number}) - 1), {number})"


def _near(statement: Heatmap) -> str:
    """The row of `value`, or a neighbour of this row."""
    rows = statement.rows
    last = len(rows.edges) - 2
    lowest = 2.0**rows.lowest_octave * rows.unit
    exponent = f"log2(greatest(toFloat64(value), {lowest!r})) - {rows.lowest_octave + math.log2(rows.unit)!r}"
    return f"toInt32(greatest(0, least({last}, floor({rows.per_octave} * ({exponent})))))"


def _column(statement: Heatmap, bindings: Bindings) -> str:
    since = f"toUnixTimestamp64Nano({SPANS.time_column}) - {bindings.int64(statement.columns.origin_ns)}"
    return f"toUInt8(intDiv({since}, {bindings.int64(statement.columns.width_ns)}))"
