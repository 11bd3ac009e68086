"""Conditions on subjects: what a filter means."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from query.fields import Field


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
