"""The requests that Microsoft documents for the provisioning of Entra ID, in their order and with their peculiarities.

Source: learn.microsoft.com/entra/identity/app-provisioning/use-scim-to-provision-users-and-groups (as of 2026):
capitalized operations, booleans as texts, filters in paths for values that are not there yet, `externalId` as the
matching attribute, groups without their members, members removed by a value.
"""

from typing import Any
from uuid import uuid4

from tests.control.conftest import Control
from tests.control.identity.scim.conftest import ENTERPRISE, USER, Directory, map_roles


def entra_user(name: str, external_id: str) -> dict[str, Any]:
    """What Entra sends to create a user."""
    return {
        "schemas": [USER, ENTERPRISE],
        "externalId": external_id,
        "userName": f"Test_User_{name}",
        "active": True,
        "emails": [{"primary": True, "type": "work", "value": f"Test_User_{name}@testuser.example.com"}],
        "meta": {"resourceType": "User"},
        "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
        "roles": [],
    }


async def patched(directory: Directory, resource: dict[str, Any], *operations: dict[str, Any]) -> dict[str, Any]:
    status, body = await directory.patch(resource, *operations)
    assert status == 200, body
    return dict(body)


async def test_the_life_of_a_user(directory: Directory) -> None:
    name, external_id = uuid4().hex, str(uuid4())
    for filter_ in (f'externalId eq "{external_id}"', f'userName eq "Test_User_{name}"'):
        status, page, _ = await directory.call("GET", "/Users", params={"filter": filter_})
        assert (status, page["totalResults"], page["Resources"]) == (200, 0, [])
    status, made, _ = await directory.call("POST", "/Users", entra_user(name, external_id))
    assert status == 201
    for filter_ in (f'externalId eq "{external_id}"', f'userName eq "test_user_{name}"'):
        _, page, _ = await directory.call("GET", "/Users", params={"filter": filter_})
        assert page["Resources"] == [made]

    updated = await patched(
        directory,
        made,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updatedEmail@microsoft.example.com"},
        {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
    )
    assert updated["emails"] == [{"primary": True, "type": "work", "value": "updatedEmail@microsoft.example.com"}]
    assert updated["name"]["familyName"] == "updatedFamilyName"
    assert "updatedemail@microsoft.example.com" in await directory.members()

    renamed = await patched(directory, made, {"op": "Replace", "path": "userName", "value": f"New_{name}"})
    assert renamed["userName"] == f"New_{name}"

    disabled = await patched(directory, made, {"op": "Replace", "path": "active", "value": "False"})
    assert disabled["active"] is False
    assert "updatedemail@microsoft.example.com" not in await directory.members()
    enabled = await patched(directory, made, {"op": "Replace", "path": "active", "value": "True"})
    assert enabled["active"] is True
    assert (await directory.call("DELETE", f"/Users/{made['id']}"))[0] == 204


async def test_attributes_that_are_not_there_yet(directory: Directory) -> None:
    _, made, _ = await directory.call("POST", "/Users", entra_user("a", "1"))
    changed = await patched(
        directory,
        made,
        {"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "8005551212"},
        {"op": "Add", "path": 'addresses[type eq "work"].country', "value": "NL"},
        {"op": "Add", "path": 'roles[primary eq "True"].value', "value": "reader"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Engines"},
        {"op": "Add", "path": f"{ENTERPRISE}:manager", "value": "26118915-6090-4610-87e4-49d8ca9f808d"},
        {"op": "Add", "path": "nickName", "value": "Babs"},
        {"op": "Add", "path": "urn:ietf:params:scim:schemas:extension:custom:2.0:User:colour", "value": "blue"},
    )
    assert changed["phoneNumbers"] == [{"type": "mobile", "value": "8005551212"}]
    assert changed["addresses"] == [{"type": "work", "country": "NL"}]
    assert changed["roles"] == [{"primary": True, "value": "reader"}]
    assert changed[ENTERPRISE] == {
        "department": "Engines",
        "manager": {"value": "26118915-6090-4610-87e4-49d8ca9f808d"},
    }
    changed = await patched(
        directory,
        made,
        {
            "op": "Replace",
            "value": {
                "displayName": "Updated",
                "name.givenName": "Renamed",
                f"{ENTERPRISE}:employeeNumber": "42",
                "active": "True",
            },
        },
        {"op": "Remove", "path": f"{ENTERPRISE}:manager"},
    )
    assert (changed["displayName"], changed["name"]["givenName"]) == ("Updated", "Renamed")
    assert changed[ENTERPRISE] == {"department": "Engines", "employeeNumber": "42"}


async def test_the_life_of_a_group(control: Control, directory: Directory) -> None:
    external_id = str(uuid4())
    await map_roles(control, {external_id: "ADMIN"})
    _, user, _ = await directory.call("POST", "/Users", entra_user("a", "1"))
    query = {"excludedAttributes": "members", "filter": 'displayName eq "displayName"'}
    status, page, _ = await directory.call("GET", "/Groups", params=query)
    assert (status, page["totalResults"]) == (200, 0)
    body = {
        "schemas": [
            "urn:ietf:params:scim:schemas:core:2.0:Group",
            "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group",
        ],
        "externalId": external_id,
        "displayName": "displayName",
        "meta": {"resourceType": "Group"},
    }
    status, group, _ = await directory.call("POST", "/Groups", body)
    assert status == 201
    _, page, _ = await directory.call("GET", "/Groups", params=query)
    assert page["Resources"] == [group]
    status, _, _ = await directory.call("GET", f"/Groups/{group['id']}?excludedAttributes=members")
    assert status == 200

    await patched(directory, group, {"op": "Replace", "path": "displayName", "value": "1879db59-3bdf-4490-ad68"})
    member = [{"$ref": None, "value": user["id"]}]
    await patched(directory, group, {"op": "Add", "path": "members", "value": member})
    assert (await directory.members())["test_user_a@testuser.example.com"]["role"] == "ADMIN"
    is_member = {"filter": f'id eq "{group["id"]}" and members eq "{user["id"]}"', "attributes": "id"}
    assert (await directory.call("GET", "/Groups", params=is_member))[1]["totalResults"] == 1
    await patched(directory, group, {"op": "Remove", "path": "members", "value": member})
    assert (await directory.members())["test_user_a@testuser.example.com"]["role"] == "VIEWER"
    assert (await directory.call("GET", "/Groups", params=is_member))[1]["totalResults"] == 0
    await patched(directory, group, {"op": "Add", "path": "members", "value": member})
    await patched(directory, group, {"op": "Remove", "path": f'members[value eq "{user["id"]}"]'})
    assert "members" not in (await directory.call("GET", f"/Groups/{group['id']}"))[1]
    assert (await directory.call("DELETE", f"/Groups/{group['id']}"))[0] == 204
