"""Project keys over HTTP."""

import pytest

from chassis.errors import Unauthorized
from proto.identity import Role, is_project_key, parse_dsn
from tests.chassis.identity.tenants import new_member_token
from tests.control.conftest import Control

KEYS = "/orgs/acme/projects/web/keys"


async def test_a_key_is_shown_once_and_works(control: Control) -> None:
    status, made, _ = await control.call("POST", KEYS, {"name": "Browser"})
    assert status == 201
    assert list(made) == ["id", "name", "hint", "enabled", "rate", "createdAt", "revokedAt", "key", "dsn"]
    assert is_project_key(made["key"])
    assert made["hint"] == made["key"][-4:]
    dsn = parse_dsn(made["dsn"])
    assert (dsn.scheme, dsn.key, dsn.host) == ("https", made["key"], "sluice.example.org")
    found = await control.checks.project_keys.check(legacy_key=made["key"], project_id=str(dsn.project_id))
    assert (found.project_slug, found.key_id) == ("web", made["id"])
    status, page, _ = await control.call("GET", KEYS)
    assert status == 200
    shown = {name: value for name, value in made.items() if name not in ("key", "dsn")}
    assert page["data"][0] == shown
    assert [key["name"] for key in page["data"]] == ["Browser", "first"]


async def test_a_revoked_key_stops_at_once_and_stays_listed(control: Control) -> None:
    _, made, _ = await control.call("POST", KEYS, {"name": "Browser"})
    await control.checks.project_keys.check(legacy_key=made["key"])
    for _ in range(2):
        status, body, headers = await control.call("DELETE", f"{KEYS}/{made['id']}")
        assert (status, body) == (204, None)
        assert "X-Request-Id" in headers
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=made["key"])
    _, page, _ = await control.call("GET", KEYS)
    assert [(key["id"], key["revokedAt"] is None) for key in page["data"]] == [
        (made["id"], False),
        (control.acme.key.key.id, True),
    ]


@pytest.mark.parametrize("key_id", ["none", "key_" + "0" * 26, "%00", "FOREIGN", "x" * 500])
async def test_a_key_that_is_not_the_projects_is_404(control: Control, key_id: str) -> None:
    path = f"{KEYS}/{key_id.replace('FOREIGN', control.globex.key.key.id)}"
    status, body, _ = await control.call("DELETE", path)
    assert (status, body["error"]["message"]) == (404, "Not found.")
    foreign = await control.checks.project_keys.check(legacy_key=control.globex.key.secret)
    assert foreign.org_slug == "globex"


async def test_pages_hold_every_key_once_newest_first(control: Control) -> None:
    for number in range(6):
        await control.call("POST", KEYS, {"name": str(number)})
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page, _ = await control.call("GET", KEYS, params={"limit": "3"} | cursor)
        seen += [key["id"] for key in page["data"]]
        if not page["hasMore"]:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert len(seen) == len(set(seen)) == 7
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(
    ("body", "issues"),
    [
        ({}, [("body.name", "missing")]),
        ({"name": ""}, [("body.name", "too_short")]),
        ({"name": "x" * 201}, [("body.name", "too_long")]),
        ({"name": "x", "key": "mine"}, [("body.key", "unknown_field")]),
    ],
)
async def test_a_bad_body_names_its_fields(control: Control, body: object, issues: list[tuple[str, str]]) -> None:
    status, answer, _ = await control.call("POST", KEYS, body)
    assert status == 400
    assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues


@pytest.mark.parametrize("role", [Role.VIEWER, Role.BILLING, Role.MEMBER])
async def test_keys_are_for_administrators(control: Control, role: Role) -> None:
    _, token = await new_member_token(control.checks.database, control.acme, role)
    assert (await control.call("GET", KEYS, token=token))[0] == 403
    assert (await control.call("POST", KEYS, {"name": "x"}, token))[0] == 403
    assert (await control.call("DELETE", f"{KEYS}/{control.acme.key.key.id}", token=token))[0] == 403


async def test_keys_of_a_foreign_project_are_out_of_sight(control: Control) -> None:
    foreign = "/orgs/globex/projects/web/keys"
    for method, path in (("GET", foreign), ("POST", foreign), ("DELETE", f"{foreign}/{control.globex.key.key.id}")):
        assert (await control.call(method, path))[0] == 404
