"""Groups of filters, of which one must match: both encodings, faults by their place, and what they find."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse
from query.request.filters import Filter, Op
from tests.query.conftest import MS, NOW, ONE_ENGINE, SECOND, Explore, Loader, issues, record, span
from tests.query.request.test_filters import parse
from tests.selection import scaled

GROUP = Filter("a", Op.EQ, ("1",), (Filter("b", Op.NEQ, ("2",)), Filter("c", Op.EXISTS)))


ENCODINGS = [
    *("(a:1 or -b:2 or has:c)", "( a:1 OR -b:2  Or has:c )", '("a":"1" or -b:"2" or c:*)'),
    '[{"any": [{"key":"a","op":"eq","value":1}, {"key":"b","op":"neq","value":"2"}, {"key":"c","op":"exists"}]}]',
]


def test_both_encodings_mean_the_same() -> None:
    assert [parse(text) for text in ENCODINGS] == [(GROUP,)] * len(ENCODINGS)


def any_of(first: Filter, *others: Filter) -> Filter:
    return replace(first, alternatives=others)


A, B = Filter("a", Op.EQ, ("1",)), Filter("b", Op.EQ, ("2",))
BESIDE: dict[str, tuple[Filter, ...]] = {
    "x:1 (a:1 or b:2) y:2": (Filter("x", Op.EQ, ("1",)), any_of(A, B), Filter("y", Op.EQ, ("2",))),
    "(a:1)": (A,),
    "(a:[1,2] or b:>=3)": (any_of(Filter("a", Op.IN, ("1", "2")), Filter("b", Op.GTE, ("3",))),),
    '(a:"x) or (y" or b:*p*)': (any_of(Filter("a", Op.EQ, ("x) or (y",)), Filter("b", Op.CONTAINS, ("p",))),),
    "a:(x) b:or": (Filter("a", Op.EQ, ("(x)",)), Filter("b", Op.EQ, ("or",))),
    '"(a":1': (Filter("(a", Op.EQ, ("1",)),),
    "(or:or or a:1)": (any_of(Filter("or", Op.EQ, ("or",)), A),),
    "k(x):1": (Filter("k(x)", Op.EQ, ("1",)),),
}
NONE = [
    *("(", "()", "(a:1", "(a:1 b:2)", "(a:1 or)", "(a:1 or )", "(or a:1)", "((a:1) or b:2)", "-(a:1)", "(a:1or b:2)"),
    *("(a:1 or b:2)x", "(a:1)(b:2)", "(a:1 and b:2)", "a:1 or b:2", "!(a:1 or b:2)"),
]


def test_terms_beside_and_in_groups() -> None:
    assert {text: parse(text) for text in BESIDE} == BESIDE
    assert {text: parse(text) for text in NONE} == {text: [("query.filters", "syntax")] for text in NONE}


EXISTS = {"key": "k", "op": "exists"}
FAULTS: list[tuple[list[Any], list[tuple[str, str]]]] = [
    ([{"any": []}], [("[0].any", "too_short")]),
    ([{"any": [EXISTS] * 21}], [("[0].any", "too_long")]),
    ([{"any": [EXISTS] * 19}, EXISTS, EXISTS], [("", "too_many")]),
    (
        [{"any": [{"any": [EXISTS]}]}],
        [("[0].any[0].any", "unknown_field"), ("[0].any[0].key", "missing"), ("[0].any[0].op", "missing")],
    ),
    ([{"any": [EXISTS], "key": "k"}], [("[0].key", "not_allowed")]),
    ([{"any": [EXISTS], "op": "eq", "value": "x"}], [("[0].op", "not_allowed"), ("[0].value", "not_allowed")]),
    ([{}], [("[0].key", "missing"), ("[0].op", "missing")]),
    ([{"any": None}], [("[0].key", "missing"), ("[0].op", "missing")]),
    ([EXISTS, {"any": [EXISTS, {"key": "k" * 257, "op": "exists"}]}], [("[1].any[1].key", "length")]),
    ([{"any": [EXISTS, {"key": "k", "op": "eq"}]}], [("[0].any[1].value", "missing")]),
]


@pytest.mark.parametrize(("filters", "faults"), FAULTS)
def test_faults_are_named_by_their_place(filters: list[Any], faults: list[tuple[str, str]]) -> None:
    found = parse(json.dumps(filters))
    assert sorted(found) == [(f"query.filters{path}", code) for path, code in faults]  # type: ignore[type-var]


async def test_faults_of_meaning_are_named_by_their_place(explore: Explore) -> None:
    group = {"any": [EXISTS, {"key": "kind", "op": "eq", "value": "x"}, {"key": "k", "op": "gt", "value": "y"}]}
    body = {"fn": "count", "filters": [EXISTS, group]}
    assert issues(await explore.post("/spans/aggregate", body)) == [
        ("body.filters[1].any[1].value", "not_allowed"),
        ("body.filters[1].any[2].value", "type"),
    ]
    answer = await explore.get("/spans", filters="k:1 (k:2 or kind:x)")
    assert issues(answer) == [("query.filters[1].any[1].value", "not_allowed")]
    group = {"any": [EXISTS, {"key": "k", "op": "regex", "value": "("}]}
    answer = await explore.post("/spans/aggregate", {"fn": "count", "filters": [group]})
    assert issues(answer) == [("body.filters[0].any[1].value", "format")]
    assert (await explore.get("/spans", filters=" ".join(["(k:1 or k:2)"] * 10))).status == 200
    assert issues(await explore.get("/spans", filters=" ".join(["(k:1 or k:2 or k:3)"] * 7))) == [
        ("query.filters", "too_many")
    ]


TERMS = ["v:1", "-v:1", "has:w", "!has:w", "v:>1", "w:*x*", "name:[n1,n2]", "-name:n3", "durationMs:>=5", "host:h"]


def finds(term: str, made: dict[str, Any]) -> bool:
    v, w = made["attributes"].get("v"), made["attributes"].get("w")
    found: dict[str, bool] = {
        "v:1": v == 1,
        "-v:1": v != 1,
        "has:w": w is not None,
        "!has:w": w is None,
        "v:>1": v is not None and v > 1,
        "w:*x*": w is not None and "x" in w,
        "name:[n1,n2]": made["name"] in ("n1", "n2"),
        "-name:n3": made["name"] != "n3",
        "durationMs:>=5": made["duration"] >= 5 * MS,
        "host:h": made["host"] == "h",
    }
    return found[term]


@ONE_ENGINE
@pytest.mark.sized
@pytest.mark.parametrize("lost", [False, True], ids=["roll-up", "no roll-up"])
async def test_a_group_finds_what_any_of_its_filters_finds(
    lost: bool, explore: Explore, loader: Loader, clickhouse: ClickHouse
) -> None:
    """Beside other filters; also if the roll-up does not know where keys are."""
    rng, made = random.Random(3), list[dict[str, Any]]()
    for host in ("h", "i"):
        some: list[dict[str, Any]] = [
            {
                "name": f"n{rng.randint(1, 4)}",
                "duration": rng.randint(0, 9) * MS,
                "attributes": {
                    key: value
                    for key, value in (("v", rng.randint(0, 3)), ("w", rng.choice(["x", "yx", "z"])))
                    if rng.random() < 0.6
                },
            }
            for _ in range(60)
        ]
        first = len(made) + 1
        await loader.spans(*(span(n, **each) for n, each in enumerate(some, first)), resource={"host": host})
        made += [each | {"host": host, "id": f"{n:016x}"} for n, each in enumerate(some, first)]
    if lost:
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    for _ in range(scaled(4, 15)):
        groups = [rng.sample(TERMS, rng.randint(1, 4)) for _ in range(rng.randint(1, 3))]
        text = " ".join(f"({' or '.join(group)})" if len(group) > 1 else group[0] for group in groups)
        wanted = {each["id"] for each in made if all(any(finds(term, each) for term in group) for group in groups)}
        assert {row["spanId"] for row in await explore.data(filters=text, limit=200)} == wanted, text


async def test_groups_are_taken_wherever_filters_are(explore: Explore, loader: Loader) -> None:
    await loader.spans(
        span(1, name="a", attributes={"v": 1}), span(2, name="b", attributes={"w": 2}), span(3, name="c")
    )
    await loader.logs(record(body="a", severity=9), record(body="b", severity=17), record(body="c"))
    group = {"any": [{"key": "v", "op": "eq", "value": "1"}, {"key": "w", "op": "gt", "value": "1"}]}
    ends, before = {"from": NOW - 3600 * SECOND, "to": NOW}, {"from": NOW - 7200 * SECOND, "to": NOW - 3600 * SECOND}
    logs = await explore.data("/logs", filters="(severityNumber:9 or body:b)")
    assert sorted(row["body"] for row in logs) == ["a", "b"]
    assert await explore.names(filters=json.dumps([group])) == ["a", "b"]
    aggregate = await explore.post("/spans/aggregate", {"fn": "count", "filters": [group]})
    assert aggregate.json["groups"][0]["value"] == 2
    figures = await explore.post("/spans/figures", {"figures": [{"fn": "count", "filters": [group]}, {"fn": "count"}]})
    assert figures.json["groups"][0]["values"] == [2, 3]
    assert figures.json["figures"][0]["filters"] == [group]
    assert (await explore.post("/spans/heatmap", {"filters": [group]})).json["total"] == 2
    compared = await explore.post("/spans/compare", {"spike": ends | {"filters": [group]}, "baseline": ends})
    assert (compared.json["spike"]["total"], compared.json["baseline"]["total"]) == (2, 1)
    compared = await explore.post("/spans/compare", {"spike": ends, "baseline": before, "filters": [group]})
    assert compared.json["spike"]["total"] == 2
    assert (await explore.get("/errors", filters="(type:x or environment:unknown)")).status == 200
