"""The requests that Okta documents for its SCIM 2.0 integrations, in their order and with their peculiarities.

Source: developer.okta.com/docs/api/openapi/okta-scim/guides/scim-20 (as of 2026): users are looked up by `userName eq`
before they are created, deactivated by PATCH with a value without a path (or by PUT), never deleted; groups are renamed
with their `id` in the value, and their members changed one request at a time.
"""

from typing import Any

from tests.control.conftest import Control
from tests.control.identity.scim.conftest import PATCH, USER, Directory, map_roles

LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"


def okta_user(**attributes: Any) -> dict[str, Any]:
    """What Okta sends to create a user."""
    return {
        "schemas": [USER],
        "userName": "test.user@okta.example.com",
        "name": {"givenName": "Test", "familyName": "User"},
        "emails": [{"primary": True, "value": "test.user@okta.example.com", "type": "work"}],
        "displayName": "Test User",
        "locale": "en-US",
        "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [],
        "password": "1mz050nq",
        "active": True,
    } | attributes


async def test_the_life_of_a_user(directory: Directory) -> None:
    query = {"filter": 'userName eq "test.user@okta.example.com"', "startIndex": "1", "count": "100"}
    status, page, _ = await directory.call("GET", "/Users", params=query)
    assert (status, page) == (
        200,
        {"schemas": [LIST], "totalResults": 0, "startIndex": 1, "itemsPerPage": 0, "Resources": []},
    )

    status, made, _ = await directory.call("POST", "/Users", okta_user())
    assert status == 201
    sent = okta_user()
    for left_out in ("groups", "password"):
        sent.pop(left_out)
    assert made == sent | {"id": made["id"], "meta": made["meta"]}

    status, page, _ = await directory.call("GET", "/Users", params=query)
    assert page["Resources"] == [made]
    assert (await directory.call("GET", f"/Users/{made['id']}"))[1] == made

    status, body, _ = await directory.call("POST", "/Users", okta_user())
    assert (status, body["schemas"], body["status"]) == (409, ["urn:ietf:params:scim:api:messages:2.0:Error"], "409")
    assert body["scimType"] == "uniqueness", "Okta's duplicate check takes the user for the same"
    status, body, _ = await directory.call("GET", "/Users/23a35c27-23d3-4c03-b4c5-6443c09e7173")
    assert (status, body["status"]) == (404, "404")

    # A changed profile: everything that GET has returned, changed.
    changed = made | {"name": {"givenName": "Another", "familyName": "User", "middleName": "Excited"}, "groups": []}
    status, updated, _ = await directory.call("PUT", f"/Users/{made['id']}", changed)
    assert (status, updated["name"]["middleName"]) == (200, "Excited")

    for active in (False, True, False):
        body = {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": active}}]}
        status, patched, _ = await directory.call("PATCH", f"/Users/{made['id']}", body)
        assert (status, patched["active"]) == (200, active)
        assert ("test.user@okta.example.com" in await directory.members()) is active
    status, put, _ = await directory.call("PUT", f"/Users/{made['id']}", updated | {"active": True})
    assert (status, put["active"]) == (200, True)
    assert "test.user@okta.example.com" in await directory.members()


async def test_the_life_of_a_group(control: Control, directory: Directory) -> None:
    await map_roles(control, {"Test SCIMv2": "ADMIN"})
    user = (await directory.call("POST", "/Users", okta_user()))[1]
    status, page, _ = await directory.call("GET", "/Groups?startIndex=1&count=100")
    assert (status, page["totalResults"]) == (200, 0)
    body: dict[str, Any] = {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"],
        "displayName": "Old name",
        "members": [],
    }
    status, group, _ = await directory.call("POST", "/Groups", body)
    assert status == 201
    path = f"/Groups/{group['id']}"

    async def patch(operation: dict[str, Any]) -> None:
        status, _, _ = await directory.call("PATCH", path, {"schemas": [PATCH], "Operations": [operation]})
        assert status == 200, operation

    member = {"value": user["id"], "display": "test.user@okta.example.com"}
    await patch({"op": "replace", "value": {"id": group["id"], "displayName": "Test SCIMv2"}})
    await patch({"op": "add", "path": "members", "value": [member]})
    assert (await directory.members())["test.user@okta.example.com"]["role"] == "ADMIN"
    await patch({"op": "remove", "path": f'members[value eq "{user["id"]}"]'})
    assert (await directory.members())["test.user@okta.example.com"]["role"] == "VIEWER"
    await patch({"op": "replace", "path": "members", "value": [member]})
    _, shown, _ = await directory.call("GET", path)
    assert (shown["displayName"], [each["value"] for each in shown["members"]]) == ("Test SCIMv2", [user["id"]])
    status, replaced, _ = await directory.call("PUT", path, shown | {"members": [member], "displayName": "Test SCIMv2"})
    assert status == 200
    assert replaced["members"] == shown["members"]
    assert (await directory.call("DELETE", path))[0] == 204
