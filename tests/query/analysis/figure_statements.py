"""The statements of several figures, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query.analysis.time_buckets import buckets_of_seconds
from query.fields import SPANS
from query.request.filters import Filter, Op, conditions, resolve_key
from query.statements import Condition, Figure, FigureRanking, FigureSeries, Fn, RankedFigures, Statement
from query.statements.window import Window
from query.timestamps import HOUR

_NOW: Final = 1_795_188_000_123_456_789
_WINDOW: Final = Window(_NOW - HOUR, _NOW)


def _where(key: str, op: Op, value: str) -> tuple[Condition, ...]:
    issues = Issues()
    found = conditions((Filter(key, op, (value,)),), SPANS, _NOW, "p", issues)
    issues.raise_if_any()
    return found


_FAILED: Final = _where("statusCode", Op.EQ, "ERROR")
_SLOW: Final = _where("http.status_code", Op.GTE, "500")
_DURATION: Final = SPANS.fields["durationMs"]
_SIZE: Final = resolve_key("size", SPANS)
_FIGURES: Final = (
    Figure(Fn.COUNT, None),
    Figure(Fn.COUNT, None, _FAILED),
    Figure(Fn.AVG, _DURATION, _FAILED),
    Figure(Fn.P50, _DURATION),
    Figure(Fn.P99, _DURATION),
    Figure(Fn.SUM, _SIZE, _SLOW),
)
_OTHERS: Final = (
    Figure(Fn.MAX, _DURATION, _FAILED),
    Figure(Fn.COUNT, _SIZE, _FAILED),
    Figure(Fn.COUNT_UNIQUE, resolve_key("user.id", SPANS), _SLOW),
    Figure(Fn.P95, _SIZE, _SLOW),
    Figure(Fn.P999, _SIZE, _SLOW),
    Figure(Fn.MIN, resolve_key("name", SPANS)),
)
_KEYS: Final = tuple(resolve_key(each, SPANS) for each in ("serviceName", "http.route", "kind"))
_IDS: Final = tuple(resolve_key(each, SPANS) for each in ("parentSpanId", "durationMs"))
_KNOWN: Final = frozenset({"http.route", "http.status_code", "size"})


def _parts(figures: tuple[Figure, ...], keys: tuple[str, ...] | Any, **parts: Any) -> dict[str, Any]:
    made = {"project_id": 7, "window": _WINDOW, "conditions": (), "figures": figures, "group_by": keys}
    return made | parts


_BUCKETS: Final = buckets_of_seconds(_WINDOW, 15)

SHAPES: Final[dict[str, Statement]] = {
    "figures": RankedFigures(buckets=_BUCKETS, rank_by=1, limit=10, **_parts(_FIGURES, _KEYS)),
    "figures_of_all": RankedFigures(buckets=_BUCKETS, rank_by=0, limit=1, **_parts(_OTHERS, ())),
    "figures_rechecked": RankedFigures(
        buckets=_BUCKETS,
        rank_by=0,
        limit=10,
        **_parts(_OTHERS, _KEYS[1:2], existing_attributes=_KNOWN, conditions=_SLOW),
    ),
    "figure_ranking": FigureRanking(rank_by=5, limit=10, **_parts(_FIGURES, _KEYS[:2])),
    "figure_ranking_of_all": FigureRanking(rank_by=0, limit=1, **_parts(_OTHERS, ())),
    "figure_series": FigureSeries(
        buckets=_BUCKETS,
        groups=(("cart", "/a", 2), ("", None, 3)),
        **_parts(_FIGURES, _KEYS, existing_attributes=_KNOWN),
    ),
    "figure_series_of_ids": FigureSeries(
        buckets=_BUCKETS, groups=((bytes(8), 5),), **_parts((Figure(Fn.COUNT, None),), _IDS)
    ),
    "figure_series_of_one_key": FigureSeries(
        buckets=_BUCKETS, groups=(("cart",),), **_parts((Figure(Fn.COUNT, None),), _KEYS[:1])
    ),
    "figure_series_of_all": FigureSeries(buckets=_BUCKETS, groups=(), **_parts(_FIGURES, ())),
}
