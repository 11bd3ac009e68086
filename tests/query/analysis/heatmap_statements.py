"""The statements of heatmaps, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query.analysis.heatmap import log_rows
from query.fields import SPANS
from query.request.filters import Filter, Op, conditions, resolve_key
from query.statements import Heatmap, Statement, TimeBuckets
from query.statements.window import Window
from query.timestamps import HOUR, MINUTE

_NOW: Final = 1_795_188_000_123_456_789
_WINDOW: Final = Window(_NOW - HOUR, _NOW)


def heatmap(key: str, **parts: Any) -> Heatmap:
    """Over the spans of an hour."""
    subject = resolve_key(key, SPANS)
    columns, rows = TimeBuckets(_WINDOW.from_ns, MINUTE), log_rows(subject, 1)
    made: dict[str, Any] = {"project_id": 7, "window": _WINDOW, "conditions": (), "columns": columns, "rows": rows}
    return Heatmap(**(made | {"subject": subject} | parts))


_SLOW: Final = conditions((Filter("http.status_code", Op.GTE, ("500",)),), SPANS, _NOW, "p", Issues())
_KNOWN: Final = frozenset({"http.status_code", "size"})

SHAPES: Final[dict[str, Statement]] = {
    "heatmap": heatmap("durationMs"),
    "heatmap_of_attribute": heatmap("size", conditions=_SLOW, existing_attributes=_KNOWN),
    "heatmap_of_text": heatmap("name"),
}
