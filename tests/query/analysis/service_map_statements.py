"""The statements of service maps, for the golden files of `tests.query.test_sql`."""

from typing import Any, Final

from chassis.http.validation import Issues
from query.fields import SPANS
from query.request.filters import Filter, Op, conditions
from query.statements import ServiceCalls, ServiceFigures, Statement
from query.statements.window import Window
from query.timestamps import HOUR

_NOW: Final = 1_795_188_000_123_456_789
_FILTERS: Final = (Filter("http.status_code", Op.GTE, ("500",)), Filter("environment", Op.EQ, ("prod",)))
_PARTS: Final[dict[str, Any]] = {"project_id": 7, "window": Window(_NOW - HOUR, _NOW), "conditions": (), "one_in": 1}
_FILTERED: Final[dict[str, Any]] = {
    "conditions": conditions(_FILTERS, SPANS, _NOW, "p", Issues()),
    "existing_attributes": frozenset({"http.status_code"}),
    "one_in": 3,
}

SHAPES: Final[dict[str, Statement]] = {
    "service_calls": ServiceCalls(**_PARTS, limit=1_001),
    "service_calls_sampled": ServiceCalls(**_PARTS | _FILTERED, limit=1_001),
    "service_figures": ServiceFigures(**_PARTS, limit=501),
    "service_figures_of_some": ServiceFigures(**_PARTS | _FILTERED, services=("cart", "it's"), limit=2),
}
