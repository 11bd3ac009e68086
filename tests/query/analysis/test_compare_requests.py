"""Which two sides may be compared; bounds of single fields have their test in tests/query/request."""

from typing import Any, Final

from query.analysis.compare import plan
from query.statements import Window
from tests.query.conftest import NOW, SECOND, Explore, issues

SIDE: Final = {"from": "-10m", "to": "now"}
OLDER: Final = {"from": "-1h", "to": "-10m"}
FILTERS: Final = [{"key": "k", "op": "eq", "value": str(n)} for n in range(20)]

ACCEPTED: Final[list[dict[str, Any]]] = [
    {"spike": {"from": NOW // SECOND - 60, "to": NOW / SECOND}},
    {"baseline": {"from": "-1h", "to": "now"}},
    {"spike": {"from": "-1h", "to": "-30m"}, "baseline": {"from": "-1h", "to": "-29m"}},
    {"spike": SIDE | {"filters": FILTERS}, "baseline": SIDE | {"filters": None}, "filters": FILTERS},
    {"spike": SIDE | {"filters": None}, "baseline": SIDE | {"filters": FILTERS[:1]}},
]


async def test_sides_may_overlap_and_not_be_equal(explore: Explore) -> None:
    for body in ACCEPTED:
        answer = await explore.post("/spans/compare", {"spike": SIDE, "baseline": OLDER} | body)
        assert answer.status == 200, (body, answer.text)
    equal = {"spike": SIDE | {"filters": FILTERS[:2]}, "baseline": SIDE | {"filters": FILTERS[1::-1]}}
    assert issues(await explore.post("/spans/compare", equal)) == [("body.baseline", "equal")]


async def test_what_is_no_comparison_is_refused(explore: Explore) -> None:
    for body, code in ((b"{}", "missing"), (b'{"spike": [], "baseline": 1}', "type")):
        found = issues(await explore.post("/spans/compare", body))
        assert found == [("body.spike", code), ("body.baseline", code)], body


def test_the_spike_is_taken_out_of_the_baseline() -> None:
    spike = '{"spike":{"from":10,"to":20},"baseline":{"from":%d,"to":%d}}'
    for baseline, rest in {
        (30, 40): [(30, 40)],
        (20, 40): [(20, 40)],
        (15, 40): [(20, 40)],
        (5, 15): [(5, 10)],
        (5, 40): [(5, 10), (20, 40)],
        (12, 18): [],
    }.items():
        found = plan((spike % baseline).encode(), NOW).baseline_without_spike
        assert [(each.from_ns // SECOND, each.to_ns // SECOND) for each in found] == rest, baseline


def test_relative_windows_share_one_clock() -> None:
    planned = plan(b'{"spike":{"from":"-1m","to":"now"},"baseline":{"from":"-2m","to":"-1m"}}', NOW)
    assert planned.spike == Window(NOW - 60 * SECOND, NOW)
    assert planned.baseline == Window(NOW - 120 * SECOND, NOW - 60 * SECOND)
