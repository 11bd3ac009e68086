"""What a function makes of spans, in SQL: what a cell keeps of its spans, and the figures of a cell and of a group of
cells. NULL where there is nothing to make a figure of.

Figures over durations are exact: integers of nanoseconds, negative ones counted as 0 as they are shown. Those over
numbers of attributes are those of doubles: an integer beyond 2^53 counts as the double next to it.

Doubles are added as whole multiples of 2^-80 (`_units`), and what comes out becomes the nearest double again
(`_nearest`). ClickHouse's own conversions between Float64 and Int256 round on the way, in both directions.
"""

from typing import Final, NamedTuple

from query.fields import ColumnKind, Field
from query.sql.bindings import Bindings
from query.sql.values import ALWAYS, NEVER, ValueSql, value_sql
from query.statements import Fn, Subject

_NULL_FLOAT: Final = "CAST(NULL, 'Nullable(Float64)')"
_LARGEST: Final = "1e44"
_SMALLEST: Final = 2.0**-27  # a multiple of 2^-80, as is every double from here on
_MANTISSA: Final = 2**52 - 1  # the bits of it that a double stores; the bit above them is implied
_UNITS: Final = f"{2**80}."  # in 1
_UNIT_SHIFT: Final = 1023 + 52 - 80  # the exponent that a double stores whose mantissa counts units


class AggregateSql(NamedTuple):
    """`kept`: columns of a cell beside `n`, its spans. `of_cell` is made of a cell's row, `of_group` of several; where
    it is not to be made, the figure is not `mergeable` and takes less memory.
    """

    state_columns: tuple[str, ...]
    bucket_value: str
    group_value: str


def aggregate_sql(fn: Fn, subject: Subject | None, bindings: Bindings, *, mergeable: bool = False) -> AggregateSql:
    """`fn` over `subject`; only count goes without."""
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
    """The column itself: one value, one text."""
    match field.kind:
        case ColumnKind.DURATION:
            return f"greatest({field.column}, 0)"
        case ColumnKind.ID:
            return f"reinterpret({field.column}, 'UInt{8 * field.size}')"  # integers need not be hashed
    return field.column


def _duration_aggregate(fn: Fn, column: str, mergeable: bool) -> AggregateSql:
    """Nanoseconds; the mean is rounded to the nearest, half up."""
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
    """Over the finite numbers, of which a cell counts `m`."""
    if fn in (Fn.MIN, Fn.MAX):
        made = AggregateSql((f"{fn}If({value.number}, {value.numeric}) AS s",), "s", f"{fn}If(s, m > 0)")
    elif fn in (Fn.SUM, Fn.AVG):
        made = _exact_sum(value)
        if fn is Fn.AVG:
            made = made._replace(
                bucket_value=f"({made.bucket_value}) / m", group_value=f"({made.group_value}) / sum(m)"
            )
    else:
        made = _function_sql("quantileExact", f"({_quantile_level(fn)})", value.number, value.numeric, mergeable)
    kept = (f"countIf({value.numeric}) AS m", *made.state_columns)
    return AggregateSql(
        kept, _null_unless_finite("m", made.bucket_value), _null_unless_finite("sum(m)", made.group_value)
    )


def _function_sql(function: str, parameters: str, argument: str, condition: str, mergeable: bool) -> AggregateSql:
    """`function` over the rows where `condition` holds."""
    suffix, arguments = ("", argument) if condition == ALWAYS else ("If", f"{argument}, {condition}")
    if not mergeable:
        return AggregateSql((f"{function}{suffix}{parameters}({arguments}) AS s",), "s", "")
    kept = f"{function}State{suffix}{parameters}({arguments}) AS s"
    return AggregateSql((kept,), "finalizeAggregation(s)", f"{function}Merge{parameters}(s)")


def _exact_sum(value: ValueSql) -> AggregateSql:
    """The sum of doubles, to the nearest double and whatever the order: as multiples of 2^-80, of which an Int256 holds
    1e8 times 1e44. Numbers beyond that, and those so small that they would lose digits, are added as doubles.
    """
    size = f"abs({value.number})"
    exact = f"{size} >= {_SMALLEST!r} AND {size} <= {_LARGEST}"
    whole = f"sumIf({_to_units(value.number)}, {value.numeric} AND {exact}) AS s"
    rest = f"sumKahanIf({value.number}, {value.numeric} AND NOT ({exact})) AS t"
    return AggregateSql(
        (whole, rest), f"{_to_nearest_double('s')} + t", f"{_to_nearest_double('sum(s)')} + sumKahan(t)"
    )


def _to_units(number: str) -> str:
    """A double of these sizes as a multiple of 2^-80: its mantissa, moved by its exponent. Of others it is anything,
    but no error, for it is computed for them too: hence the 255.
    """
    bits = f"reinterpretAsUInt64({number})"
    mantissa = f"toInt64(bitOr(bitAnd({bits}, {_MANTISSA}), {_MANTISSA + 1}))"
    shift = f"bitAnd(bitShiftRight({bits}, 52) - {_UNIT_SHIFT}, 255)"
    return f"bitShiftLeft(toInt256(sign({number}) * {mantissa}), {shift})"


def _to_nearest_double(units: str) -> str:
    """Of an Int256 the double, half to even: texts are read so (`precise_float_parsing`), and to divide it by a power
    of two is exact.
    """
    return f"toFloat64(toString({units})) / {_UNITS}"


def _null_unless_finite(count: str, value: str) -> str:
    """None of no numbers, and none beyond the range of doubles. 0 has no sign: of 0 and -0 either may come first."""
    return f"if({count} = 0 OR NOT isFinite({value}), NULL, {value} + 0.)"


def _quantile_level(fn: Fn) -> str:
    """For the percentile of the ceil(q * n)-th smallest of n values.

    `quantileExact(level)` takes the value at the index floor(level * n), counted from 0, level and product being
    doubles. With q itself that is one too far whenever q * n is whole. 5e-12 less than q, and the product falls short
    of a whole q * n by 5e-12 * n: between 5e-12 and, up to n = 1e8, 0.0005. q has at most three decimals, so a q * n
    that is not whole is at least 0.001 above the whole number below it, and stays above. Rounding moves the product by
    3e-16 * n at most, which is far less than 5e-12 * n. So the index is ceil(q * n) - 1 for every n up to 1e8, which
    `QuerySettings.max_scan_rows` keeps to.
    """
    if fn.thousandths is None:
        raise TypeError(f"{fn} is no percentile")
    return f"0.{fn.thousandths * 10**9 - 5:012d}"
