"""The same filter in every place that takes filters: query strings as JSON and for people, bodies, lists of errors."""

import json
from typing import Any

import pytest

from tests.query.conftest import MS, NOW, ONE_ENGINE, SECOND, Answer, Explore, Loader, span

KINDS = "UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER"
STATUSES = "UNSET, OK, ERROR"
BIG = 2**63 - 1


async def load(loader: Loader) -> None:
    await loader.spans(
        span(1, name="integer", attributes={"v": 200}, kind=2, status=2),
        span(2, name="double", attributes={"v": 200.0}, kind=3),
        span(3, name="text", attributes={"v": "200"}, kind=1),
        span(4, name="boolean", attributes={"v": True}, kind=2),
        span(5, name="false", attributes={"v": False}, kind=1),
        span(6, name="big", attributes={"v": BIG}, kind=1),
        span(7, name="next", attributes={"v": BIG - 1}, kind=1, duration=100 * MS),
        span(8, name="huge", attributes={"v": 1e23}, kind=1),
        span(9, name="nothing", attributes={"v": 0.0}, kind=1),
    )


async def answers(explore: Explore, *filters: dict[str, Any]) -> list[Answer]:
    """Of every endpoint for spans that takes them."""
    ends = {"from": NOW - 3600 * SECOND, "to": NOW}
    before = {"from": NOW - 7200 * SECOND, "to": NOW - 3600 * SECOND}
    return [
        await explore.get("/spans", filters=json.dumps(filters), limit=200),
        await explore.post("/spans/aggregate", {"fn": "count", "groupBy": "name", "filters": filters} | ends),
        await explore.post("/spans/compare", {"spike": ends, "baseline": before, "filters": filters}),
    ]


async def found(explore: Explore, *filters: dict[str, Any]) -> set[str]:
    listed, counted, compared = await answers(explore, *filters)
    names = {row["name"] for row in listed.json["data"]}
    assert {group["group"] for group in counted.json["groups"]} == names
    assert compared.json["spike"]["total"] == len(names)
    return names


@ONE_ENGINE
async def test_numbers_and_booleans_find_what_their_texts_find(explore: Explore, loader: Loader) -> None:
    await load(loader)
    for op, value, wanted in [
        ("eq", 200, {"integer", "double", "text"}),
        ("eq", 200.0, {"integer", "double", "text"}),
        ("eq", True, {"boolean"}),
        ("in", [True, False, 1e23], {"boolean", "false", "huge"}),
        ("eq", BIG, {"big"}),
        ("in", [BIG - 1, "x"], {"next"}),
        ("gt", BIG - 1, {"big", "huge"}),
        ("eq", -0.0, {"nothing"}),
        ("starts_with", 20, {"integer", "double", "text"}),
    ]:
        assert await found(explore, {"key": "v", "op": op, "value": value}) == wanted, (op, value)
    assert await found(explore, {"key": "durationMs", "op": "gte", "value": 100}) == {"next"}
    assert "next" in await found(explore, {"key": "startTime", "op": "gte", "value": (NOW - 60 * SECOND) / 1})


@ONE_ENGINE
@pytest.mark.parametrize(("key", "names", "wrong"), [("kind", KINDS, "foo"), ("statusCode", STATUSES, "error")])
async def test_what_no_span_can_have_is_told_what_they_can(key: str, names: str, wrong: str, explore: Explore) -> None:
    message = f"Must be one of {names}."
    for op, value in (("eq", wrong), ("neq", wrong), ("in", ["OK", wrong]), ("not_in", wrong), ("eq", 2)):
        for answer, where in zip(
            await answers(explore, {"key": "v", "op": "exists"}, {"key": key, "op": op, "value": value}),
            ("query", "body", "body"),
            strict=True,
        ):
            told = [(each["path"], each["message"], each["code"]) for each in answer.json["error"]["details"]]
            assert (answer.status, told) == (400, [(f"{where}.filters[1].value", message, "not_allowed")])
    for text in (f"{key}:{wrong}", f"-{key}:{wrong}", f"{key}:[{wrong}]", f'{key}:""', f"{key}:\u017f"):
        answer = await explore.get("/spans", filters=text)
        assert [each["message"] for each in answer.json["error"]["details"]] == [message], text


@ONE_ENGINE
async def test_kinds_are_found_in_any_case(explore: Explore, loader: Loader) -> None:
    await load(loader)
    assert await found(explore, {"key": "kind", "op": "in", "value": ["server", "Client"]}) == {
        *("integer", "boolean", "double")
    }
    assert await explore.names(filters="kind:server statusCode:ERROR") == ["integer"]
    assert await found(explore, {"key": "kind", "op": "neq", "value": "internal"}) == {"integer", "boolean", "double"}
    assert await explore.names(filters="attr:kind:foo") == []


@ONE_ENGINE
async def test_sources_of_errors_likewise(explore: Explore) -> None:
    for path in ("/errors", f"/errors/{1:032x}/occurrences", f"/errors/{1:032x}"):
        answer = await explore.get(path, filters="source:spam")
        assert [each["message"] for each in answer.json["error"]["details"]] == ["Must be one of span, log."], path
    assert (await explore.get("/errors", filters="source:span -source:log")).status == 200


@ONE_ENGINE
async def test_other_names_are_told_likewise(explore: Explore) -> None:
    """Of functions, of tests and of orders."""
    answer = await explore.post("/spans/aggregate", {"fn": "median", "filters": [{"key": "k", "op": "like"}]})
    told = {each["path"]: each["message"] for each in answer.json["error"]["details"]}
    assert told == {
        "body.fn": "Must be one of count, count_unique, sum, avg, min, max, p50, p75, p90, p95, p99, p999.",
        "body.filters[0].op": "Must be one of eq, neq, contains, not_contains, starts_with, gt, gte, lt, lte, exists, "
        "not_exists, in, not_in, ends_with, regex.",
    }
    answer = await explore.get("/errors", sort="oldest")
    assert answer.json["error"]["details"][0]["message"] == "Must be one of lastSeen, count, firstSeen."
