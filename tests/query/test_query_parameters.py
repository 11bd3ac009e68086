"""On every route: an undeclared query parameter is a 400 that names it, a declared one is none for its name."""

import re
from typing import Any, NamedTuple

import msgspec

from tests.query.conftest import Answer, Explore, issues

VALUES = {
    "orgSlug": "acme",
    "projectSlug": "shop",
    "traceId": "1" * 32,
    "spanId": "3" * 16,
    "fingerprint": "2" * 32,
    "occurrenceId": "4" * 40,
}
UNDECLARED = {"nonsense": "1", "Limit": "2", "from ": "3"}


class Asked(NamedTuple):
    """An operation that takes a token: `route` is the end of its path with `{}` for names, `declared` are its query
    parameters, `fields` those of its body, of which `example` is one.
    """

    method: str
    path: str
    route: str
    declared: list[str]
    fields: list[str]
    example: Any


async def operations(explore: Explore) -> list[Asked]:
    async with explore.client.get("/openapi.json") as answer:
        document: Any = await answer.json()
    return [
        _asked(document, method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["security"]
    ]


def _asked(document: Any, method: str, path: str, operation: Any) -> Asked:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return Asked(
        method,
        path.format_map({parameter["name"]: "1" for parameter in operation["parameters"]} | VALUES),
        re.sub(r"{\w+}", "{}", path.partition("/explore")[2]),
        [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"],
        [*document["components"]["schemas"][schema]["properties"]] if schema else [],
        body.get("example"),
    )


async def ask(explore: Explore, asked: Asked, query: dict[str, str], body: object = None) -> Answer:
    headers = {"Authorization": "Bearer mine", "Content-Type": "application/json"}
    data = None if body is None else msgspec.json.encode(body)
    async with explore.client.request(asked.method, asked.path, params=query, headers=headers, data=data) as answer:
        return Answer(answer.status, answer.headers, await answer.text())


async def test_every_route_names_what_it_does_not_know(explore: Explore) -> None:
    every = await operations(explore)
    assert len(every) > 15
    for asked in every:
        answer = await ask(explore, asked, UNDECLARED, asked.example)
        found = issues(answer)
        assert found[:3] == [(f"query.{name}", "unknown_field") for name in UNDECLARED], asked
        assert {code for _, code in found[3:]} <= {"missing", "length"}, asked  # of what the route requires


async def test_what_else_is_wrong_is_named_beside_it(explore: Explore) -> None:
    """Of the query and of the body, in one response."""
    for asked in await operations(explore):
        if not asked.declared and asked.example is None:
            continue
        wrong = dict.fromkeys(asked.declared, "\x00" * 65)
        body = None if asked.example is None else {"nonsense": 1, "filters": [{"op": "x"}], "limit": 0}
        alone = issues(await ask(explore, asked, wrong, body))
        assert len(alone) > 0, asked
        together = await ask(explore, asked, UNDECLARED | wrong, body)
        assert issues(together) == [(f"query.{name}", "unknown_field") for name in UNDECLARED] + alone, asked


async def test_every_route_knows_what_it_declares(explore: Explore) -> None:
    for asked in await operations(explore):
        answer = await ask(explore, asked, dict.fromkeys(asked.declared, "1"))
        codes = [issue["code"] for issue in answer.json.get("error", {}).get("details", [])] if answer.text else []
        assert "unknown_field" not in codes, asked


async def test_the_misspelled_order_is_no_longer_ignored(explore: Explore) -> None:
    assert issues(await explore.get("/spans", sort="duration", Sort="time")) == [("query.Sort", "unknown_field")]
    assert issues(await explore.get("/logs", sort="time")) == [("query.sort", "unknown_field")]
