"""The SQL of aggregate functions: the state columns of a cell, and the values of a cell and of a group of cells. The
value is NULL if there is nothing to aggregate.

Aggregates of durations are exact: integers of nanoseconds. Negative durations count as 0, because they are shown as 0.
Numeric attributes are aggregated as doubles: an integer beyond 2^53 counts as the nearest double.

Doubles are summed as integer multiples of 2^-80 (`_to_units`), and the sum is converted to the nearest double
(`_to_nearest_double`). ClickHouse's own conversions between Float64 and Int256 round in both directions.
"""

from typing import Final, NamedTuple

from query.rows import ColumnKind, Field
from query.sql.bindings import Bindings
from query.sql.predicates import ALWAYS, NEVER, ValueSql, value_sql
from query.statements import Fn, Subject

_NULL_FLOAT: Final = "CAST(NULL, 'Nullable(Float64)')"
_LARGEST: Final = "1e44"
_SMALLEST: Final = 2.0**-27  # every double from this size on is a multiple of 2^-80
_MANTISSA: Final = 2**52 - 1  # the mantissa bits that a double stores; the bit above them is implied
_UNITS: Final = f"{2**80}."  # units in 1
_UNIT_SHIFT: Final = 1023 + 52 - 80  # the stored exponent of a double whose mantissa is a number of units


class AggregateSql(NamedTuple):
    """`state_columns`: columns of a cell besides `n`, its number of spans. `bucket_value` is computed from the row of
    one cell, `group_value` from the rows of several cells. If `group_value` is not needed, the aggregate is not
    `mergeable` and uses less memory.
    """

    state_columns: tuple[str, ...]
    bucket_value: str
    group_value: str


class AggregatedSpans(NamedTuple):
    """The spans of a cell that an aggregate covers: the spans for which `condition` holds. The column `size` has their
    number. `suffix` ends the names of the aggregate's own columns. `percentiles`: the percentiles that share one state.
    """

    condition: str = ALWAYS
    size: str = "n"
    suffix: str = ""
    percentiles: tuple[Fn, ...] = ()

    def matching(self, condition: str) -> str:
        """The condition that both `self.condition` and `condition` hold."""
        if ALWAYS in (self.condition, condition):
            return self.condition if condition == ALWAYS else condition
        return f"({self.condition} AND {condition})"


_ALL_SPANS: Final = AggregatedSpans()


def aggregate_sql(
    fn: Fn,
    subject: Subject | None,
    bindings: Bindings,
    *,
    mergeable: bool = False,
    spans: AggregatedSpans = _ALL_SPANS,
) -> AggregateSql:
    """The SQL of `fn` over `subject`; only count works without a subject."""
    if subject is None:
        return AggregateSql((), spans.size, f"sum({spans.size})")
    value = value_sql(subject, bindings)
    if fn is Fn.COUNT:
        return _count(value, spans)
    if fn is Fn.COUNT_UNIQUE:
        text = _distinct_argument(subject) if isinstance(subject, Field) else value.text
        return _function_sql("uniqExact", "", text, value.present, mergeable, spans)
    if isinstance(subject, Field) and subject.kind is ColumnKind.DURATION:
        return _duration_aggregate(fn, f"greatest({subject.column}, 0)", mergeable, spans)
    return (
        AggregateSql((), _NULL_FLOAT, _NULL_FLOAT)
        if value.numeric == NEVER
        else _number_aggregate(fn, value, mergeable, spans)
    )


def _count(value: ValueSql, spans: AggregatedSpans) -> AggregateSql:
    if value.present == ALWAYS:
        return AggregateSql((), spans.size, f"sum({spans.size})")
    column = f"m{spans.suffix}"
    return AggregateSql((f"countIf({spans.matching(value.present)}) AS {column}",), column, f"sum({column})")


def _distinct_argument(field: Field) -> str:
    """The column itself: each value has exactly one text."""
    match field.kind:
        case ColumnKind.DURATION:
            return f"greatest({field.column}, 0)"
        case ColumnKind.ID:
            return f"reinterpret({field.column}, 'UInt{8 * field.size}')"  # integers need not be hashed
    return field.column


def _duration_aggregate(fn: Fn, column: str, mergeable: bool, spans: AggregatedSpans) -> AggregateSql:
    """An aggregate in nanoseconds; the mean is rounded half up."""
    state = f"s{spans.suffix}"
    if fn in (Fn.SUM, Fn.AVG):
        columns = (f"{_call('sum', f'toInt128({column})', spans.condition)} AS {state}",)
        if fn is Fn.SUM:
            return AggregateSql(columns, state, f"sum({state})")
        may_be_none = spans.condition != ALWAYS
        of_cells = _mean(f"sum({state})", f"sum({spans.size})", may_be_none)
        return AggregateSql(columns, _mean(state, spans.size, may_be_none), of_cells)
    if fn in (Fn.MIN, Fn.MAX):
        of_cells = f"{fn}({state})" if spans.condition == ALWAYS else f"{fn}If({state}, {spans.size} > 0)"
        return AggregateSql((f"{_call(fn, column, spans.condition)} AS {state}",), state, of_cells)
    return _percentile(fn, column, ALWAYS, mergeable, spans)


def _call(function: str, argument: str, condition: str) -> str:
    return f"{function}({argument})" if condition == ALWAYS else f"{function}If({argument}, {condition})"


def _mean(total: str, count: str, may_be_none: bool) -> str:
    divisor = f"nullIf({count}, 0)" if may_be_none else count
    return f"intDiv(2 * {total} + {count}, 2 * toInt128({divisor}))"


def _number_aggregate(fn: Fn, value: ValueSql, mergeable: bool, spans: AggregatedSpans) -> AggregateSql:
    """An aggregate of the finite numbers; `m` is their count in a cell."""
    numeric, state, count = spans.matching(value.numeric), f"s{spans.suffix}", f"m{spans.suffix}"
    if fn in (Fn.MIN, Fn.MAX):
        columns = (f"{fn}If({value.number}, {numeric}) AS {state}",)
        aggregate = AggregateSql(columns, state, f"{fn}If({state}, {count} > 0)")
    elif fn in (Fn.SUM, Fn.AVG):
        aggregate = _exact_sum(value.number, numeric, spans.suffix)
        if fn is Fn.AVG:
            aggregate = aggregate._replace(
                bucket_value=f"({aggregate.bucket_value}) / {count}",
                group_value=f"({aggregate.group_value}) / sum({count})",
            )
    else:
        aggregate = _percentile(fn, value.number, value.numeric, mergeable, spans)
    return AggregateSql(
        (f"countIf({numeric}) AS {count}", *aggregate.state_columns),
        _null_unless_finite(count, aggregate.bucket_value),
        _null_unless_finite(f"sum({count})", aggregate.group_value),
    )


def _percentile(fn: Fn, argument: str, condition: str, mergeable: bool, spans: AggregatedSpans) -> AggregateSql:
    if len(spans.percentiles) < 2:
        return _function_sql("quantileExact", f"({_quantile_level(fn)})", argument, condition, mergeable, spans)
    levels = ", ".join(map(_quantile_level, spans.percentiles))
    shared = _function_sql("quantilesExact", f"({levels})", argument, condition, mergeable, spans)
    place = spans.percentiles.index(fn) + 1
    return AggregateSql(shared.state_columns, f"{shared.bucket_value}[{place}]", f"{shared.group_value}[{place}]")


def _function_sql(
    function: str, parameters: str, argument: str, condition: str, mergeable: bool, spans: AggregatedSpans
) -> AggregateSql:
    """`function` over the `spans` for which `condition` holds."""
    condition, state = spans.matching(condition), f"s{spans.suffix}"
    suffix, arguments = ("", argument) if condition == ALWAYS else ("If", f"{argument}, {condition}")
    if not mergeable:
        return AggregateSql((f"{function}{suffix}{parameters}({arguments}) AS {state}",), state, "")
    column = f"{function}State{suffix}{parameters}({arguments}) AS {state}"
    return AggregateSql((column,), f"finalizeAggregation({state})", f"{function}Merge{parameters}({state})")


def _exact_sum(number: str, condition: str, suffix: str) -> AggregateSql:
    """The sum of doubles, rounded to the nearest double and independent of the order: an exact sum of multiples of
    2^-80 (an Int256 can hold the sum of 1e8 numbers of 1e44). Larger numbers, and numbers that are so small that they
    would lose digits, are summed as doubles.
    """
    magnitude, units, rest = f"abs({number})", f"s{suffix}", f"t{suffix}"
    is_exact = f"{magnitude} >= {_SMALLEST!r} AND {magnitude} <= {_LARGEST}"
    exact_sum = f"sumIf({_to_units(number)}, {condition} AND {is_exact}) AS {units}"
    float_sum = f"sumKahanIf({number}, {condition} AND NOT ({is_exact})) AS {rest}"
    return AggregateSql(
        (exact_sum, float_sum),
        f"{_to_nearest_double(units)} + {rest}",
        f"{_to_nearest_double(f'sum({units})')} + sumKahan({rest})",
    )


def _to_units(number: str) -> str:
    """A double within these limits as a multiple of 2^-80: its mantissa, shifted by its exponent. The SQL is evaluated
    for other doubles too. Then the result is arbitrary, but not an error, because 255 limits the shift.
    """
    bits = f"reinterpretAsUInt64({number})"
    mantissa = f"toInt64(bitOr(bitAnd({bits}, {_MANTISSA}), {_MANTISSA + 1}))"
    shift = f"bitAnd(bitShiftRight({bits}, 52) - {_UNIT_SHIFT}, 255)"
    return f"bitShiftLeft(toInt256(sign({number}) * {mantissa}), {shift})"


def _to_nearest_double(units: str) -> str:
    """Convert an Int256 to the nearest double, half to even: ClickHouse parses texts in this way
    (`precise_float_parsing`), and dividing a double by a power of two is exact.
    """
    return f"toFloat64(toString({units})) / {_UNITS}"


def _null_unless_finite(count: str, value: str) -> str:
    """NULL if there are no numbers, or if the value is beyond the range of doubles. 0 never has a sign, because either
    of 0 and -0 may come first."""
    return f"if({count} = 0 OR NOT isFinite({value}), NULL, {value} + 0.)"


def _quantile_level(fn: Fn) -> str:
    """The level for the percentile: the ceil(q * n)-th smallest of n values.

    `quantileExact(level)` takes the value at the index floor(level * n), counted from 0; level and product are doubles.
    With the level q, the index would be one too high whenever q * n is an integer. So the level is q - 5e-12: the
    product is then less than an integer q * n by 5e-12 * n, which is between 5e-12 and (for n = 1e8) 0.0005. q has at
    most three decimals, so a q * n that is not an integer is at least 0.001 above the next lower integer, and stays
    above it. Rounding changes the product by at most 3e-16 * n, which is far less than 5e-12 * n. So the index is
    ceil(q * n) - 1 for every n up to 1e8, which `QuerySettings.max_scan_rows` does not exceed.
    """
    if fn.thousandths is None:
        raise TypeError(f"{fn} is not a percentile")
    return f"0.{fn.thousandths * 10**9 - 5:012d}"
