"""The organization itself over HTTP."""

import pytest

from chassis.auth import usage
from control.identity.organizations import organization_store
from tests.control.conftest import Control


@pytest.mark.both_stores
async def test_organization_can_be_read_and_renamed(control: Control) -> None:
    status, shown, _ = await control.call("GET", "/orgs/acme")
    assert status == 200
    assert list(shown) == ["id", "slug", "name", "monthlyItems", "usedItems", "createdAt"]
    assert (shown["slug"], shown["name"], shown["monthlyItems"], shown["usedItems"]) == ("acme", "Acme", 0, 0)
    month = shown["createdAt"][:7]  # of now: the tenant was made a moment ago
    async with control.checks.database.write() as connection:
        await organization_store.set_quota(connection, shown["id"], 100)
        await usage.add_usage(connection, month, shown["id"], 7)
    status, changed, _ = await control.call("PATCH", "/orgs/acme", {"name": "Acme Inc."})
    assert (status, changed) == (200, shown | {"name": "Acme Inc.", "monthlyItems": 100, "usedItems": 7})
    assert (await control.call("GET", "/orgs/acme"))[1] == changed


async def test_invalid_bodies_name_every_field(control: Control) -> None:
    bodies: list[tuple[object, list[tuple[str, str]]]] = [
        ({}, [("body.name", "missing")]),
        ({"name": ""}, [("body.name", "too_short")]),
        ({"name": "x" * 201}, [("body.name", "too_long")]),
        ({"name": "x", "slug": "y"}, [("body.slug", "unknown_field")]),
    ]
    for body, issues in bodies:
        status, answer, _ = await control.call("PATCH", "/orgs/acme", body)
        assert status == 400
        assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues
