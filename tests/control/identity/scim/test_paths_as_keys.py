"""Paths as keys of a value: applied as a `path` is, or refused, but never answered 200 and lost."""

from typing import Any

import pytest

from control.identity.scim.messages import ScimError
from control.identity.scim.protocol.patch import is_path, operations_of, require_no_paths
from tests.control.identity.scim.conftest import ENTERPRISE, GROUP, USER, Directory, map_roles

WORK = 'emails[type eq "work"]'
LISTS = {
    "emails": [{"type": "work", "primary": True, "value": "ada@example.com"}],
    "phoneNumbers": [{"type": "mobile", "value": "1"}],
    "name": {"givenName": "Ada"},
}


def without_meta(user: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in user.items() if name not in ("id", "meta", "userName")}


WORK_CHANGED = {"emails": [{"type": "work", "primary": True, "value": "b@example.com"}]}
APPLIED: list[tuple[str, Any, dict[str, Any]]] = [
    ("displayName", "N", {"displayName": "N"}),
    ("name.givenName", "G", {"name": {"givenName": "G"}}),
    (f"{ENTERPRISE}:department", "D", {ENTERPRISE: {"department": "D"}}),
    (f"{ENTERPRISE}.department", "D", {ENTERPRISE: {"department": "D"}}),
    (f"{ENTERPRISE}:manager", "26118915", {ENTERPRISE: {"manager": {"value": "26118915"}}}),
    (f"{ENTERPRISE}:manager.value", "26118915", {ENTERPRISE: {"manager": {"value": "26118915"}}}),
    (f"{WORK}.value", "b@example.com", WORK_CHANGED),
    (f" {WORK.replace('emails', 'Emails')}.Value", "b@example.com", WORK_CHANGED),
    (f"{USER}:{WORK}.value", "b@example.com", WORK_CHANGED),
    (WORK, {"value": "b@example.com"}, WORK_CHANGED),
    ("emails.value", "b@example.com", WORK_CHANGED),
    ('phoneNumbers[type eq "mobile"].value', "2", {"phoneNumbers": [{"type": "mobile", "value": "2"}]}),
    ('addresses[type eq "work"].locality', "Berlin", {"addresses": [{"type": "work", "locality": "Berlin"}]}),
    ('roles[primary eq "True"].value', "reader", {"roles": [{"primary": True, "value": "reader"}]}),
]


async def test_a_key_is_applied_as_a_path_is(directory: Directory) -> None:
    user = await directory.user("ada@example.com", **LISTS)
    for path, value, changed in APPLIED:
        expected = without_meta(user) | changed
        expected["schemas"] = [USER, *[each for each in changed if each == ENTERPRISE]]
        for operation in (
            {"op": "replace", "value": {path: value}},
            {"op": "Add", "value": {path: value}},
            {"op": "replace", "path": path, "value": value},
        ):
            assert (await directory.call("PUT", f"/Users/{user['id']}", user))[0] == 200
            status, patched = await directory.patch(user, operation)
            assert (status, without_meta(patched)) == (200, expected), operation


async def test_many_keys_and_paths_in_one_value(directory: Directory) -> None:
    """The names first, then the paths, each after the other; also within the object of a schema."""
    user = await directory.user("ada@example.com", **LISTS)
    value = {
        f"{WORK}.value": "b@example.com",
        'emails[type eq "home"].value': "c@example.com",
        "displayName": "N",
        "emails": [{"type": "work", "value": "a@example.com"}],
        USER: {"nickName": "Babs", 'phoneNumbers[type eq "mobile"].display': "M"},
        ENTERPRISE: {"department": "D", "manager.value": "1", "colour": "red"},
        "urn:example:schemas:2.0:User:colour": "red",
        "urn:example:schemas:2.0:User": {"colour": "red"},
        "colour": "red",
        "name.givenName": None,
    }
    status, changed = await directory.patch(user, {"op": "replace", "value": value})
    assert (status, without_meta(changed)) == (
        200,
        {
            "schemas": [USER, ENTERPRISE],
            "displayName": "N",
            "active": True,
            "nickName": "Babs",
            "emails": [{"type": "work", "value": "b@example.com"}, {"type": "home", "value": "c@example.com"}],
            "phoneNumbers": [{"type": "mobile", "value": "1", "display": "M"}],
            ENTERPRISE: {"department": "D", "manager": {"value": "1"}},
        },
    )


REFUSED: list[tuple[str, Any, str]] = [
    ('emails[type eq "work"', "x", "invalidPath"),
    ("emails[type eq work].value", "x", "invalidPath"),
    ("emails[0].value", "x", "invalidPath"),
    ("emails[(].value", "x", "invalidPath"),
    ("name..givenName", "x", "invalidPath"),
    ("name.", "x", "invalidPath"),
    ("display name", "x", "invalidPath"),
    ('emails[colour eq "work"].value', "x", "invalidFilter"),
    ('emails[type ne "work"].value', "x", "noTarget"),
    (f"{WORK}.value", {"a": 1}, "invalidValue"),
    ("meta.created", "2026-01-01T00:00:00Z", "mutability"),
    ('groups[value eq "x"].display', "x", "mutability"),
    ("name", {f"{WORK}.value": "x"}, "invalidPath"),
    (WORK, {'emails[type eq "work"].value': "x"}, "invalidPath"),
    ("emails", [{'value[type eq "work"]': "x"}], "invalidPath"),
]


async def test_a_key_that_is_no_path_is_refused(directory: Directory) -> None:
    user = await directory.user("ada@example.com", **LISTS)
    for key, value, scim_type in REFUSED:
        status, refused = await directory.patch(user, {"op": "replace", "value": {"displayName": "N", key: value}})
        assert (status, refused["scimType"]) == (400, scim_type), refused
        assert (await directory.call("GET", f"/Users/{user['id']}"))[1] == user
    for value in (None, "Ada", {"a": 1}):
        status, refused = await directory.patch(user, {"op": "Remove", "value": {"name.givenName": value}})
        assert (status, refused["scimType"]) == (400, "noTarget"), "a removal needs a path"
        assert (await directory.call("GET", f"/Users/{user['id']}"))[1] == user


async def test_a_resource_has_names_and_no_paths(directory: Directory) -> None:
    user, group = await directory.user("ada@example.com"), await directory.group("g")
    for key in (f"{WORK}.value", "name.givenName", f"{ENTERPRISE}:department", "emails[", ""):
        named = {"schemas": [USER], "userName": "eve@example.com", key: "x"}
        described = {"schemas": [GROUP], "displayName": "h", key.replace(ENTERPRISE, GROUP): "x"}
        for method, path, body in (
            ("POST", "/Users", named),
            ("PUT", f"/Users/{user['id']}", named),
            ("POST", "/Groups", described),
            ("PUT", f"/Groups/{group['id']}", described),
        ):
            status, refused, _ = await directory.call(method, path, body)
            assert (status, refused["scimType"]) == (400, "invalidPath"), refused
            assert refused["detail"] == f"{list(body)[-1]!r} is a path. Only PATCH accepts paths as keys."
    for unknown in ("colour", "urn:example:schemas:2.0:User", "urn:example:schemas:2.0:User:colour", "$comment"):
        body = {"schemas": [USER], "userName": "ada@example.com", unknown: "red"}
        status, made, _ = await directory.call("PUT", f"/Users/{user['id']}", body)
        assert (status, set(made)) == (200, {"schemas", "id", "meta", "userName", "active"})


async def test_members_by_a_key(directory: Directory) -> None:
    await map_roles(directory.control, {"all": "MEMBER"})
    ada, eve = await directory.user("ada@example.com"), await directory.user("eve@example.com")
    group = await directory.group("all", ada)
    keys = {f"{GROUP}:displayName": "all of us", f"{GROUP}:members": [{"value": eve["id"]}]}
    status, changed = await directory.patch(group, {"op": "add", "value": keys})
    assert (status, changed["displayName"]) == (200, "all of us")
    assert {each["value"] for each in changed["members"]} == {ada["id"], eve["id"]}
    status, refused = await directory.patch(group, {"op": "add", "value": {"members[": "x"}})
    assert (status, refused["scimType"]) == (400, "invalidPath")


def test_names_and_paths() -> None:
    for name in (
        "colour",
        "$ref",
        " displayName ",
        "x-y_z",
        USER,
        ENTERPRISE,
        "urn:example:2.0:User:a.b",
        "https://a/b",
    ):
        assert not is_path(name)
    for path in ("a.b", "a[", "]", "", "a b", f"{USER}:a", f"{ENTERPRISE}.a", "urn:example:2.0:User:a[b eq 1]", "a:b"):
        assert is_path(path)
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": [deep]}
    require_no_paths(deep)
    assert operations_of({"Operations": [{"op": "add", "value": deep}]}, ()) == [{"op": "add", "value": deep}]
    with pytest.raises(ScimError):
        operations_of({"Operations": [{"op": "add", "value": {"x" * 5_000 + ".": 1}}]}, ())
