"""What a dashboard asks for: a panel each, over 24 hours, no two of them alike."""

import json
from typing import Final

from benchmarks.explore.data import END_NS, HOUR_NS
from benchmarks.explore.served import Request

_AGGREGATES: Final[tuple[dict[str, object], ...]] = (
    {"fn": "count", "groupBy": "serviceName"},
    {"fn": "p95", "field": "durationMs", "groupBy": "http.route"},
    {"fn": "count", "groupBy": "http.route", "filters": [{"key": "statusCode", "op": "eq", "value": "ERROR"}]},
    {"fn": "p99", "field": "durationMs", "groupBy": "name"},
)
SINGLE: Final = _AGGREGATES[1]


def panel(number: int) -> Request:
    """One of the panels; its window is 24 hours, and its own."""
    window: dict[str, object] = {"from": str(END_NS - 24 * HOUR_NS + number), "to": str(END_NS + number)}
    kind = number % (len(_AGGREGATES) + 1)
    if kind == len(_AGGREGATES):
        return Request(f"/errors?from={window['from']}&to={window['to']}")
    return aggregate(window | _AGGREGATES[kind])


def single(number: int) -> Request:
    """What somebody else asks meanwhile: one panel, 24 hours, each time another window."""
    return aggregate({"from": str(END_NS - 24 * HOUR_NS - number), "to": str(END_NS - number), **SINGLE})


def aggregate(body: dict[str, object]) -> Request:
    """An aggregate of spans."""
    return Request("/spans/aggregate", json.dumps(body).encode())
