"""The organization itself over HTTP."""

import pytest

from chassis.auth import usage
from control.identity import organization_repository
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control


@pytest.mark.both_stores
async def test_organization_can_be_read_and_renamed(control: Control) -> None:
    status, shown, _ = await control.call("GET", "/orgs/acme")
    assert status == 200
    assert list(shown) == ["id", "slug", "name", "monthlyItems", "usedItems", "createdAt"]
    assert (shown["slug"], shown["name"], shown["monthlyItems"], shown["usedItems"]) == ("acme", "Acme", 0, 0)
    month = usage_month(shown)
    async with control.checks.database.write() as connection:
        await organization_repository.set_quota(connection, shown["id"], 100)
        await usage.add_usage(connection, month, shown["id"], 7)
    status, changed, _ = await control.call("PATCH", "/orgs/acme", {"name": "Acme Inc."})
    assert (status, changed) == (200, shown | {"name": "Acme Inc.", "monthlyItems": 100, "usedItems": 7})
    assert (await control.call("GET", "/orgs/acme"))[1] == changed


@pytest.mark.parametrize(
    ("body", "issues"),
    [
        ({}, [("body.name", "missing")]),
        ({"name": ""}, [("body.name", "too_short")]),
        ({"name": "x" * 201}, [("body.name", "too_long")]),
        ({"name": "x", "slug": "y"}, [("body.slug", "unknown_field")]),
    ],
)
async def test_invalid_bodies_name_every_field(control: Control, body: object, issues: list[tuple[str, str]]) -> None:
    status, answer, _ = await control.call("PATCH", "/orgs/acme", body)
    assert status == 400
    assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues


async def test_foreign_and_missing_organizations_get_the_same_response(control: Control) -> None:
    for slug in ("globex", "nowhere"):
        for method in ("GET", "PATCH"):
            status, answer, _ = await control.call(method, f"/orgs/{slug}", {} if method == "PATCH" else None)
            assert (status, answer["error"]["message"]) == (404, "Not found.")


async def test_members_read_and_administrators_rename(control: Control) -> None:
    for role, expected in ((Role.BILLING, 403), (Role.MEMBER, 403), (Role.ADMIN, 200)):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        assert (await control.call("GET", "/orgs/acme", token=token))[0] == 200
        assert (await control.call("PATCH", "/orgs/acme", {"name": "x"}, token))[0] == expected


def usage_month(shown: dict[str, str]) -> str:
    """The month of now, which the tenant was made in a moment ago."""
    return shown["createdAt"][:7]
