"""Reads of the store as frozen values: conditions on subjects, and the statements that contain them.

This package has no SQL; only `query.sql` writes SQL. Every statement requires a project.

    predicates                         the meaning of a filter: a predicate on a subject
    search, trace, error_groups        statements that read rows
    aggregate, figures, heatmap, service_map, compare, attributes
                                       statements that count rows
    window                             half-open time windows
"""

from query.statements.aggregates import (
    Aggregation,
    Figure,
    FigureRanking,
    FigureSeries,
    Fn,
    GroupKey,
    GroupRanking,
    GroupSeries,
    Heatmap,
    LogRows,
    RankedFigures,
    ServiceCalls,
    ServiceFigures,
    SpanCount,
    TimeBuckets,
)
from query.statements.compare import (
    Cohort,
    CohortSize,
    ConditionCounts,
    ExcludedSpans,
    FieldPairs,
    FrequentPairs,
    KeyCardinality,
    KeyCounts,
    KeyPairs,
    ListPairs,
    PairsByHash,
    PairSelection,
)
from query.statements.error_groups import (
    ErrorFacets,
    ErrorGroupType,
    ErrorOrder,
    ErrorRanking,
    ErrorRecord,
    ErrorSeries,
    ErrorSparklines,
    ErrorTraces,
    FirstOccurrences,
    LatestOccurrences,
)
from query.statements.predicates import (
    BUCKET,
    DEFAULT_HOURS,
    MAX_HOURS,
    Attribute,
    CompareOp,
    Condition,
    Exists,
    IdIn,
    IntegerIn,
    IntegerRange,
    MatchPosition,
    NumberComparison,
    Predicate,
    RegexMatches,
    Subject,
    TextIn,
    TextMatches,
    TimeRange,
    Window,
    slices,
    slices_oldest_first,
    subjects_of,
)
from query.statements.search import (
    AttributeKeys,
    DistinctAttributeSets,
    EndedRows,
    ExistingAttributeKeys,
    Listing,
    NonFiniteCounts,
    Position,
    PresenceCounts,
    RankedSpans,
    RollupKeys,
    SpanRanking,
    SpanRecords,
    TraceAttributes,
    TraceBounds,
    TracePosition,
    TraceRanges,
    TraceRanking,
    TraceRows,
    TraceSize,
    TraceSpansBrief,
    TraceSummaries,
)

Statement = (
    Listing
    | EndedRows
    | SpanRanking
    | RankedSpans
    | ExistingAttributeKeys
    | TraceBounds
    | TraceSpansBrief
    | TraceRows
    | TraceSize
    | TraceRanking
    | TraceSummaries
    | TraceRanges
    | TraceAttributes
    | SpanRecords
    | ErrorRanking
    | ErrorFacets
    | ErrorTraces
    | LatestOccurrences
    | ErrorSeries
    | ErrorSparklines
    | FirstOccurrences
    | ErrorGroupType
    | ErrorRecord
    | AttributeKeys
    | DistinctAttributeSets
    | NonFiniteCounts
    | RollupKeys
    | PresenceCounts
    | SpanCount
    | Aggregation
    | GroupRanking
    | GroupSeries
    | RankedFigures
    | FigureRanking
    | FigureSeries
    | Heatmap
    | ServiceCalls
    | ServiceFigures
    | CohortSize
    | FieldPairs
    | ListPairs
    | KeyPairs
    | KeyCardinality
    | KeyCounts
    | ConditionCounts
)

__all__ = [
    "BUCKET",
    "DEFAULT_HOURS",
    "MAX_HOURS",
    "Aggregation",
    "Attribute",
    "AttributeKeys",
    "Cohort",
    "CohortSize",
    "CompareOp",
    "Condition",
    "ConditionCounts",
    "DistinctAttributeSets",
    "EndedRows",
    "ErrorFacets",
    "ErrorGroupType",
    "ErrorOrder",
    "ErrorRanking",
    "ErrorRecord",
    "ErrorSeries",
    "ErrorSparklines",
    "ErrorTraces",
    "ExcludedSpans",
    "ExistingAttributeKeys",
    "Exists",
    "FieldPairs",
    "Figure",
    "FigureRanking",
    "FigureSeries",
    "FirstOccurrences",
    "Fn",
    "FrequentPairs",
    "GroupKey",
    "GroupRanking",
    "GroupSeries",
    "Heatmap",
    "IdIn",
    "IntegerIn",
    "IntegerRange",
    "KeyCardinality",
    "KeyCounts",
    "KeyPairs",
    "LatestOccurrences",
    "ListPairs",
    "Listing",
    "LogRows",
    "MatchPosition",
    "NonFiniteCounts",
    "NumberComparison",
    "PairSelection",
    "PairsByHash",
    "Position",
    "Predicate",
    "PresenceCounts",
    "RankedFigures",
    "RankedSpans",
    "RegexMatches",
    "RollupKeys",
    "ServiceCalls",
    "ServiceFigures",
    "SpanCount",
    "SpanRanking",
    "SpanRecords",
    "Statement",
    "Subject",
    "TextIn",
    "TextMatches",
    "TimeBuckets",
    "TimeRange",
    "TraceAttributes",
    "TraceBounds",
    "TracePosition",
    "TraceRanges",
    "TraceRanking",
    "TraceRows",
    "TraceSize",
    "TraceSpansBrief",
    "TraceSummaries",
    "Window",
    "slices",
    "slices_oldest_first",
    "subjects_of",
]
