"""The statements of what is analysed, one of each shape, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query import statements as q
from query.analysis.attributes import split_buckets
from query.analysis.heatmap import log_rows
from query.analysis.windows import buckets_of_seconds, time_buckets
from query.request.filters import conditions, parse_filters, resolve_key
from query.rows import LOGS, SPANS, TelemetryTable
from query.statements import Fn, Statement, Window
from query.values import HOUR, MINUTE

NOW: Final = 1_795_188_000_123_456_789
WINDOW: Final = Window(NOW - HOUR, NOW)
PARTS: Final[dict[str, Any]] = {"project_id": 7, "window": WINDOW, "conditions": ()}
WHOLE, PARTIAL = split_buckets(WINDOW)


def where(written: str, table: TelemetryTable = SPANS) -> tuple[q.Condition, ...]:
    issues = Issues()
    found = conditions(parse_filters(written, "p", issues), table, NOW, "p", issues)
    issues.raise_if_any()
    return found


def subject(key: str | None, table: TelemetryTable = SPANS) -> q.Subject | None:
    return None if key is None else resolve_key(key, table)


# --- aggregates of spans ----------------------------------------------------------------------------------------------

STEPS: Final = time_buckets(WINDOW, 5)


def of_groups(fn: Fn, key: str | None, group_by: str | None, **parts: Any) -> dict[str, Any]:
    return PARTS | {"fn": fn, "subject": subject(key), "group_by": subject(group_by)} | parts


def aggregation(fn: Fn, key: str | None = None, group_by: str | None = None, **parts: Any) -> q.Aggregation:
    """Over the spans of an hour in steps of five minutes."""
    return q.Aggregation(buckets=STEPS, limit=10, **of_groups(fn, key, group_by, **parts))


SLOW: Final[dict[str, Any]] = {
    "conditions": where("http.status_code:>=500"),
    "existing_attributes": frozenset({"http.route", "http.status_code"}),
}
BY_ROUTE: Final = of_groups(Fn.P99, "http.status_code", "http.route", **SLOW)
BY_KIND: Final = of_groups(Fn.AVG, "durationMs", "kind")
OF_ALL: Final = of_groups(Fn.COUNT_UNIQUE, "traceId", None)
BY_PARENT: Final = of_groups(Fn.COUNT_UNIQUE, "traceId", "parentSpanId")

AGGREGATES: Final[dict[str, Statement]] = {
    "aggregate_count": aggregation(Fn.COUNT),
    "aggregate_count_of_field": aggregation(Fn.COUNT, "release", "serviceName"),
    "aggregate_count_unique": aggregation(Fn.COUNT_UNIQUE, "parentSpanId", "statusCode"),
    "aggregate_count_unique_of_attribute": aggregation(Fn.COUNT_UNIQUE, "user.id", "durationMs"),
    "aggregate_sum": aggregation(Fn.SUM, "durationMs", "startTime"),
    "aggregate_sum_of_attribute": aggregation(Fn.SUM, "http.status_code", "traceId", **SLOW),
    "aggregate_avg": aggregation(Fn.AVG, "durationMs", "release"),
    "aggregate_avg_of_attribute": aggregation(Fn.AVG, "size", "scope.name"),
    "aggregate_min": aggregation(Fn.MIN, "durationMs", "parentSpanId"),
    "aggregate_max_of_attribute": aggregation(Fn.MAX, "size", "resource.host"),
    "aggregate_p999": aggregation(Fn.P999, "durationMs", "name"),
    "aggregate_p50_of_text": aggregation(Fn.P50, "name", "environment"),
    "aggregate_p99_of_attribute": aggregation(Fn.P99, "http.status_code", "http.route", **SLOW),
    "group_ranking": q.GroupRanking(limit=10, **BY_ROUTE),
    "group_ranking_of_durations": q.GroupRanking(limit=10, **BY_KIND),
    "group_series": q.GroupSeries(buckets=STEPS, groups=("/a", "", None), **BY_ROUTE),
    "group_series_of_durations": q.GroupSeries(buckets=STEPS, groups=(2, 3), **BY_KIND),
    "group_series_of_ids": q.GroupSeries(buckets=STEPS, groups=(bytes(8),), **BY_PARENT),
    "group_series_of_all": q.GroupSeries(buckets=STEPS, groups=(), **OF_ALL),
    "span_count": q.SpanCount(project_id=7, whole_buckets=WHOLE, partial_buckets=PARTIAL),
    "span_count_within_a_bucket": q.SpanCount(
        project_id=7, whole_buckets=None, partial_buckets=(Window(NOW - 1, NOW),)
    ),
}

# --- several figures --------------------------------------------------------------------------------------------------

QUARTERS: Final = buckets_of_seconds(WINDOW, 15)  # of a minute
FAILED: Final = where("statusCode:ERROR")
DURATION, SIZE = SPANS.fields["durationMs"], resolve_key("size", SPANS)
SOME: Final = (
    *(q.Figure(Fn.COUNT, None), q.Figure(Fn.COUNT, None, FAILED), q.Figure(Fn.AVG, DURATION, FAILED)),
    *(q.Figure(Fn.P50, DURATION), q.Figure(Fn.P99, DURATION), q.Figure(Fn.SUM, SIZE, SLOW["conditions"])),
)
OTHERS: Final = (
    *(q.Figure(Fn.MAX, DURATION, FAILED), q.Figure(Fn.COUNT, SIZE, FAILED)),
    q.Figure(Fn.COUNT_UNIQUE, resolve_key("user.id", SPANS), SLOW["conditions"]),
    *(q.Figure(fn, SIZE, SLOW["conditions"]) for fn in (Fn.P95, Fn.P999)),
    q.Figure(Fn.MIN, resolve_key("name", SPANS)),
)
KNOWN: Final = frozenset({"http.route", "http.status_code", "size"})


def of_figures(figures: tuple[q.Figure, ...], *keys: str, **parts: Any) -> dict[str, Any]:
    return PARTS | {"figures": figures, "group_by": tuple(resolve_key(key, SPANS) for key in keys)} | parts


KEYS: Final = ("serviceName", "http.route", "kind")
RECHECKED: Final = of_figures(OTHERS, KEYS[1], existing_attributes=KNOWN, conditions=SLOW["conditions"])
BY_KEYS: Final = of_figures(SOME, *KEYS, existing_attributes=KNOWN)
COUNTED: Final = (q.Figure(Fn.COUNT, None),)
BY_IDS: Final = of_figures(COUNTED, "parentSpanId", "durationMs")

FIGURES: Final[dict[str, Statement]] = {
    "figures": q.RankedFigures(buckets=QUARTERS, rank_by=1, limit=10, **of_figures(SOME, *KEYS)),
    "figures_of_all": q.RankedFigures(buckets=QUARTERS, rank_by=0, limit=1, **of_figures(OTHERS)),
    "figures_rechecked": q.RankedFigures(buckets=QUARTERS, rank_by=0, limit=10, **RECHECKED),
    "figure_ranking": q.FigureRanking(rank_by=5, limit=10, **of_figures(SOME, *KEYS[:2])),
    "figure_ranking_of_all": q.FigureRanking(rank_by=0, limit=1, **of_figures(OTHERS)),
    "figure_series": q.FigureSeries(buckets=QUARTERS, groups=(("cart", "/a", 2), ("", None, 3)), **BY_KEYS),
    "figure_series_of_ids": q.FigureSeries(buckets=QUARTERS, groups=((bytes(8), 5),), **BY_IDS),
    "figure_series_of_one_key": q.FigureSeries(
        buckets=QUARTERS, groups=(("cart",),), **of_figures(COUNTED, "serviceName")
    ),
    "figure_series_of_all": q.FigureSeries(buckets=QUARTERS, groups=(), **of_figures(SOME)),
}

# --- heatmaps, service maps -------------------------------------------------------------------------------------------


def heatmap(key: str, **parts: Any) -> q.Heatmap:
    """Over the spans of an hour."""
    values = resolve_key(key, SPANS)
    grid = {"columns": q.TimeBuckets(WINDOW.from_ns, MINUTE), "rows": log_rows(values, 1)}
    return q.Heatmap(**(PARTS | grid | {"subject": values} | parts))


SAMPLED: Final[dict[str, Any]] = PARTS | {
    "conditions": where("http.status_code:>=500 environment:prod"),
    "existing_attributes": frozenset({"http.status_code"}),
    "one_in": 3,
}

MAPS: Final[dict[str, Statement]] = {
    "heatmap": heatmap("durationMs"),
    "heatmap_of_attribute": heatmap(
        "size", conditions=SLOW["conditions"], existing_attributes=frozenset({"http.status_code", "size"})
    ),
    "heatmap_of_text": heatmap("name"),
    "service_calls": q.ServiceCalls(**PARTS, one_in=1, limit=1_001),
    "service_calls_sampled": q.ServiceCalls(**SAMPLED, limit=1_001),
    "service_figures": q.ServiceFigures(**PARTS, one_in=1, limit=501),
    "service_figures_of_some": q.ServiceFigures(**SAMPLED, services=("cart", "it's"), limit=2),
}

# --- comparisons ------------------------------------------------------------------------------------------------------

SERVER: Final = q.Condition(SPANS.fields["kind"], q.TextIn(("SERVER",)))
OF_K: Final = q.Condition(q.Attribute("k"), q.TextIn(("x",)))
SPIKE: Final = q.Cohort((WINDOW,), (SERVER,))
SELECTED: Final = q.Cohort((Window(NOW - 3 * HOUR, NOW),), excluded=q.ExcludedSpans(WINDOW, (SERVER, OF_K)))
BASELINE: Final = q.Cohort((Window(NOW - 3 * HOUR, NOW - HOUR), Window(NOW, NOW + HOUR)))
SUBJECTS: Final = (SPANS.fields["durationMs"], SPANS.fields["release"], q.Attribute("host"))
QUOTED: Final = ("http.route", "'")
ZERO: Final = q.Condition(q.Attribute("retries"), q.TextIn(("0",), ("-0",)))

COMPARISONS: Final[dict[str, Statement]] = {
    "cohort_size": q.CohortSize(project_id=7, cohort=BASELINE),
    "cohort_size_of_sample": q.CohortSize(project_id=7, cohort=q.Cohort((WINDOW,), one_in=4)),
    "cohort_size_without_spike": q.CohortSize(project_id=7, existing_attributes=frozenset({"k"}), cohort=SELECTED),
    "field_pairs": q.FieldPairs(project_id=7, cohort=SPIKE, selection=q.FrequentPairs(5)),
    "field_pairs_of_baseline": q.FieldPairs(project_id=7, cohort=BASELINE, selection=q.PairsByHash((2**64 - 1, 1))),
    "list_pairs": q.ListPairs(project_id=7, cohort=SPIKE, selection=q.FrequentPairs(5)),
    "list_pairs_of_baseline": q.ListPairs(project_id=7, cohort=BASELINE, selection=q.PairsByHash(())),
    "key_pairs": q.KeyPairs(project_id=7, cohort=SPIKE, sources=QUOTED, min_spans=5),
    "key_pairs_of_subjects": q.KeyPairs(project_id=7, cohort=SPIKE, sources=SUBJECTS, min_spans=5),
    "key_counts": q.KeyCounts(project_id=7, cohort=BASELINE, sources=QUOTED, hashes=(2**64 - 1, 1)),
    "key_counts_apart": q.KeyCounts(project_id=7, cohort=BASELINE, sources=("a", "'"), hashes=(1,), read_per_key=True),
    "key_counts_of_subjects": q.KeyCounts(project_id=7, cohort=BASELINE, sources=SUBJECTS, hashes=(1,)),
    "key_values": q.KeyCardinality(project_id=7, cohort=BASELINE, sources=("http.status_code",)),
    "key_values_apart": q.KeyCardinality(project_id=7, cohort=BASELINE, sources=("a", "'"), read_per_key=True),
    "condition_counts": q.ConditionCounts(project_id=7, cohort=BASELINE, conditions=(ZERO, OF_K)),
}

# --- counts of log records --------------------------------------------------------------------------------------------

FIVES: Final = buckets_of_seconds(WINDOW, 300)


def of_logs(key: str | None, **parts: Any) -> dict[str, Any]:
    return PARTS | {"fn": Fn.COUNT, "subject": None, "signal": LOGS, "group_by": subject(key, LOGS)} | parts


FILTERED: Final = of_logs(
    "http.route",
    conditions=where("severityNumber:>=17 has:http.route", LOGS),
    existing_attributes=frozenset({"http.route", "resource.http.route"}),
)

LOG_COUNTS: Final[dict[str, Statement]] = {
    "log_counts": q.Aggregation(buckets=FIVES, limit=25, **of_logs("severityNumber")),
    "log_counts_of_attribute": q.Aggregation(buckets=FIVES, limit=10, **FILTERED),
    "log_counts_of_body": q.GroupRanking(limit=10, **of_logs("body")),
    "log_series": q.GroupSeries(buckets=FIVES, groups=(9, 17), **of_logs("severityNumber")),
    "log_series_of_body": q.GroupSeries(buckets=FIVES, groups=("x", None), **of_logs("body")),
    "log_count": q.SpanCount(project_id=7, whole_buckets=WHOLE, partial_buckets=PARTIAL, signal=LOGS),
    "log_carried_lists": q.DistinctAttributeSets(project_id=7, windows=(WINDOW,), signal=LOGS),
    "log_not_finite": q.NonFiniteCounts(project_id=7, windows=(WINDOW,), signal=LOGS),
    "log_tally": q.PresenceCounts(
        project_id=7,
        window=WINDOW,
        present=tuple(LOGS.fields[name] for name in ("severityNumber", "body", "traceId")),
        numbers=(LOGS.fields["body"], q.Attribute("size")),
        signal=LOGS,
    ),
}

SHAPES: Final = AGGREGATES | FIGURES | MAPS | COMPARISONS | LOG_COUNTS
