"""Statements of a comparison, and the cohorts that they are about.

No answer of theirs tells of attributes that are where `known` does not look, but CohortSize: it comes first.
"""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.predicates import Condition, Subject
from query.statements.window import Window


@dataclass(frozen=True, slots=True)
class Cohort:
    """The spans in any of `windows` (which do not overlap, and are not none) that meet all conditions; of them those
    whose hash of trace, span, batch and row is divisible by `one_in`.
    """

    windows: tuple[Window, ...]
    conditions: tuple[Condition, ...] = ()
    one_in: int = 1

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a cohort needs a window")


@dataclass(frozen=True, slots=True)
class FrequentPairs:
    """Pairs of key and value that at least `spans` spans have, and whose value has a length that a filter may name."""

    min_spans: int


@dataclass(frozen=True, slots=True)
class PairsByHash:
    """The pairs with these hashes."""

    hashes: tuple[int, ...]


PairSelection = FrequentPairs | PairsByHash


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSize(BaseStatement):
    """How many spans a cohort has, and whether `known` leaves out a place where one of them has an attribute."""

    cohort: Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPairs(BaseStatement):
    """Values of own fields, names and versions of scopes, each with its number of spans; and how many spans have a
    scope's name or version at all.
    """

    cohort: Cohort
    selection: PairSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPairs(BaseStatement):
    """Attributes of resources and scopes, each with its number of spans; and every key of theirs and of spans, with
    how often, in how many values and in which types it occurs.
    """

    cohort: Cohort
    selection: PairSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedStatement(BaseStatement):
    """On values of `sources`: own attributes by key, as they are stored on the span alone, or subjects."""

    cohort: Cohort
    sources: tuple[str, ...] | tuple[Subject, ...]

    def __post_init__(self) -> None:
        BaseStatement.__post_init__(self)
        if not self.sources:
            raise ValueError("values need a source")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPairs(_KeyedStatement):
    """For each source its values that `least` spans have; how often it occurs, and in how many values."""

    min_spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts(_KeyedStatement):
    """How many spans have each of the pairs in `hashes`. `apart`: own attributes are read key by key; the same counts,
    but where Maps are stored split by key, the others are not read.
    """

    hashes: tuple[int, ...]
    read_per_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCardinality(_KeyedStatement):
    """How many values each source has, as far as that matters. `apart`: as above; the rows name sources by place."""

    read_per_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCounts(BaseStatement):
    """How many spans of a cohort meet each of `tests`."""

    cohort: Cohort
    conditions: tuple[Condition, ...]
