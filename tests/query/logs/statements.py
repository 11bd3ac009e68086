"""The statements on log records that are counted, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query.analysis.attributes import split_buckets
from query.analysis.time_buckets import buckets_of_seconds
from query.fields import LOGS
from query.request.filters import Filter, Op, conditions, resolve_key
from query.statements import (
    Aggregation,
    Attribute,
    DistinctAttributeSets,
    Fn,
    GroupRanking,
    GroupSeries,
    NonFiniteCounts,
    PresenceCounts,
    SpanCount,
    Statement,
)
from query.statements.window import Window
from query.timestamps import HOUR

_NOW: Final = 1_795_188_000_123_456_789
_WINDOW: Final = Window(_NOW - HOUR, _NOW)
_PARTS: Final = split_buckets(_WINDOW)
_BUCKETS: Final = buckets_of_seconds(_WINDOW, 300)
_FILTERS: Final = (Filter("severityNumber", Op.GTE, ("17",)), Filter("http.route", Op.EXISTS))


def _by(key: str | None, **parts: Any) -> dict[str, Any]:
    made = {"project_id": 7, "window": _WINDOW, "conditions": (), "fn": Fn.COUNT, "subject": None, "signal": LOGS}
    return made | {"group_by": None if key is None else resolve_key(key, LOGS)} | parts


_FILTERED: Final = {
    "conditions": conditions(_FILTERS, LOGS, _NOW, "p", Issues()),
    "existing_attributes": frozenset({"http.route", "resource.http.route"}),
}

SHAPES: Final[dict[str, Statement]] = {
    "log_counts": Aggregation(buckets=_BUCKETS, limit=25, **_by("severityNumber")),
    "log_counts_of_attribute": Aggregation(buckets=_BUCKETS, limit=10, **_by("http.route", **_FILTERED)),
    "log_counts_of_body": GroupRanking(limit=10, **_by("body")),
    "log_series": GroupSeries(buckets=_BUCKETS, groups=(9, 17), **_by("severityNumber")),
    "log_series_of_body": GroupSeries(buckets=_BUCKETS, groups=("x", None), **_by("body")),
    "log_count": SpanCount(project_id=7, whole_buckets=_PARTS[0], partial_buckets=_PARTS[1], signal=LOGS),
    "log_carried_lists": DistinctAttributeSets(project_id=7, windows=(_WINDOW,), signal=LOGS),
    "log_not_finite": NonFiniteCounts(project_id=7, windows=(_WINDOW,), signal=LOGS),
    "log_tally": PresenceCounts(
        project_id=7,
        window=_WINDOW,
        present=(LOGS.fields["severityNumber"], LOGS.fields["body"], LOGS.fields["traceId"]),
        numbers=(LOGS.fields["body"], Attribute("size")),
        signal=LOGS,
    ),
}
