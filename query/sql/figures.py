"""What a function makes of spans, in SQL: what a cell keeps of its spans, and the figures of a cell and of a group of
cells. NULL where there is nothing to make a figure of.

Figures over durations are exact: integers of nanoseconds. Those over numbers of attributes are doubles; sums of them
hardly depend on the order of the spans (`sumKahan`) and not at all in the 15 digits that are shown.
"""

from typing import Final, NamedTuple

from query.fields import Field, Form
from query.sql.bindings import Bindings
from query.sql.values import ALWAYS, NEVER, Value, value_of
from query.tree import Fn, Subject

_NOTHING: Final = "CAST(NULL, 'Nullable(Float64)')"
_STATE: Final = "finalizeAggregation(s)"


class Figure(NamedTuple):
    """`kept`: columns of a cell beside `n`, its spans. `of_cell` is made of a cell's row, `of_group` of all rows."""

    kept: tuple[str, ...]
    of_cell: str
    of_group: str


def figure_of(fn: Fn, subject: Subject | None, bindings: Bindings) -> Figure:
    """`fn` over `subject`; only count goes without."""
    if subject is None:
        return Figure((), "n", "sum(n)")
    value = value_of(subject, bindings)
    if fn is Fn.COUNT:
        return _count(value)
    if fn is Fn.COUNT_UNIQUE:
        return _count_unique(subject, value)
    if isinstance(subject, Field) and subject.form is Form.DURATION:
        return _of_durations(fn, subject.column)
    return Figure((), _NOTHING, _NOTHING) if value.numeric == NEVER else _of_numbers(fn, value)


def _count(value: Value) -> Figure:
    if value.present == ALWAYS:
        return Figure((), "n", "sum(n)")
    return Figure((f"countIf({value.present}) AS m",), "m", "sum(m)")


def _count_unique(subject: Subject, value: Value) -> Figure:
    """Of a field the column itself: one value, one text."""
    text = _distinct(subject) if isinstance(subject, Field) else value.text
    kept = f"uniqExactStateIf({text}, {value.present}) AS s"
    return Figure((kept,), _STATE, "uniqExactMerge(s)")


def _distinct(field: Field) -> str:
    match field.form:
        case Form.DURATION:
            return f"greatest({field.column}, 0)"
        case Form.ID:
            return f"reinterpret({field.column}, 'UInt{8 * field.size}')"  # integers need not be hashed
    return field.column


def _of_durations(fn: Fn, column: str) -> Figure:
    """Nanoseconds; the mean is rounded to the nearest, half up. A negative duration counts as 0, as it is shown."""
    shown = f"greatest({column}, 0)"
    if fn in (Fn.SUM, Fn.AVG):
        of_cell, of_group = ("s", "sum(s)") if fn is Fn.SUM else (_mean("s", "n"), _mean("sum(s)", "sum(n)"))
        return Figure((f"sum(toInt128({shown})) AS s",), of_cell, of_group)
    if fn in (Fn.MIN, Fn.MAX):
        return Figure((f"{fn}({shown}) AS s",), "s", f"{fn}(s)")
    level = _level(fn)
    return Figure((f"quantileExactState({level})({shown}) AS s",), _STATE, f"quantileExactMerge({level})(s)")


def _mean(total: str, count: str) -> str:
    return f"intDiv(2 * {total} + {count}, 2 * toInt128({count}))"


def _of_numbers(fn: Fn, value: Value) -> Figure:
    numbers = f"countIf({value.numeric}) AS m"
    if fn in (Fn.SUM, Fn.AVG):
        kept, of_cell, of_group = f"sumKahanStateIf({value.number}, {value.numeric}) AS s", _STATE, "sumKahanMerge(s)"
        if fn is Fn.AVG:
            of_cell, of_group = f"{of_cell} / m", f"{of_group} / sum(m)"
        # Groups are ranked by the digits that are shown. Of cells only those of some groups are shown, so theirs wait.
        of_group = f"toFloat64OrZero(printf('%.15g', {of_group}))"
    elif fn in (Fn.MIN, Fn.MAX):
        kept, of_cell = f"{fn}If({value.number}, {value.numeric}) AS s", "s"
        of_group = f"{fn}If(s, m > 0)"
    else:
        level = _level(fn)
        kept = f"quantileExactStateIf({level})({value.number}, {value.numeric}) AS s"
        of_cell, of_group = _STATE, f"quantileExactMerge({level})(s)"
    return Figure((numbers, kept), _number("m", of_cell), _number("sum(m)", of_group))


def _number(count: str, value: str) -> str:
    """None of no numbers, and none beyond the range of doubles. 0 has no sign: of 0 and -0 either may come first."""
    return f"if({count} = 0 OR NOT isFinite({value}), NULL, {value} + 0.)"


def _level(fn: Fn) -> str:
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
