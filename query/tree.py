"""What is asked of the store, as frozen values: conditions on subjects, and the statements they stand in.

Nothing here knows SQL; `query.sql` is the one place that writes it. A statement cannot be made without its project.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from query.asking.window import Window
from query.fields import Field, Signal


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute by the key it has in `attributes`; absent there, the resource's attribute of that key."""

    key: str


Subject = Field | Attribute


@dataclass(frozen=True, slots=True)
class Exists:
    """The subject has a value."""


@dataclass(frozen=True, slots=True)
class IsText:
    """The canonical text is one of `texts`, or the value is a number and its canonical text is one of `numerals`."""

    texts: tuple[str, ...]
    numerals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IsInteger:
    """The integer behind the subject is one of `values`."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsId:
    """The id is one of `ids`, each of the subject's size in bytes."""

    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """The integer behind the subject is at least `low` and below `high`."""

    low: int | None = None
    high: int | None = None


class Order(StrEnum):
    """How a number compares with the bound."""

    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Compares:
    """The value is a number and stands in `order` to `bound`; False for everything that is not a number."""

    order: Order
    bound: Fraction


class Part(StrEnum):
    """Where in the text a piece is looked for."""

    ANYWHERE = "anywhere"
    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class HasText:
    """The canonical text contains, starts or ends with `piece`, byte for byte."""

    part: Part
    piece: str


@dataclass(frozen=True, slots=True)
class MatchesPattern:
    """The RE2 `pattern` matches somewhere in the canonical text."""

    pattern: str


Test = Exists | IsText | IsInteger | IsId | IntegerRange | Compares | HasText | MatchesPattern


@dataclass(frozen=True, slots=True)
class Condition:
    """`test` holds for `subject`; negated: it does not, which includes that the subject is absent."""

    subject: Subject
    test: Test
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a list ordered by time, trace, span, batch and row, all descending: the row it names was the last
    shown.
    """

    time_ns: int
    trace_id: bytes
    span_id: bytes
    batch_id: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    project_id: int

    def __post_init__(self) -> None:
        if self.project_id <= 0:
            raise ValueError("a statement needs a project")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(_Statement):
    """Rows of one signal in `window`, newest first, after `after`, at most `limit`."""

    signal: Signal
    window: Window
    conditions: tuple[Condition, ...] = ()
    trace_id: bytes | None = None
    after: Position | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBounds(_Statement):
    """Where a trace lies in time, per signal."""

    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSkeleton(_Statement):
    """The spans of a trace without their attributes, resends once, earliest first, at most `limit`."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSize(_Statement):
    """How many spans a trace has, resends counted once."""

    trace_id: bytes
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAttributes(_Statement):
    """The attributes of the rows `places` (batch, row) of a trace; `window` holds their start times."""

    trace_id: bytes
    window: Window
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecords(_Statement):
    """The whole stored rows of one span id, resends once, earliest first, at most `limit`."""

    trace_id: bytes
    span_id: bytes
    window: Window
    limit: int


Statement = Listing | TraceBounds | TraceSkeleton | TraceSize | TraceAttributes | SpanRecords
