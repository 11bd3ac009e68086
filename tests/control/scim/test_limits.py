"""Requests that are legal and large: what is refused rather than let the event loop and other writers wait."""

import pytest

from control.directory import group_repository
from control.scim import groups, patch, provisioning, resources, users
from tests.control.scim.conftest import GROUP, USER, Directory

REMOVE_OTHERS = {"op": "remove", "path": 'members[not (value eq "x")]'}


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0900-01-01T00:00:00Z", "1969-12-31T00:00:00Z"]
)
@pytest.mark.parametrize("operator", ["gt", "lt", "eq"])
async def test_times_that_no_database_holds_are_compared(directory: Directory, time: str, operator: str) -> None:
    await directory.user("ada@example.com")
    filter_ = {"filter": f'meta.created {operator} "{time}"'}
    status, page, _ = await directory.call("GET", "/Users", params=filter_)
    assert status == 200, page
    is_early = not time.startswith("9999")
    assert page["totalResults"] == (1 if operator == ("gt" if is_early else "lt") else 0)


async def test_operations_may_read_so_much_together(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await directory.user("ada@example.com")
    monkeypatch.setattr(patch, "MAX_WORK", 2_000)
    change = {"op": "replace", "path": "title", "value": "Countess"}
    assert (await directory.patch(ada, change))[0] == 200
    status, body = await directory.patch(ada, *[change] * 50)
    assert (status, body["scimType"]) == (400, "tooMany")
    grown = {"op": "replace", "path": "roles", "value": [{"value": f"role {number}"} for number in range(200)]}
    status, body = await directory.patch(ada, grown)
    assert (status, body["scimType"]) == (400, "tooMany")


async def test_filters_of_members_are_for_small_groups(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [await directory.user(f"person{number}@example.com") for number in range(3)]
    group = await directory.group("All", *people)
    monkeypatch.setattr(patch, "MAX_WORK", 3 * groups.MEMBER_BYTES - 1)
    status, body = await directory.patch(group, REMOVE_OTHERS)
    assert (status, body["scimType"]) == (400, "tooMany")
    monkeypatch.undo()
    status, body = await directory.patch(group, REMOVE_OTHERS)
    assert status == 200
    assert "members" not in body


async def test_what_takes_long_is_done_in_a_thread(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "_THREAD_WORK", 0)
    monkeypatch.setattr(resources, "_THREAD_COST", 0)
    people = [await directory.user(f"person{number}@example.com") for number in range(2)]
    group = await directory.group("All", *people)
    assert (await directory.patch(people[0], {"op": "replace", "path": "title", "value": "x"}))[1]["title"] == "x"
    status, body = await directory.patch(people[0], {"op": "replace", "path": "userName", "value": ""})
    assert (status, body["scimType"]) == (400, "invalidValue")
    assert (await directory.patch(group, REMOVE_OTHERS))[0] == 200
    status, page, _ = await directory.call("GET", "/Users?attributes=userName")
    assert (status, page["totalResults"]) == (200, 2)


async def test_a_user_has_so_many_values(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAX_VALUES", 4)
    roles = [{"value": f"role {number}"} for number in range(5)]
    await directory.user("ada@example.com", roles=roles[:2])
    body = {"schemas": [USER], "userName": "bob@example.com", "roles": roles}
    status, refused, _ = await directory.call("POST", "/Users", body)
    assert (status, refused["scimType"]) == (400, "invalidValue")
    ada = (await directory.call("GET", "/Users"))[1]["Resources"][0]
    for change in ({"op": "add", "path": "roles", "value": roles}, {"op": "add", "value": {"roles": roles}}):
        status, refused = await directory.patch(ada, change)
        assert (status, refused["scimType"]) == (400, "invalidValue")


async def test_a_projection_has_all_members(directory: Directory) -> None:
    people = [await directory.user(f"person{number}@example.com") for number in range(3)]
    group = await directory.group("All", *people)
    path = f"/Groups/{group['id']}"
    ids = sorted(each["id"] for each in people)
    _, whole, _ = await directory.call("GET", path)
    _, found, _ = await directory.call("GET", f"{path}?excludedAttributes=displayName")
    assert found["members"] == whole["members"]
    assert "displayName" not in found
    _, found, _ = await directory.call("GET", f"{path}?attributes=members.value")
    assert found == {"schemas": [GROUP], "id": group["id"], "members": [{"value": one} for one in ids]}
    _, found, _ = await directory.call("GET", f"{path}?excludedAttributes=members.type")
    assert found["members"] == [{"value": each["value"], "$ref": each["$ref"]} for each in whole["members"]]
    _, found, _ = await directory.call("GET", f"/Users/{ids[0]}?attributes=groups.display")
    assert found["groups"] == [{"display": "All"}]


async def test_members_are_read_in_parts(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [await directory.user(f"person{number}@example.com") for number in range(4)]
    for part in (1, 2, 3, 4, 5):
        monkeypatch.setattr(group_repository, "PART", part)
        group = await directory.group(f"Group {part}", *people)
        assert [each["value"] for each in group["members"]] == sorted(each["id"] for each in people)


async def test_the_bound_of_users_holds(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted where the audit log has as many events as there may be users: some are of other things."""
    monkeypatch.setattr(provisioning, "MAX_USERS", 2)
    ada = await directory.user("ada@example.com")
    await directory.activate(ada, active=False)
    await directory.user("bob@example.com")
    body = {"schemas": [USER], "userName": "eve@example.com"}
    status, refused, _ = await directory.call("POST", "/Users", body)
    assert (status, refused["detail"]) == (409, "A directory can have at most 2 users.")
