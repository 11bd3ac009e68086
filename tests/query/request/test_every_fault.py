"""A request with several wrong filters is answered with a finding for each, of whichever kind, in its place."""

import json
from typing import Any

import pytest

from chassis.http.faulty_items import replace_faulty_items
from tests.query.conftest import Explore, issues

WRONG: list[dict[str, Any]] = [
    {"key": "kind", "op": "eq", "value": "foo"},
    {"key": "a", "op": "like", "value": "b"},
    {"key": "durationMs", "op": "gt", "value": "long"},
    {"op": "exists"},
    {"any": [{"key": "statusCode", "op": "eq", "value": "BAD"}, {"key": "b", "op": "eq"}]},
    {"any": [{"key": "c", "op": "eq", "value": {}}, {"key": "statusCode", "op": "eq", "value": "BAD"}]},
    {"key": "k" * 257, "op": "exists"},
    {"key": "startTime", "op": "lt", "value": "2026-02-30T00:00:00Z"},
]
FAULTS = [
    ("[0].value", "not_allowed"),
    ("[1].op", "not_allowed"),
    ("[2].value", "type"),
    ("[3].key", "missing"),
    ("[4].any[0].value", "not_allowed"),
    ("[4].any[1].value", "missing"),
    ("[5].any[0].value", "type"),  # what a filter of the wrong types says besides is not checked
    ("[6].key", "length"),
    ("[7].value", "format"),
]


def under(path: str) -> list[tuple[str, str]]:
    return [(path + part, code) for part, code in FAULTS]


async def test_in_json_of_a_query_string(explore: Explore) -> None:
    for path, query in {"/spans": {"hours": "x"}, "/traces": {}, "/services/map": {}, "/spans/live": {}}.items():
        other = [("query.hours", "type")] if query else []
        found = issues(await explore.get(path, filters=json.dumps(WRONG), **query))
        assert sorted(found) == sorted([*under("query.filters"), *other]), path


async def test_in_text(explore: Explore) -> None:
    text = 'kind:foo word durationMs:>long -a:>1 (statusCode:BAD or b:x) startTime:<"2026-02-30 00:00"'
    assert issues(await explore.get("/spans", filters=text, limit="0")) == [
        *(("query.filters", "syntax"), ("query.filters", "syntax"), ("query.limit", "too_small")),
        *(("query.filters[0].value", "not_allowed"), ("query.filters[1].value", "type")),
        *(("query.filters[3].any[0].value", "not_allowed"), ("query.filters[4].value", "format")),
    ]


async def test_where_no_attribute_is(explore: Explore) -> None:
    """The filter in the place of a faulty one is no fault."""
    wrong = [{"op": "eq", "value": "x"}, {"key": "a", "op": "exists"}]
    assert sorted(issues(await explore.get("/errors", filters=json.dumps(wrong)))) == [
        ("query.filters[0].key", "missing"),
        ("query.filters[1].key", "not_allowed"),
    ]


SIDES: dict[str, Any] = {"spike": {"from": "now-1h", "to": "now"}, "baseline": {"from": "now-2h", "to": "now"}}
BODIES: dict[str, dict[str, Any]] = {
    "aggregate": {"fn": "count"},
    "figures": {"figures": [{"fn": "count"}]},
    "heatmap": {},
    "compare": SIDES,
}


async def test_in_bodies(explore: Explore) -> None:
    for name, body in BODIES.items():
        found = issues(await explore.post(f"/spans/{name}", body | {"filters": WRONG, "hours": 0, "limit": 0}))
        assert set(under("body.filters")) == {issue for issue in found if issue[0].startswith("body.filters")}, name
        assert len(found) > len(FAULTS), name
    of_logs = [each for each in WRONG if each in (WRONG[1], WRONG[3], WRONG[6])]  # other fields
    assert issues(await explore.post("/logs/aggregate", {"filters": of_logs})) == [
        *(("body.filters[0].op", "not_allowed"), ("body.filters[1].key", "missing"), ("body.filters[2].key", "length"))
    ]


async def test_in_bodies_within_bodies(explore: Explore) -> None:
    figures = [{"fn": "count", "filters": WRONG}, {"fn": "middle"}, {"fn": "p95"}, {"fn": "count", "filters": WRONG}]
    assert sorted(issues(await explore.post("/spans/figures", {"figures": figures}))) == sorted(
        [
            *under("body.figures[0].filters"),
            ("body.figures[1].fn", "not_allowed"),
            ("body.figures[2].field", "missing"),
            *under("body.figures[3].filters"),
        ]
    )
    sides = {"spike": SIDES["spike"] | {"to": "soon", "filters": WRONG}}
    sides["baseline"] = SIDES["baseline"] | {"filters": WRONG[:2]}
    assert sorted(issues(await explore.post("/spans/compare", sides | {"filters": WRONG}))) == sorted(
        [
            *under("body.filters"),
            *under("body.spike.filters"),
            *[(path, code) for path, code in under("body.baseline.filters") if path[22] in "01"],
            ("body.spike.to", "format"),
        ]
    )


@pytest.mark.parametrize(
    ("root", "paths", "expected", "left"),
    [
        ({"a": [1, 2, 3]}, ["b.a[1].x", "b.a[2]", "b.c"], {"a": [1, 0, 0]}, ["b.c"]),
        ({"a": [{"x": {"a": [1]}}, 2]}, ["b.a[0].x.a[0].y"], {"a": [{"x": {"a": [0]}}, 2]}, []),
        ({"a": {"0": 1}}, ["b.a[0]", "b.a", "b.x.a[0]"], {"a": {"0": 1}}, ["b.a[0]", "b.a", "b.x.a[0]"]),
        ({"a": [1]}, ["b.a[9]"], {"a": [1]}, ["b.a[9]"]),
        ([1], ["b.a[0]", "b[0]"], [1], ["b.a[0]", "b[0]"]),
    ],
)  # fmt: skip
def test_faulty_items_are_replaced(root: Any, paths: list[str], expected: Any, left: list[str]) -> None:
    assert replace_faulty_items(root, "b", {"a[]": 0, "c": 1}, paths) == left
    assert root == expected


FINGERPRINT = "ab" * 16
WINDOWED = (
    "/spans", "/traces", "/logs", "/errors", f"/errors/{FINGERPRINT}", f"/errors/{FINGERPRINT}/occurrences", "/changes",
    "/attributes", "/attributes/values", "/logs/attributes", "/logs/attributes/values", "/services/map",
)  # fmt: skip


async def test_hours_count_beside_a_time(explore: Explore) -> None:
    days = ["2026-01-01", "2026-01-31"]
    for path in WINDOWED:
        key = {"key": "a"} if path.endswith("/values") else {}
        answer = await explore.get(path, **{"from": "now-3h"}, to="now", hours=2, **key)
        assert issues(answer) == [("query.hours", "range")], path
        answer = await explore.get(path, **{"from": "2026-01-01T00:00:00Z"}, hours=720, **key)
        shown = answer.json.get("range", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-31T00:00:00Z"})
        # An error that was never seen has no range.
        assert answer.status == 404 or [shown["from"][:10], shown["to"][:10]] == days, path
    for path in ("/spans/aggregate", "/spans/figures", "/spans/heatmap", "/logs/aggregate"):
        given = {} if path.startswith("/logs") else BODIES[path.rpartition("/")[2]]
        answer = await explore.post(path, given | {"from": "now-3h", "to": "now", "hours": 2})
        assert issues(answer) == [("body.hours", "range")], path
        answer = await explore.post(path, given | {"from": "2026-01-01T00:00:00Z", "hours": 720})
        assert [answer.json["range"][end][:10] for end in ("from", "to")] == days, path
