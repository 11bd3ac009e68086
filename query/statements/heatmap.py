"""The statement of a heatmap: spans counted by columns of time and rows of a number."""

from dataclasses import dataclass

from query.statements.aggregate import TimeBuckets
from query.statements.base import BaseStatement
from query.statements.predicates import Condition, Subject
from query.statements.window import Window


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows between consecutive `edges`, which ascend: row n has the values from edges[n] to below edges[n + 1]. An edge
    is the power of two with the exponent `lowest_octave` + n / `per_octave`, times `unit`, rounded up by less than the
    height of a row. Integers are edges of integers (nanoseconds), floats of doubles.
    """

    edges: tuple[int, ...] | tuple[float, ...]
    lowest_octave: int
    per_octave: int
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap(BaseStatement):
    """The spans in `window` that meet all conditions and have a number in `subject`, by column and row."""

    window: Window
    conditions: tuple[Condition, ...]
    subject: Subject
    columns: TimeBuckets
    rows: LogRows
