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
    """`known`: names of attributes (`query.sql.values.names`) that there may be; others are not looked for, but their
    appearance is noticed (`query.sql.Query.guarded`). None: every place is looked at.
    """

    project_id: int
    known: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.project_id <= 0:
            raise ValueError("a statement needs a project")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(_Statement):
    """Rows of one signal in `window`, newest first (or oldest), after `after`, at most `limit`."""

    signal: Signal
    window: Window
    conditions: tuple[Condition, ...] = ()
    trace_id: bytes | None = None
    after: Position | None = None
    oldest_first: bool = False
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys(_Statement):
    """Which of `names` the roll-up of attribute keys knows in `window`. What a crash lost of it, it does not know."""

    names: tuple[str, ...]
    window: Window


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys(_Statement):
    """The attribute keys of spans, most carried first, at most `limit`: in the whole buckets `whole`, which the roll-up
    has, and in the parts of buckets `edges`, together one window.
    """

    whole: Window | None
    edges: tuple[Window, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(_Statement):
    """How many spans `window` has; in how many each of `present` is there, and each of `numbers` is a number."""

    window: Window
    present: tuple[Subject, ...] = ()
    numbers: tuple[Subject, ...] = ()


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
class AtLeast:
    """Pairs of key and value that at least `spans` spans have, and whose value has a length that a filter may name."""

    spans: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """The pairs with these hashes."""

    hashes: tuple[int, ...]


Wanted = AtLeast | OneOf


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSize(_Statement):
    """How many spans a cohort has."""

    cohort: Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPairs(_Statement):
    """Values of own fields, and all names and versions of scopes, each with its number of spans."""

    cohort: Cohort
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPairs(_Statement):
    """Attributes of resources and scopes, each with its number of spans; and every key of theirs and of spans, with
    how often, in how many values and in which types it occurs.
    """

    cohort: Cohort
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyed(_Statement):
    """On values of `sources`: own attributes by key, as they are stored on the span alone, or subjects."""

    cohort: Cohort
    sources: tuple[str, ...] | tuple[Subject, ...]

    def __post_init__(self) -> None:
        _Statement.__post_init__(self)
        if not self.sources:
            raise ValueError("values need a source")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPairs(_Keyed):
    """For each source its values that `least` spans have; how often it occurs, and in how many values."""

    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts(_Keyed):
    """How many spans have each of the pairs in `hashes`."""

    hashes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues(_Keyed):
    """How many values each source has, as far as that matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCounts(_Statement):
    """How many spans of a cohort meet each of `tests`."""

    cohort: Cohort
    tests: tuple[Condition, ...]


class ErrorOrder(StrEnum):
    """What groups of errors are ordered by, always descending; of equal ones the greater fingerprint is first."""

    LAST_SEEN = "lastSeen"
    COUNT = "count"
    FIRST_SEEN = "firstSeen"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfErrors(_Statement):
    """About the error occurrences in `window` that meet all conditions."""

    window: Window
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRanking(_OfErrors):
    """The first groups by `order` after `after` (the last one's rank and fingerprint), at most `limit`."""

    order: ErrorOrder
    after: tuple[int, bytes] | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacets(_OfErrors):
    """Of each group its extent, and its releases, environments, services and sources, the most frequent first, at most
    `limit` of each.
    """

    fingerprints: tuple[bytes, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTraces(_OfErrors):
    """In how many traces each group occurred; not `exact`: about, in little memory."""

    fingerprints: tuple[bytes, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestErrors(_OfErrors):
    """Of each group the first occurrence of its list, by its fingerprint and time; at least one `places`."""

    places: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSeries(_OfErrors):
    """How often a group occurred in each interval since 1970 in which it did."""

    fingerprint: bytes
    interval_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError(_Statement):
    """The type of a group, if the project has any occurrence of it, however old."""

    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(_Statement):
    """One occurrence, whole."""

    fingerprint: bytes
    time_ns: int
    batch_id: int
    row: int


class Fn(StrEnum):
    """What an aggregate makes of the spans of a group: specification 4.2, its two undisclosed values, and two more."""

    COUNT = "count"
    COUNT_UNIQUE = "count_unique"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    P50 = "p50"
    P75 = "p75"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    P999 = "p999"

    @property
    def thousandths(self) -> int | None:
        """Of a percentile, how many thousandths of the values are at most as large: 950 for p95."""
        return int(self[1:].ljust(3, "0")) if self[0] == "p" else None


GroupKey = str | int | bytes | None


@dataclass(frozen=True, slots=True)
class Steps:
    """Time cut into steps of `width_ns`, number 0 beginning at `origin_ns`."""

    origin_ns: int
    width_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCount(_Statement):
    """How many spans there are in the whole buckets `whole` and in the parts of buckets `edges`."""

    whole: Window | None
    edges: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfGroups(_Statement):
    """`fn` over `subject` for groups of the spans in `window` that meet all conditions; without `group_by` all of them
    are one group.
    """

    window: Window
    conditions: tuple[Condition, ...]
    fn: Fn
    subject: Subject | None
    group_by: Subject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation(_OfGroups):
    """The first `limit` groups by their figures, each with those of every step that has spans."""

    steps: Steps
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRanking(_OfGroups):
    """The first `limit` groups by their figures."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeries(_OfGroups):
    """Of each of `groups` (none: of all) the figures of every step that has spans."""

    steps: Steps
    groups: tuple[GroupKey, ...]


Statement = (
    Listing
    | KnownKeys
    | TraceBounds
    | TraceSkeleton
    | TraceSize
    | TraceAttributes
    | SpanRecords
    | ErrorRanking
    | ErrorFacets
    | ErrorTraces
    | LatestErrors
    | ErrorSeries
    | KnownError
    | ErrorRecord
    | AttributeKeys
    | Tally
    | SpanCount
    | Aggregation
    | GroupRanking
    | GroupSeries
    | CohortSize
    | FieldPairs
    | ListPairs
    | KeyPairs
    | KeyValues
    | KeyCounts
    | ConditionCounts
)
