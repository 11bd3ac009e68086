"""Conditions on subjects: the meaning of a filter."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from query.fields import Field


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute, by its key in `attributes`; if absent there, the resource's attribute of that key."""

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
    """The value is a number and `value operator bound` holds; false for everything that is not a number."""

    operator: CompareOp
    bound: Fraction


class MatchPosition(StrEnum):
    """Where in the value a text must occur."""

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
    """`predicate` holds for `subject`; negated: it does not hold, also if the subject is absent. Or else one of
    `alternatives`, which have none themselves, holds.
    """

    subject: Subject
    predicate: Predicate
    negated: bool = False
    alternatives: tuple["Condition", ...] = ()

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Its own and those of its alternatives."""
        return (self.subject, *(each.subject for each in self.alternatives))
