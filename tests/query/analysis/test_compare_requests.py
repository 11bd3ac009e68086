"""What a comparison may be asked: every bound from both sides, and all faults of a body in one answer."""

from typing import Any, Final

import pytest

from query.analysis.compare import plan
from query.statements.window import Window
from tests.query.conftest import HOUR, NOW, PATH, SECOND, Answer, Explore, issues

SPIKE: Final = {"from": "-10m", "to": "now"}
BASELINE: Final = {"from": "-1h", "to": "-10m"}
BODY: Final = {"spike": SPIKE, "baseline": BASELINE}


async def asked(explore: Explore, **body: Any) -> Answer:
    return await explore.post("/spans/compare", {**BODY, **body})


def filters(count: int) -> list[dict[str, str]]:
    return [{"key": "k", "op": "eq", "value": str(n)} for n in range(count)]


def window(from_: Any, to: Any) -> dict[str, Any]:
    return {"from": from_, "to": to}


ACCEPTED: Final[list[dict[str, Any]]] = [
    {},
    {"filters": None, "keys": None, "minSpikeCount": None, "limit": None},
    {"filters": [], "keys": []},
    {"filters": filters(20)},
    {"filters": [{"key": "k" * 256, "op": "eq", "value": "v" * 1024}]},
    {"filters": [{"key": "k", "op": "exists"}]},
    {"keys": [f"k{n}" for n in range(50)]},
    {"keys": ["k", "é" * 256, "attr:" + "k" * 256, "k"]},
    {"minSpikeCount": 1},
    {"minSpikeCount": 1_000_000},
    {"limit": 1},
    {"limit": 200},
    {"spike": window("-720h", "now")},
    {"spike": window(NOW // SECOND - 60, NOW / SECOND)},
    {"baseline": window("-730h", "-10h")},
    {"baseline": window("-1h", "now")},
    {"spike": {**SPIKE, "filters": filters(20)}, "baseline": {**SPIKE, "filters": None}, "filters": filters(20)},
    {"spike": {**SPIKE, "filters": None}, "baseline": {**SPIKE, "filters": filters(1)}},
    {"spike": window("-1h", "-30m"), "baseline": window("-1h", "-29m")},
]


async def test_what_stands_at_a_bound_is_accepted(explore: Explore) -> None:
    for body in ACCEPTED:
        answer = await asked(explore, **body)
        assert answer.status == 200, (body, answer.text)


REFUSED: Final[list[tuple[dict[str, Any], list[tuple[str, str]]]]] = [
    ({"spike": None}, [("body.spike", "type")]),
    ({"spike": {}}, [("body.spike.from", "missing"), ("body.spike.to", "missing")]),
    ({"spike": {**SPIKE, "hours": 3}}, [("body.spike.hours", "unknown_field")]),
    ({"spike": window(None, True)}, [("body.spike.from", "type"), ("body.spike.to", "type")]),
    ({"spike": window("soon", "now")}, [("body.spike.from", "format")]),
    ({"spike": window("-1h", "later")}, [("body.spike.to", "format")]),
    ({"spike": window("x", "y")}, [("body.spike.from", "format"), ("body.spike.to", "format")]),
    ({"spike": {"to": "later"}}, [("body.spike.from", "missing"), ("body.spike.to", "format")]),
    ({"spike": window("now", "now")}, [("body.spike.from", "range")]),
    ({"spike": window("now", "-1h")}, [("body.spike.from", "range")]),
    ({"spike": window("-721h", "now")}, [("body.spike.from", "range")]),
    ({"baseline": {"from": "-1h"}}, [("body.baseline.to", "missing")]),
    ({"baseline": window("-1h", "x")}, [("body.baseline.to", "format")]),
    ({"baseline": window("-2h", "-3h")}, [("body.baseline.from", "range")]),
    ({"baseline": window("-800h", "-10h")}, [("body.baseline.from", "range")]),
    ({"baseline": SPIKE}, [("body.baseline", "equal")]),
    ({"baseline": window(NOW - HOUR // 6, NOW)}, [("body.baseline", "equal")]),
    ({"baseline": {**SPIKE, "filters": []}}, [("body.baseline", "equal")]),
    (
        {"spike": {**SPIKE, "filters": filters(2)}, "baseline": {**SPIKE, "filters": filters(2)[::-1]}},
        [("body.baseline", "equal")],
    ),
    ({"spike": {**SPIKE, "filters": filters(21)}}, [("body.spike.filters", "too_many")]),
    (
        {
            "filters": [{"key": "k", "op": "gt", "value": "v"}],
            "spike": {**window("x", "now"), "filters": [{"key": "", "op": "eq", "value": "v"}]},
            "baseline": {**window("now", "-1h"), "filters": [{"key": "kind", "op": "eq", "value": "v"}]},
        },
        [
            ("body.baseline.filters[0].value", "not_allowed"),
            ("body.baseline.from", "range"),
            ("body.filters[0].value", "type"),
            ("body.spike.filters[0].key", "too_short"),
            ("body.spike.from", "format"),
        ],
    ),
    (
        {"baseline": {**BASELINE, "filters": [{"key": "k", "op": "regex", "value": "("}]}},
        [("body.baseline.filters[0].value", "format")],
    ),
    ({"filters": filters(21)}, [("body.filters", "too_many")]),
    ({"filters": [{"key": "k" * 257, "op": "eq", "value": "v"}]}, [("body.filters[0].key", "length")]),
    ({"filters": [{"key": "k", "op": "eq", "value": "v" * 1025}]}, [("body.filters[0].value", "too_long")]),
    ({"filters": [{"key": "k", "op": "eq"}]}, [("body.filters[0].value", "missing")]),
    ({"filters": [{"key": "k", "op": "like", "value": "v"}]}, [("body.filters[0].op", "not_allowed")]),
    ({"filters": [{"key": "k", "op": "gt", "value": "v"}]}, [("body.filters[0].value", "type")]),
    ({"filters": [{"key": "k", "op": "regex", "value": "("}]}, [("body.filters[0].value", "format")]),
    ({"filters": [{"key": "k", "op": "exists", "not": 1}]}, [("body.filters[0].not", "unknown_field")]),
    ({"keys": [f"k{n}" for n in range(51)]}, [("body.keys", "too_long")]),
    ({"keys": ["k", ""]}, [("body.keys[1]", "length")]),
    ({"keys": ["k" * 257, "attr:"]}, [("body.keys[0]", "length"), ("body.keys[1]", "length")]),
    ({"keys": [1]}, [("body.keys[0]", "type")]),
    ({"keys": "k"}, [("body.keys", "type")]),
    ({"minSpikeCount": 0}, [("body.minSpikeCount", "too_small")]),
    ({"minSpikeCount": 1_000_001}, [("body.minSpikeCount", "too_large")]),
    ({"minSpikeCount": 1.5}, [("body.minSpikeCount", "type")]),
    ({"limit": 0}, [("body.limit", "too_small")]),
    ({"limit": 201}, [("body.limit", "too_large")]),
    ({"limit": "5"}, [("body.limit", "type")]),
    ({"groupBy": "k"}, [("body.groupBy", "unknown_field")]),
]


async def test_what_is_beyond_a_bound_is_named(explore: Explore) -> None:
    for body, expected in REFUSED:
        assert sorted(issues(await asked(explore, **body))) == expected, body


async def test_all_faults_are_named_at_once(explore: Explore) -> None:
    answer = await asked(
        explore,
        spike={"from": "never"},
        baseline=window("-1h", "-2h"),
        filters=[{"key": "k", "op": "gt", "value": "v"}],
        keys=[""],
        limit=0,
    )
    assert sorted(issues(answer)) == [
        ("body.baseline.from", "range"),
        ("body.filters[0].value", "type"),
        ("body.keys[0]", "length"),
        ("body.limit", "too_small"),
        ("body.spike.from", "format"),
        ("body.spike.to", "missing"),
    ]


async def test_what_is_no_comparison_is_refused(explore: Explore) -> None:
    for body, expected in (
        (b"", [("body", "malformed")]),
        (b"{", [("body", "malformed")]),
        (b'{"keys": ["\\ud800"]}', [("body", "malformed")]),
        (b"[]", [("body", "type")]),
        (b"null", [("body", "type")]),
        (b"{}", [("body.spike", "missing"), ("body.baseline", "missing")]),
        (b'{"spike": [], "baseline": 1}', [("body.spike", "type"), ("body.baseline", "type")]),
    ):
        assert issues(await explore.post("/spans/compare", body)) == expected, body


async def test_other_bodies_are_refused(explore: Explore) -> None:
    headers = {"Authorization": "Bearer mine", "Content-Type": "text/plain"}
    async with explore.client.post(f"{PATH}/spans/compare", data=b"{}", headers=headers) as answer:
        assert answer.status == 415
    assert (await explore.post("/spans/compare", b" " * (256 * 2**10 + 1))).status == 413


@pytest.mark.parametrize(("token", "status"), [("none", 401), ("foreign", 404), ("blind", 403)])
async def test_who_may_not_look_is_refused_before_the_body_is_read(token: str, status: int, explore: Explore) -> None:
    assert (await explore.post("/spans/compare", b"{", token=token)).status == status


def test_the_spike_is_taken_out_of_the_baseline() -> None:
    def rest(spike: tuple[int, int], baseline: tuple[int, int]) -> list[tuple[int, int]]:
        body = (
            f'{{"spike":{{"from":{spike[0]},"to":{spike[1]}}},"baseline":{{"from":{baseline[0]},"to":{baseline[1]}}}}}'
        )
        return [
            (each.from_ns // SECOND, each.to_ns // SECOND) for each in plan(body.encode(), NOW).baseline_without_spike
        ]

    assert rest((10, 20), (30, 40)) == [(30, 40)]
    assert rest((10, 20), (20, 40)) == [(20, 40)]
    assert rest((10, 20), (15, 40)) == [(20, 40)]
    assert rest((10, 20), (5, 15)) == [(5, 10)]
    assert rest((10, 20), (5, 40)) == [(5, 10), (20, 40)]
    assert rest((10, 20), (12, 18)) == []


def test_relative_windows_share_one_clock() -> None:
    planned = plan(b'{"spike":{"from":"-1m","to":"now"},"baseline":{"from":"-2m","to":"-1m"}}', NOW)
    assert planned.spike == Window(NOW - 60 * SECOND, NOW)
    assert planned.baseline == Window(NOW - 120 * SECOND, NOW - 60 * SECOND)
