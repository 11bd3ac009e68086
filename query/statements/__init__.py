"""Reads of the store as frozen values: conditions on subjects, and the statements that contain them.

Nothing here knows SQL; `query.sql` is the only place that writes it. Every statement requires a project.

    predicates                         the meaning of a filter: a predicate on a subject
    search, trace, error_groups        statements that read rows
    aggregate, figures, heatmap, service_map, compare, attributes
                                       statements that count them
    window                             half-open time windows
"""

from query.statements.aggregate import Aggregation, Fn, GroupKey, GroupRanking, GroupSeries, SpanCount, TimeBuckets
from query.statements.attributes import (
    AttributeKeys,
    DistinctAttributeSets,
    NonFiniteCounts,
    PresenceCounts,
    RollupKeys,
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
from query.statements.figures import Figure, FigureRanking, FigureSeries, RankedFigures
from query.statements.heatmap import Heatmap, LogRows
from query.statements.predicates import (
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
)
from query.statements.search import (
    EndedRows,
    ExistingAttributeKeys,
    Listing,
    Position,
    RankedSpans,
    SpanRanking,
)
from query.statements.service_map import ServiceCalls, ServiceFigures
from query.statements.trace import SpanRecords, TraceAttributes, TraceBounds, TraceRows, TraceSize, TraceSpansBrief
from query.statements.traces import TraceRanges, TraceRanking, TraceSummaries

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
    "TraceAttributes",
    "TraceBounds",
    "TraceRanges",
    "TraceRanking",
    "TraceRows",
    "TraceSize",
    "TraceSpansBrief",
    "TraceSummaries",
]
