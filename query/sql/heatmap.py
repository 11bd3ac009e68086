"""A heatmap: spans counted by columns of time and rows of a number."""

import math
from typing import Final

from query.fields import SPANS, STATUS_CODES, ColumnKind, Field
from query.sql.aggregate import recheck_column
from query.sql.bindings import Bindings, Query
from query.sql.clauses import project_predicate, time_predicates
from query.sql.predicates import condition_sql
from query.sql.values import NEVER, ValueSql, value_sql
from query.statements import Heatmap

_ERROR: Final = STATUS_CODES.index("ERROR")
_EXACT_FLOAT: Final = f"{2**53}."  # not every larger integer is a Float64
_LARGEST_INTEGER: Final = f"{2**64}."  # beyond those that an attribute can have


def heatmap(statement: Heatmap) -> Query:
    """Rows: (column, row, spans, of these with an error), unordered. Row -1 has the values below all rows, and the row
    after the last one those above them.

    A logarithm finds the row or one next to it, whatever it is rounded to; comparing with the edges decides, as the
    filters `gte` and `lt` do.
    """
    bindings = Bindings(statement.existing_attributes)
    where = [project_predicate(statement, bindings), *time_predicates(SPANS, statement.window, bindings)]
    where += [condition_sql(condition, bindings) for condition in statement.conditions]
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
    return Query(sql, bindings.used_parameters(sql), needs_recheck=bindings.recheck_condition is not None)


def _value(statement: Heatmap, bindings: Bindings) -> tuple[str, str, str | None]:
    """The number to draw, the edges in its type, and the condition for there being one (None: always)."""
    subject = statement.subject
    if isinstance(subject, Field) and subject.kind is ColumnKind.DURATION:
        return f"greatest({subject.column}, 0)", bindings.int64s(tuple(map(int, statement.rows.edges))), None
    found = value_sql(subject, bindings)
    edges = bindings.float64s(tuple(map(float, statement.rows.edges)))
    if found.numeric == NEVER:
        return "0.", edges, NEVER
    return _comparable(found), edges, found.numeric


def _comparable(value: ValueSql) -> str:
    """The number; for an integer that is less than the double nearest to it the double before that: edges are doubles,
    and compare with it as with the integer.
    """
    number = value.number
    rounded_up = (
        f"{number} >= {_EXACT_FLOAT} AND {number} < {_LARGEST_INTEGER}"
        f" AND ifNull(toInt128OrNull({value.text}) < toInt128(least({number}, {_LARGEST_INTEGER})), 0)"
    )
    return f"if({rounded_up}, reinterpretAsFloat64(reinterpretAsUInt64({number}) - 1), {number})"


def _near(statement: Heatmap) -> str:
    """A row next to that of `value`, or the same."""
    rows = statement.rows
    last = len(rows.edges) - 2
    lowest = 2.0**rows.lowest_octave * rows.unit
    exponent = f"log2(greatest(toFloat64(value), {lowest!r})) - {rows.lowest_octave + math.log2(rows.unit)!r}"
    return f"toInt32(greatest(0, least({last}, floor({rows.per_octave} * ({exponent})))))"


def _column(statement: Heatmap, bindings: Bindings) -> str:
    since = f"toUnixTimestamp64Nano({SPANS.time_column}) - {bindings.int64(statement.columns.origin_ns)}"
    return f"toUInt8(intDiv({since}, {bindings.int64(statement.columns.width_ns)}))"
