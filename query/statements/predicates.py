"""Conditions on subjects: the meaning of a filter.

`BaseStatement` is the base of every statement. A `Window` is a half-open time window, resolved from `from`, `to` and
`hours`, and divided into slices, newest first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from chassis.http.validation import Issues
from query.rows import Field
from query.values import HOUR, MAX_NANOS, MINUTE, TimestampError, parse_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStatement:
    """`existing_attributes`: names of attributes (`query.sql.predicates.attribute_names`) that may exist. Other
    attributes are not read, but rows that have them are detected (`query.sql.Query.needs_recheck`). None: every
    location is read.

    Raises ValueError without a positive project id.
    """

    project_id: int
    existing_attributes: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.project_id <= 0:
            raise ValueError("a statement requires a project")


DEFAULT_HOURS: Final = 24
MAX_HOURS: Final = 720
BUCKET: Final = 5 * MINUTE  # the tables' sort key begins with the project and this bucket of time
_SLICE_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class Window:
    """Times from `from_ns`, inclusive, to `to_ns`, exclusive; nanoseconds since 1970. Raises ValueError if the window
    is empty or out of range.
    """

    from_ns: int
    to_ns: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_ns < self.to_ns <= MAX_NANOS:
            raise ValueError(f"invalid window: {self.from_ns} to {self.to_ns}")

    def intersect(self, other: "Window") -> "Window | None":
        """The overlap of both windows; None if there is none."""
        from_ns, to_ns = max(self.from_ns, other.from_ns), min(self.to_ns, other.to_ns)
        return Window(from_ns, to_ns) if from_ns < to_ns else None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time range of a request, as written."""

    from_text: str | None
    to_text: str | None
    hours: int | None

    @property
    def is_given(self) -> bool:
        """Whether the request has any time parameter."""
        return (self.from_text, self.to_text, self.hours) != (None, None, None)

    def resolve(self, now_ns: int, where: str, issues: Issues) -> Window | None:
        """The window at `now_ns`; None after recording an issue at `<where>.from`, `<where>.to` or `<where>.hours`.

        `hours` is the length of the window: the window begins at `from`, or without `from` ends at `to`, which defaults
        to now. With both ends it must be the time between them.
        """
        from_ns, to_ns = (
            _parse_bound(text, now_ns, f"{where}.{name}", issues)
            for name, text in (("from", self.from_text), ("to", self.to_text))
        )
        if (self.from_text is None) is not (from_ns is None) or (self.to_text is None) is not (to_ns is None):
            return None
        if from_ns is None:
            to_ns = now_ns if to_ns is None else to_ns
            from_ns = max(0, to_ns - (self.hours or DEFAULT_HOURS) * HOUR)
        elif to_ns is None:
            to_ns = now_ns if self.hours is None else min(MAX_NANOS, from_ns + self.hours * HOUR)
        elif self.hours is not None and to_ns - from_ns != self.hours * HOUR:
            issues.add(f"{where}.hours", "Must be the time between from and to, or be omitted.", "range")
            return None
        if from_ns >= to_ns:
            issues.add(f"{where}.{'from' if self.from_text is not None else 'to'}", "from must be before to.", "range")
        elif to_ns - from_ns > MAX_HOURS * HOUR:
            issues.add(f"{where}.from", f"from and to must be at most {MAX_HOURS} hours apart.", "range")
        else:
            return Window(from_ns, to_ns)
        return None


def slices(window: Window) -> Iterator[Window]:
    """Contiguous slices of `window`, newest first, each longer than the one before.

    A page is filled from the newest slice first, so that a list of 50 rows does not sort the rows of a day. Slices end
    at bucket boundaries, so that no bucket is read twice.
    """
    upper, width = window.to_ns, BUCKET
    while upper > window.from_ns:
        edge = (upper - 1) // BUCKET * BUCKET  # start of the newest bucket
        lower = max(window.from_ns, edge - width)
        yield Window(lower, upper)
        upper, width = lower, width * _SLICE_GROWTH


def slices_oldest_first(window: Window) -> Iterator[Window]:
    """Contiguous slices of `window`, oldest first, each longer than the one before."""
    lower, width = window.from_ns, BUCKET
    while lower < window.to_ns:
        edge = (lower // BUCKET + 1) * BUCKET  # end of the oldest bucket
        upper = min(window.to_ns, edge + width)
        yield Window(lower, upper)
        lower, width = upper, width * _SLICE_GROWTH


def _parse_bound(text: str | None, now_ns: int, path: str, issues: Issues) -> int | None:
    try:
        return None if text is None else parse_timestamp(text, now_ns)
    except TimestampError as error:
        issues.add(path, str(error), "format")
        return None


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute, by its key in `attributes`. If it is absent, the resource's attribute with this key."""

    key: str


Subject = Field | Attribute


@dataclass(frozen=True, slots=True)
class Exists:
    """The subject has a value."""


@dataclass(frozen=True, slots=True)
class TextIn:
    """The canonical text is one of `texts`, or the value is a number whose canonical text is one of `numeric_texts`."""

    texts: tuple[str, ...]
    numeric_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IntegerIn:
    """The stored integer of the subject is one of `values`."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IdIn:
    """The id is one of `ids`, each of the subject's size in bytes."""

    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """The stored integer of the subject is at least `low` and below `high`."""

    low: int | None = None
    high: int | None = None


class CompareOp(StrEnum):
    """Comparison of a number with a bound."""

    GT = ">"
    GTE = ">="
    LT = "<"
    LTE = "<="


@dataclass(frozen=True, slots=True)
class NumberComparison:
    """The value is a number and `value operator bound` holds; false for values that are not numbers."""

    operator: CompareOp
    bound: Fraction


class MatchPosition(StrEnum):
    """The part of the value in which a text must occur."""

    ANYWHERE = "anywhere"
    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The canonical text contains, starts or ends with `text`, byte for byte."""

    position: MatchPosition
    text: str


@dataclass(frozen=True, slots=True)
class RegexMatches:
    """The RE2 `pattern` matches somewhere in the canonical text."""

    pattern: str


Predicate = Exists | TextIn | IntegerIn | IdIn | IntegerRange | NumberComparison | TextMatches | RegexMatches


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds if `predicate` holds for `subject` (negated: if it does not hold, or the subject is absent), or if one of
    the `alternatives` holds. Alternatives have no alternatives themselves.
    """

    subject: Subject
    predicate: Predicate
    negated: bool = False
    alternatives: tuple["Condition", ...] = ()

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects of the condition and of its alternatives."""
        return (self.subject, *(each.subject for each in self.alternatives))


def subjects_of(conditions: Iterable[Condition], *others: Subject | None) -> list[Subject]:
    """The subjects that a statement reads: `others`, except None, and the subjects of the conditions."""
    given = [each for each in others if each is not None]
    return given + [subject for condition in conditions for subject in condition.subjects]
