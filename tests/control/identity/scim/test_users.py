"""Users of a directory: their life as resources."""

from typing import Any

import pytest

from tests.control.conftest import Control
from tests.control.identity.scim.conftest import ENTERPRISE, USER, Directory


async def test_a_user_is_made_read_replaced_changed_and_deleted(directory: Directory) -> None:
    ada = await directory.user("ada@example.com", name={"givenName": "Ada", "familyName": "Lovelace"}, title="Countess")
    assert ada["id"].startswith("scu_")
    assert ada["active"] is True
    assert ada["meta"]["location"] == f"https://sluice.example.org/scim/v2/acme/Users/{ada['id']}"
    status, shown, headers = await directory.call("GET", f"/Users/{ada['id']}")
    assert (status, shown) == (200, ada)
    assert headers["ETag"] == ada["meta"]["version"] == 'W/"1"'

    body = {"schemas": [USER], "userName": "Ada@Example.com", "emails": [{"value": "ada@example.com"}]}
    status, replaced, headers = await directory.call("PUT", f"/Users/{ada['id']}", body)
    assert status == 200
    assert "title" not in replaced
    assert replaced["userName"] == "Ada@Example.com"
    assert replaced["active"] is True
    assert headers["ETag"] == 'W/"2"'

    status, changed = await directory.patch(ada, {"op": "replace", "path": "title", "value": "Enchantress"})
    assert (status, changed["title"], changed["meta"]["version"]) == (200, "Enchantress", 'W/"3"')
    status, same = await directory.patch(ada, {"op": "replace", "path": "title", "value": "Enchantress"})
    assert (status, same) == (200, changed)

    assert (await directory.call("DELETE", f"/Users/{ada['id']}"))[0] == 204
    assert (await directory.call("GET", f"/Users/{ada['id']}"))[0] == 404
    assert (await directory.call("DELETE", f"/Users/{ada['id']}"))[0] == 404


@pytest.mark.both_stores
async def test_an_active_user_with_an_address_is_a_member_with_an_account(directory: Directory) -> None:
    ada = await directory.user("ada@example.com", displayName="Ada Byron", active=False)
    bob = await directory.user("bob", emails=[])
    assert await directory.members() == {}
    assert (await directory.activate(ada, True))[0] == 200
    await directory.patch(bob, {"op": "add", "path": "emails", "value": [{"value": "bob@example.com"}]})
    members = await directory.members()
    assert set(members) == {"ada@example.com", "bob@example.com"}
    made = members["ada@example.com"]
    assert (made["name"], made["role"], made["emailVerified"]) == ("Ada Byron", "VIEWER", False)
    body = {"userName": "ada@example.com", "displayName": "Ada Lovelace", "emails": [{"value": "lovelace@example.com"}]}
    assert (await directory.call("PUT", f"/Users/{ada['id']}", body))[0] == 200
    changed = (await directory.members())["lovelace@example.com"]
    assert changed == made | {"name": "Ada Lovelace", "email": "lovelace@example.com"}


async def test_which_address_is_that_of_the_account(directory: Directory) -> None:
    """The primary one, the first, the first that is valid, the name of the user; also in a private domain."""
    attributes: dict[str, dict[str, Any]] = {
        "a@example.com": {"emails": [{"value": "b@example.com"}, {"value": "a@example.com", "primary": True}]},
        "c@example.com": {"emails": [{"value": "c@example.com"}, {"value": "d@example.com"}]},
        "e@example.com": {"emails": [{"value": "no address", "primary": True}, {"value": "E@Example.com"}]},
        "ada3@example.com": {"emails": []},
        "ada@corp.local": {"emails": [{"value": "ada@corp.local"}]},
    }
    for number, (email, said) in enumerate(attributes.items()):
        await directory.user(f"Ada{number}@Example.com", **said)
        assert list(await directory.members())[-1] == email


async def test_a_member_who_has_the_address_is_the_user(control: Control, directory: Directory, person: Any) -> None:
    grace = await person("grace@example.com")
    made = await directory.user("grace@example.com", displayName="Somebody Else")
    member = (await directory.members())["grace@example.com"]
    assert member["principalId"] == grace.id
    assert member["name"] != "Somebody Else"
    status, body, _ = await control.call("PATCH", f"/orgs/acme/members/{grace.id}", {"role": "ADMIN"})
    assert status == 409
    assert "directory manages" in body["error"]["message"]
    assert (await control.call("DELETE", f"/orgs/acme/members/{grace.id}"))[0] == 409
    assert (await directory.call("DELETE", f"/Users/{made['id']}"))[0] == 204
    assert "grace@example.com" not in await directory.members()


async def test_two_users_are_never_one_account_and_have_two_names(directory: Directory) -> None:
    ada, bob = await directory.user("ada@example.com"), await directory.user("bob@example.com")
    same = {"op": "replace", "path": "userName", "value": "Ada@Example.com"}
    for status, body in (
        (await directory.call("POST", "/Users", {"userName": "x", "emails": [{"value": "Ada@example.com"}]}))[:2],
        (await directory.call("POST", "/Users", {"userName": "ADA@example.com"}))[:2],
        await directory.patch(bob, same),
    ):
        assert (status, body["scimType"], body["status"]) == (409, "uniqueness", "409")
    assert (await directory.call("GET", '/Users?filter=userName eq "x"'))[1]["totalResults"] == 0
    assert (await directory.patch(ada, same))[0] == 200


async def test_conditions_on_the_version_are_kept(directory: Directory) -> None:
    ada = await directory.user("ada@example.com")
    path, rename = f"/Users/{ada['id']}", [{"op": "replace", "path": "title", "value": "x"}]
    status, body, _ = await directory.call("PATCH", path, {"Operations": rename}, {"If-Match": 'W/"9"'})
    assert (status, body["status"], body["error"]["code"]) == (412, "412", "precondition_failed")
    assert (await directory.call("DELETE", path, None, {"If-Match": '"9"'}))[0] == 412
    status, _, _ = await directory.call("PATCH", path, {"Operations": rename}, {"If-Match": '"9", W/"1"'})
    assert status == 200
    assert (await directory.call("GET", path, None, {"If-None-Match": 'W/"2"'}))[0] == 304
    assert (await directory.call("GET", path, None, {"If-None-Match": 'W/"1"'}))[0] == 200
    assert (await directory.call("PUT", path, {"userName": "ada"}, {"If-Match": "*"}))[0] == 200


async def test_attributes_of_a_response(directory: Directory) -> None:
    ada = await directory.user(
        "ada@example.com", name={"givenName": "Ada", "familyName": "L"}, **{ENTERPRISE: {"department": "Engines"}}
    )
    _, body, _ = await directory.call("GET", f"/Users/{ada['id']}?attributes=userName,name.givenName")
    assert body == {
        "schemas": body["schemas"],
        "id": ada["id"],
        "userName": "ada@example.com",
        "name": {"givenName": "Ada"},
    }
    _, body, _ = await directory.call("GET", f"/Users/{ada['id']}?excludedAttributes=name,{ENTERPRISE}:department")
    assert set(ada) - set(body) == {"name", ENTERPRISE}
    _, page, _ = await directory.call("GET", "/Users?attributes=userName")
    assert [set(each) for each in page["Resources"]] == [{"schemas", "id", "userName"}]
    for query in ("attributes=a&excludedAttributes=b", "attributes=" + "a" * 5_000, "attributes=name[x eq 1]"):
        assert (await directory.call("GET", f"/Users/{ada['id']}?{query}"))[0] == 400, query


NO_USERS: dict[str, tuple[object, ...]] = {
    "invalidValue": (
        *({"userName": name} for name in ("", " ", "x" * 257, "a\u0000b")),
        {},
        {"userName": "x", "externalId": "a\u0000b"},
        {"userName": "x", "active": "perhaps"},
        *({"userName": "x", "emails": emails} for emails in ("x", [{"value": "x"}] * 51)),
        {"userName": "x", "title": "x" * 70_000},
    ),
    "invalidSyntax": (b"[]", b"{", b"\xff", b"[" * 5_000, b'{"userName":"x","title":"\\ud800"}'),
}


@pytest.mark.control_settings(max_body_bytes=2**20)
async def test_what_is_no_user(directory: Directory) -> None:
    for scim_type, bodies in NO_USERS.items():
        for body in bodies:
            status, answer, _ = await directory.call("POST", "/Users", body)
            assert (status, answer["scimType"]) == (400, scim_type), body
            assert answer["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
            assert answer["error"]["code"] == "bad_request"
            assert answer["error"]["message"] == answer["detail"]


async def test_what_a_directory_cannot_write_is_ignored(directory: Directory) -> None:
    ada = await directory.user(
        "ada@example.com",
        id="mine",
        meta={"created": "2000-01-01T00:00:00Z"},
        groups=[{"value": "x"}],
        password="correct horse",
        favouriteColour="blue",
    )
    assert ada["id"] != "mine"
    assert not {"groups", "password", "favouriteColour"} & set(ada)
    assert ada["meta"]["created"] > "2020"
    status, body = await directory.patch(ada, {"op": "replace", "path": "groups", "value": []})
    assert (status, body["scimType"]) == (400, "mutability")


async def test_a_body_of_another_type_is_refused(directory: Directory) -> None:
    status, body, _ = await directory.call("POST", "/Users", b"<x/>", {"Content-Type": "text/xml"})
    assert (status, body["status"]) == (415, "415")
    status, _, _ = await directory.call("POST", "/Users", {"userName": "x"}, {"Content-Type": "application/json"})
    assert status == 201


async def test_what_happened_is_in_the_audit_log(directory: Directory) -> None:
    ada = await directory.user("ada@example.com")
    await directory.activate(ada, False)
    await directory.activate(ada, True)
    await directory.patch(ada, {"op": "replace", "path": "title", "value": "x"})
    await directory.call("DELETE", f"/Users/{ada['id']}")
    events = await directory.audit("scim.")
    assert [each["action"] for each in events] == [
        "scim.user.delete",
        "scim.member.suspend",
        "scim.user.update",
        "scim.user.activate",
        "scim.member.admit",
        "scim.user.deactivate",
        "scim.member.suspend",
        "scim.user.create",
        "scim.member.admit",
    ]
    assert {(each["actorPrincipalId"], each["tokenId"][:4]) for each in events} == {(None, "sct_")}


async def test_an_account_of_a_deleted_user_is_closed(directory: Directory) -> None:
    ada = await directory.user("ada@example.com")
    before = (await directory.members())["ada@example.com"]
    await directory.call("DELETE", f"/Users/{ada['id']}")
    await directory.user("ada@example.com")
    assert (await directory.members())["ada@example.com"]["principalId"] != before["principalId"]
