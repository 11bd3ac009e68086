"""On every route: an undeclared query parameter is a 400 that names it, a declared one is none for its name."""

from typing import Any

from tests.query.conftest import Answer, Explore, issues

VALUES = {"orgSlug": "acme", "projectSlug": "shop"}
UNDECLARED = {"nonsense": "1", "Limit": "2", "from ": "3"}


async def operations(explore: Explore) -> list[tuple[str, str, list[str]]]:
    """Method, path and query parameters of each operation that takes a token."""
    async with explore.client.get("/openapi.json") as answer:
        document: Any = await answer.json()
    return [
        (
            method,
            path.format_map({parameter["name"]: "1" for parameter in operation["parameters"]} | VALUES),
            [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"],
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["security"]
    ]


async def ask(explore: Explore, method: str, path: str, query: dict[str, str]) -> Answer:
    headers = {"Authorization": "Bearer mine"}
    async with explore.client.request(method, path, params=query, headers=headers) as answer:
        return Answer(answer.status, answer.headers, await answer.text())


async def test_every_route_names_what_it_does_not_know(explore: Explore) -> None:
    found = await operations(explore)
    assert len(found) > 15
    for method, path, declared in found:
        answer = await ask(explore, method, path, UNDECLARED | dict.fromkeys(declared, "1"))
        assert issues(answer) == [(f"query.{name}", "unknown_field") for name in UNDECLARED], (method, path)


async def test_every_route_knows_what_it_declares(explore: Explore) -> None:
    for method, path, declared in await operations(explore):
        answer = await ask(explore, method, path, dict.fromkeys(declared, "1"))
        codes = [issue["code"] for issue in answer.json.get("error", {}).get("details", [])] if answer.text else []
        assert "unknown_field" not in codes, (method, path)


async def test_the_misspelled_order_is_no_longer_ignored(explore: Explore) -> None:
    assert issues(await explore.get("/spans", sort="duration", Sort="time")) == [("query.Sort", "unknown_field")]
    assert issues(await explore.get("/logs", sort="time")) == [("query.sort", "unknown_field")]
