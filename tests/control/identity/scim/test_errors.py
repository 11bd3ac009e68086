"""The details of errors are sentences of ours: no text, no type and no address of the libraries beneath."""

from typing import Any

from tests.control.identity.scim.conftest import ENTERPRISE, USER, Directory

USERS: list[tuple[dict[str, Any], str]] = [
    ({"name": "x"}, "name must be an object."),
    ({"emails": "x"}, "emails must be a list."),
    ({"emails": [1]}, "emails[0] must be an object."),
    ({"emails": [{"value": "x"}, {"value": 5}]}, "emails[1].value must be a string."),
    ({"emails": [{"primary": True}] * 2}, "emails can have only one primary value."),
    ({"photos": [{"value": "::"}]}, "photos[0].value is not valid."),
    ({"emails": [{"type": 5}]}, "emails[0].type must be 'work', 'home' or 'other'."),
    ({"userName": 5}, "userName must be a string."),
    ({"userName": None}, "userName is required."),
    ({"active": "maybe"}, "active must be true or false."),
    ({"profileUrl": 5}, "profileUrl is not valid."),
    ({"schemas": ["x"]}, f"schemas must contain {USER}."),
    ({"schemas": 5}, "schemas must be a list."),
    ({ENTERPRISE: "x"}, f"{ENTERPRISE} must be an object."),
    ({ENTERPRISE: {"manager": {"value": 5}}}, f"{ENTERPRISE}:manager.value must be a string."),
]


async def test_a_user(directory: Directory) -> None:
    for attributes, detail in USERS:
        status, body, _ = await directory.call("POST", "/Users", {"schemas": [USER], "userName": "a", **attributes})
        assert (status, body["detail"], body["error"]["message"]) == (400, detail, detail)


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"op": "x", "path": "active"}, "'x' is not a PATCH operation: add, remove or replace."),
    ({"path": "active"}, "Operations[0].op is required."),
    ({"op": "remove"}, "Remove operation requires a path."),
    ({"op": "add", "path": "nickName"}, "Value is required for add operations."),
    ({"op": "add", "path": 5, "value": 1}, "Operations[0].path is not valid."),
    ({"op": "add", "path": "a b", "value": 1}, "The path 'a b' is not valid: invalid syntax at column 3."),
    ({"op": "add", "path": "emails[x eq 1].value", "value": "1"}, "The filter is not valid: there is no attribute x."),
    ({"op": "add", "path": "emails", "value": "foo"}, "emails[1] must be an object."),
    ({"op": "add", "path": "name", "value": "foo"}, "name must be an object."),
    ({"op": "replace", "path": "active", "value": "maybe"}, "active must be true or false."),
    ({"op": "replace", "value": {"active": []}}, "active must be true or false."),
    ({"op": "replace", "value": "x"}, "The value must be an object."),
    ({"op": "replace", "path": f"{ENTERPRISE}:department", "value": {"a": 1}}, "department must be a string."),
    (
        {"op": "replace", "path": 'phoneNumbers[type ne "x"].value', "value": "1"},
        "No value matches the filter of the path.",
    ),
    ({"op": "replace", "path": "groups", "value": []}, "'groups' is read-only."),
    ({"op": "remove", "path": "userName"}, "Required attribute cannot be removed."),
]


async def test_a_change(directory: Directory) -> None:
    user = await directory.user("ada@example.com")
    for operation, detail in CHANGES:
        status, body = await directory.patch(user, operation)
        assert (status, body["detail"]) == (400, detail)


LISTS: list[tuple[dict[str, Any], str]] = [
    ({"startIndex": "x"}, "startIndex must be an integer."),
    ({"sortOrder": "x"}, "sortOrder must be 'ascending' or 'descending'."),
    ({"sortBy": "colour"}, "The path 'colour' is not valid: Cannot sort on 'colour'."),
    ({"filter": "a b c"}, "The filter 'a b c' is not valid: invalid syntax at column 3."),
    ({"filter": 'colour eq "x"'}, "The filter 'colour eq \"x\"' is not valid: there is no attribute colour."),
    ({"attributes": "a b"}, "The path 'a b' is not valid: invalid syntax at column 3."),
    (
        {"attributes": "name", "excludedAttributes": "emails"},
        "A request can have attributes or excludedAttributes, not both.",
    ),
]


async def test_a_list(directory: Directory) -> None:
    for query, detail in LISTS:
        status, body, _ = await directory.call("GET", "/Users", params=query)
        assert (status, body["detail"]) == (400, detail)


async def test_a_group(directory: Directory) -> None:
    for body, detail in (
        ({"displayName": 5}, "displayName must be a string."),
        ({}, "displayName is required."),
        ({"displayName": "x", "members": "x"}, "There is no user x."),
    ):
        status, refused, _ = await directory.call("POST", "/Groups", body)
        assert (status, refused["detail"]) == (400, detail)
