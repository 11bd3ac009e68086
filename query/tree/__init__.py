"""What is asked of the store, as frozen values: conditions on subjects, and the statements they stand in.

Nothing here knows SQL; `query.sql` is the one place that writes it. A statement cannot be made without its project.

    conditions                     what a filter means: a test on a subject
    lists, trace, errors           statements that read rows
    aggregate, compare, attributes statements that count them
"""

from query.tree.aggregate import Aggregation, Fn, GroupKey, GroupRanking, GroupSeries, SpanCount, Steps
from query.tree.attributes import AttributeKeys, CarriedLists, NotFinite, RolledUpKeys, Tally
from query.tree.compare import (
    AtLeast,
    Cohort,
    CohortSize,
    ConditionCounts,
    FieldPairs,
    KeyCounts,
    KeyPairs,
    KeyValues,
    ListPairs,
    OneOf,
    Wanted,
)
from query.tree.conditions import (
    Attribute,
    Compares,
    Condition,
    Exists,
    HasText,
    IntegerRange,
    IsId,
    IsInteger,
    IsText,
    MatchesPattern,
    Order,
    Part,
    Subject,
    Test,
)
from query.tree.errors import (
    ErrorFacets,
    ErrorOrder,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorTraces,
    KnownError,
    LatestErrors,
)
from query.tree.lists import KnownKeys, Listing, Position
from query.tree.trace import SpanRecords, TraceAttributes, TraceBounds, TraceSize, TraceSkeleton

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
    | CarriedLists
    | NotFinite
    | RolledUpKeys
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

__all__ = [
    "Aggregation",
    "AtLeast",
    "Attribute",
    "AttributeKeys",
    "CarriedLists",
    "Cohort",
    "CohortSize",
    "Compares",
    "Condition",
    "ConditionCounts",
    "ErrorFacets",
    "ErrorOrder",
    "ErrorRanking",
    "ErrorRecord",
    "ErrorSeries",
    "ErrorTraces",
    "Exists",
    "FieldPairs",
    "Fn",
    "GroupKey",
    "GroupRanking",
    "GroupSeries",
    "HasText",
    "IntegerRange",
    "IsId",
    "IsInteger",
    "IsText",
    "KeyCounts",
    "KeyPairs",
    "KeyValues",
    "KnownError",
    "KnownKeys",
    "LatestErrors",
    "ListPairs",
    "Listing",
    "MatchesPattern",
    "NotFinite",
    "OneOf",
    "Order",
    "Part",
    "Position",
    "RolledUpKeys",
    "SpanCount",
    "SpanRecords",
    "Statement",
    "Steps",
    "Subject",
    "Tally",
    "Test",
    "TraceAttributes",
    "TraceBounds",
    "TraceSize",
    "TraceSkeleton",
    "Wanted",
]
