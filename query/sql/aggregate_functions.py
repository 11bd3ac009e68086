"""The SQL of aggregate functions: the state columns of a cell, and the values of a cell and of a group of cells. The
value is NULL if there is nothing to aggregate.

Aggregates of durations are exact: integers of nanoseconds; negative ones count as 0, as they are shown. Aggregates of
numeric attributes are those of doubles: an integer beyond 2^53 counts as the nearest double.

Doubles are summed as integer multiples of 2^-80 (`_to_units`), and the sum is converted to the nearest double
(`_to_nearest_double`). ClickHouse's own conversions between Float64 and Int256 round in both directions.
"""

from typing import Final, NamedTuple

from query.fields import ColumnKind, Field
from query.sql.bindings import Bindings
from query.sql.values import ALWAYS, NEVER, ValueSql, value_sql
from query.statements import Fn, Subject

_NULL_FLOAT: Final = "CAST(NULL, 'Nullable(Float64)')"
_LARGEST: Final = "1e44"
_SMALLEST: Final = 2.0**-27  # from here on every double is a multiple of 2^-80
_MANTISSA: Final = 2**52 - 1  # the mantissa bits that a double stores; the bit above them is implied
_UNITS: Final = f"{2**80}."  # units in 1
_UNIT_SHIFT: Final = 1023 + 52 - 80  # the stored exponent of a double whose mantissa is a number of units


class AggregateSql(NamedTuple):
    """`state_columns`: columns of a cell besides `n`, its number of spans. `bucket_value` is computed from the row of
    one cell, `group_value` from several; if `group_value` is not needed, the aggregate is not `mergeable` and uses less
    memory.
    """

    state_columns: tuple[str, ...]
    bucket_value: str
    group_value: str


def aggregate_sql(fn: Fn, subject: Subject | None, bindings: Bindings, *, mergeable: bool = False) -> AggregateSql:
    """`fn` over `subject`; only count works without a subject."""
    if subject is None:
        return AggregateSql((), "n", "sum(n)")
    value = value_sql(subject, bindings)
    if fn is Fn.COUNT:
        return _count(value)
    if fn is Fn.COUNT_UNIQUE:
        text = _distinct_argument(subject) if isinstance(subject, Field) else value.text
        return _function_sql("uniqExact", "", text, value.present, mergeable)
    if isinstance(subject, Field) and subject.kind is ColumnKind.DURATION:
        return _duration_aggregate(fn, f"greatest({subject.column}, 0)", mergeable)
    return (
        AggregateSql((), _NULL_FLOAT, _NULL_FLOAT)
        if value.numeric == NEVER
        else _number_aggregate(fn, value, mergeable)
    )


def _count(value: ValueSql) -> AggregateSql:
    if value.present == ALWAYS:
        return AggregateSql((), "n", "sum(n)")
    return AggregateSql((f"countIf({value.present}) AS m",), "m", "sum(m)")


def _distinct_argument(field: Field) -> str:
    """The column itself: each value has exactly one text."""
    match field.kind:
        case ColumnKind.DURATION:
            return f"greatest({field.column}, 0)"
        case ColumnKind.ID:
            return f"reinterpret({field.column}, 'UInt{8 * field.size}')"  # integers need not be hashed
    return field.column


def _duration_aggregate(fn: Fn, column: str, mergeable: bool) -> AggregateSql:
    """In nanoseconds; the mean is rounded to the nearest, half up."""
    if fn is Fn.SUM:
        return AggregateSql((f"sum(toInt128({column})) AS s",), "s", "sum(s)")
    if fn is Fn.AVG:
        return AggregateSql((f"sum(toInt128({column})) AS s",), _mean("s", "n"), _mean("sum(s)", "sum(n)"))
    if fn in (Fn.MIN, Fn.MAX):
        return AggregateSql((f"{fn}({column}) AS s",), "s", f"{fn}(s)")
    return _function_sql("quantileExact", f"({_quantile_level(fn)})", column, ALWAYS, mergeable)


def _mean(total: str, count: str) -> str:
    return f"intDiv(2 * {total} + {count}, 2 * toInt128({count}))"


def _number_aggregate(fn: Fn, value: ValueSql, mergeable: bool) -> AggregateSql:
    """Over the finite numbers; `m` is their count in a cell."""
    if fn in (Fn.MIN, Fn.MAX):
        aggregate = AggregateSql((f"{fn}If({value.number}, {value.numeric}) AS s",), "s", f"{fn}If(s, m > 0)")
    elif fn in (Fn.SUM, Fn.AVG):
        aggregate = _exact_sum(value)
        if fn is Fn.AVG:
            aggregate = aggregate._replace(
                bucket_value=f"({aggregate.bucket_value}) / m", group_value=f"({aggregate.group_value}) / sum(m)"
            )
    else:
        aggregate = _function_sql("quantileExact", f"({_quantile_level(fn)})", value.number, value.numeric, mergeable)
    state_columns = (f"countIf({value.numeric}) AS m", *aggregate.state_columns)
    return AggregateSql(
        state_columns,
        _null_unless_finite("m", aggregate.bucket_value),
        _null_unless_finite("sum(m)", aggregate.group_value),
    )


def _function_sql(function: str, parameters: str, argument: str, condition: str, mergeable: bool) -> AggregateSql:
    """`function` over the rows where `condition` holds."""
    suffix, arguments = ("", argument) if condition == ALWAYS else ("If", f"{argument}, {condition}")
    if not mergeable:
        return AggregateSql((f"{function}{suffix}{parameters}({arguments}) AS s",), "s", "")
    state = f"{function}State{suffix}{parameters}({arguments}) AS s"
    return AggregateSql((state,), "finalizeAggregation(s)", f"{function}Merge{parameters}(s)")


def _exact_sum(value: ValueSql) -> AggregateSql:
    """The sum of doubles, rounded to the nearest double, whatever the order: an exact sum of multiples of 2^-80, of
    which an Int256 holds 1e8 times 1e44. Larger numbers, and those so small that they would lose digits, are summed as
    doubles.
    """
    magnitude = f"abs({value.number})"
    is_exact = f"{magnitude} >= {_SMALLEST!r} AND {magnitude} <= {_LARGEST}"
    exact_sum = f"sumIf({_to_units(value.number)}, {value.numeric} AND {is_exact}) AS s"
    float_sum = f"sumKahanIf({value.number}, {value.numeric} AND NOT ({is_exact})) AS t"
    return AggregateSql(
        (exact_sum, float_sum), f"{_to_nearest_double('s')} + t", f"{_to_nearest_double('sum(s)')} + sumKahan(t)"
    )


def _to_units(number: str) -> str:
    """A double within these limits as a multiple of 2^-80: its mantissa, shifted by its exponent. For other doubles the
    result is arbitrary but not an error, because it is computed for them too: hence the 255.
    """
    bits = f"reinterpretAsUInt64({number})"
    mantissa = f"toInt64(bitOr(bitAnd({bits}, {_MANTISSA}), {_MANTISSA + 1}))"
    shift = f"bitAnd(bitShiftRight({bits}, 52) - {_UNIT_SHIFT}, 255)"
    return f"bitShiftLeft(toInt256(sign({number}) * {mantissa}), {shift})"


def _to_nearest_double(units: str) -> str:
    """Convert an Int256 to the nearest double, half to even: ClickHouse parses texts that way
    (`precise_float_parsing`), and dividing the double by a power of two is exact.
    """
    return f"toFloat64(toString({units})) / {_UNITS}"


def _null_unless_finite(count: str, value: str) -> str:
    """NULL without numbers, and beyond the range of doubles. 0 has no sign: of 0 and -0 either may come first."""
    return f"if({count} = 0 OR NOT isFinite({value}), NULL, {value} + 0.)"


def _quantile_level(fn: Fn) -> str:
    """The level for the percentile: the ceil(q * n)-th smallest of n values.

    `quantileExact(level)` takes the value at the index floor(level * n), counted from 0; level and product are doubles.
    With q itself the index is one too high whenever q * n is an integer. With 5e-12 less than q, the product falls
    short of an integer q * n by 5e-12 * n: between 5e-12 and, up to n = 1e8, 0.0005. q has at most three decimals, so a
    q * n that is not an integer is at least 0.001 above the next lower integer, and stays above it. Rounding changes
    the product by at most 3e-16 * n, which is far less than 5e-12 * n. So the index is ceil(q * n) - 1 for every n up
    to 1e8, which `QuerySettings.max_scan_rows` does not exceed.
    """
    if fn.thousandths is None:
        raise TypeError(f"{fn} is not a percentile")
    return f"0.{fn.thousandths * 10**9 - 5:012d}"
