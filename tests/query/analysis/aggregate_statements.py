"""The statements of aggregates, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query.analysis.attributes import split_buckets
from query.analysis.time_buckets import time_buckets
from query.fields import SPANS
from query.request.filters import Filter, Op, condition, resolve_key
from query.statements import Aggregation, Fn, GroupRanking, GroupSeries, SpanCount, Statement, Subject
from query.statements.window import Window
from query.timestamps import HOUR

_NOW: Final = 1_795_188_000_123_456_789
_WINDOW: Final = Window(_NOW - HOUR, _NOW)
_KNOWN: Final = frozenset({"http.route", "http.status_code"})


def aggregation(fn: Fn, key: str | None = None, group_by: str | None = None, **parts: Any) -> Aggregation:
    """Over the spans of an hour in steps of five minutes."""
    return Aggregation(
        buckets=time_buckets(parts.get("window", _WINDOW), 5), limit=10, **_of_groups(fn, key, group_by, parts)
    )


def _of_groups(fn: Fn, key: str | None, group_by: str | None, parts: dict[str, Any]) -> dict[str, Any]:
    made = {"project_id": 7, "window": _WINDOW, "conditions": (), "fn": fn}
    return made | {"subject": _subject(key), "group_by": _subject(group_by)} | parts


def _subject(key: str | None) -> Subject | None:
    return None if key is None else resolve_key(key, SPANS)


def _slow() -> dict[str, Any]:
    issues = Issues()
    test = condition(Filter("http.status_code", Op.GTE, ("500",)), SPANS, _NOW, "p", issues)
    issues.raise_if_any()
    return {"conditions": (test,), "existing_attributes": _KNOWN}


_BY_ROUTE: Final = _of_groups(Fn.P99, "http.status_code", "http.route", _slow())
_BY_KIND: Final = _of_groups(Fn.AVG, "durationMs", "kind", {})
_ALL: Final = _of_groups(Fn.COUNT_UNIQUE, "traceId", None, {})
_PARTS: Final = split_buckets(_WINDOW)

SHAPES: Final[dict[str, Statement]] = {
    "aggregate_count": aggregation(Fn.COUNT),
    "aggregate_count_of_field": aggregation(Fn.COUNT, "release", "serviceName"),
    "aggregate_count_unique": aggregation(Fn.COUNT_UNIQUE, "parentSpanId", "statusCode"),
    "aggregate_count_unique_of_attribute": aggregation(Fn.COUNT_UNIQUE, "user.id", "durationMs"),
    "aggregate_sum": aggregation(Fn.SUM, "durationMs", "startTime"),
    "aggregate_sum_of_attribute": aggregation(Fn.SUM, "http.status_code", "traceId", **_slow()),
    "aggregate_avg": aggregation(Fn.AVG, "durationMs", "release"),
    "aggregate_avg_of_attribute": aggregation(Fn.AVG, "size", "scope.name"),
    "aggregate_min": aggregation(Fn.MIN, "durationMs", "parentSpanId"),
    "aggregate_max_of_attribute": aggregation(Fn.MAX, "size", "resource.host"),
    "aggregate_p999": aggregation(Fn.P999, "durationMs", "name"),
    "aggregate_p50_of_text": aggregation(Fn.P50, "name", "environment"),
    "aggregate_p99_of_attribute": aggregation(Fn.P99, "http.status_code", "http.route", **_slow()),
    "group_ranking": GroupRanking(limit=10, **_BY_ROUTE),
    "group_ranking_of_durations": GroupRanking(limit=10, **_BY_KIND),
    "group_series": GroupSeries(buckets=time_buckets(_WINDOW, 5), groups=("/a", "", None), **_BY_ROUTE),
    "group_series_of_durations": GroupSeries(buckets=time_buckets(_WINDOW, 5), groups=(2, 3), **_BY_KIND),
    "group_series_of_ids": GroupSeries(
        buckets=time_buckets(_WINDOW, 5), groups=(bytes(8),), **(_ALL | {"group_by": SPANS.fields["parentSpanId"]})
    ),
    "group_series_of_all": GroupSeries(buckets=time_buckets(_WINDOW, 5), groups=(), **_ALL),
    "span_count": SpanCount(project_id=7, whole_buckets=_PARTS[0], partial_buckets=_PARTS[1]),
    "span_count_within_a_bucket": SpanCount(
        project_id=7, whole_buckets=None, partial_buckets=(Window(_NOW - 1, _NOW),)
    ),
}
