"""Statements of a comparison, and the cohorts that they read.

Only CohortSize, which runs first, detects attributes in locations that `existing_attributes` leaves out.
"""

from dataclasses import dataclass

from query.statements.predicates import BaseStatement, Condition, Subject, Window


@dataclass(frozen=True, slots=True)
class ExcludedSpans:
    """The spans in `window` that meet all conditions. Raises ValueError without a condition."""

    window: Window
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        if not self.conditions:
            raise ValueError("excluded spans require a condition")


@dataclass(frozen=True, slots=True)
class Cohort:
    """The spans in any of `windows` (which do not overlap) that meet all conditions and are not excluded. Of these,
    only spans whose hash of trace, span, batch and row is divisible by `one_in`. Raises ValueError without a window.
    """

    windows: tuple[Window, ...]
    conditions: tuple[Condition, ...] = ()
    one_in: int = 1
    excluded: ExcludedSpans | None = None

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a cohort requires a window")


@dataclass(frozen=True, slots=True)
class FrequentPairs:
    """Pairs of key and value that at least `min_spans` spans have, and whose value is short enough for a filter."""

    min_spans: int


@dataclass(frozen=True, slots=True)
class PairsByHash:
    """The pairs with these hashes."""

    hashes: tuple[int, ...]


PairSelection = FrequentPairs | PairsByHash


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSize(BaseStatement):
    """The size of a cohort in spans, and whether a span has an attribute in a location that `existing_attributes`
    leaves out.
    """

    cohort: Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPairs(BaseStatement):
    """Values of built-in fields, names and versions of scopes, each with its number of spans; and the number of spans
    that have any scope name or version.
    """

    cohort: Cohort
    selection: PairSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPairs(BaseStatement):
    """Attributes of resources and scopes, each with its number of spans; and every key of resources, scopes and spans,
    with its number of occurrences, its number of distinct values and its types.
    """

    cohort: Cohort
    selection: PairSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedStatement(BaseStatement):
    """A statement on values of `sources`: either keys of the spans' own attributes, or subjects. Raises ValueError
    without a source.
    """

    cohort: Cohort
    sources: tuple[str, ...] | tuple[Subject, ...]

    def __post_init__(self) -> None:
        BaseStatement.__post_init__(self)
        if not self.sources:
            raise ValueError("values require a source")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPairs(_KeyedStatement):
    """For each source: its values that at least `min_spans` spans have, its number of occurrences, and its number of
    distinct values.
    """

    min_spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts(_KeyedStatement):
    """The number of spans that have each of the pairs in `hashes`. `read_per_key`: span attributes are read key by key;
    the counts are the same, but if Maps are stored split by key, other keys are not read.
    """

    hashes: tuple[int, ...]
    read_per_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCardinality(_KeyedStatement):
    """The number of distinct values of each source, up to a limit. `read_per_key`: as in KeyCounts; rows name sources
    by index.
    """

    read_per_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCounts(BaseStatement):
    """The number of spans of a cohort that meet each of `conditions`."""

    cohort: Cohort
    conditions: tuple[Condition, ...]
