"""Groups of a directory, and the roles that their members get."""

from typing import Any

import pytest

from control.identity.organizations import organization_store
from control.identity.scim.protocol import patch
from tests.control.conftest import Control
from tests.control.identity.scim.conftest import GROUP, Directory, map_roles

UNKNOWN = "scu_00000000000000000000000000"


def ids(group: dict[str, Any]) -> set[str]:
    return {each["value"] for each in group.get("members", ())}


@pytest.fixture
async def people(directory: Directory) -> list[dict[str, Any]]:
    return [await directory.user(f"{name}@example.com") for name in ("ada", "bob", "eve")]


@pytest.mark.both_stores
async def test_a_group_is_made_read_replaced_changed_and_deleted(
    directory: Directory, people: list[dict[str, Any]]
) -> None:
    ada, bob, eve = people
    team = await directory.group("Team", ada, bob, externalId="G1")
    assert team["members"] == [
        {"value": each["id"], "$ref": each["meta"]["location"], "type": "User"} for each in (ada, bob)
    ]
    assert (await directory.call("GET", f"/Groups/{team['id']}"))[1] == team
    _, shown, _ = await directory.call("GET", f"/Users/{ada['id']}")
    assert shown["groups"] == [
        {"value": team["id"], "$ref": team["meta"]["location"], "display": "Team", "type": "direct"}
    ]
    assert shown["meta"]["version"] == 'W/"2"'

    body = {"schemas": [GROUP], "displayName": "Crew", "members": [{"value": eve["id"]}]}
    status, crew, headers = await directory.call("PUT", f"/Groups/{team['id']}", body)
    assert (status, crew["displayName"], ids(crew)) == (200, "Crew", {eve["id"]})
    assert "externalId" not in crew
    assert headers["ETag"] == crew["meta"]["version"] != team["meta"]["version"]
    assert "groups" not in (await directory.call("GET", f"/Users/{ada['id']}"))[1]

    assert (await directory.call("DELETE", f"/Users/{eve['id']}"))[0] == 204
    _, left, _ = await directory.call("GET", f"/Groups/{team['id']}")
    assert "members" not in left
    assert left["meta"]["version"] != crew["meta"]["version"]
    assert (await directory.call("DELETE", f"/Groups/{team['id']}", None, {"If-Match": '"1"'}))[0] == 412
    assert (await directory.call("DELETE", f"/Groups/{team['id']}"))[0] == 204
    assert (await directory.call("GET", f"/Groups/{team['id']}"))[0] == 404


def changes(ada: str, bob: str, eve: str) -> list[tuple[list[dict[str, Any]], set[str]]]:
    """Operations on a group of ada and bob, and who is in it then."""
    return [
        ([{"op": "add", "path": "members", "value": [{"value": eve}]}], {ada, bob, eve}),
        ([{"op": "add", "path": "members", "value": {"value": eve}}], {ada, bob, eve}),
        ([{"op": "Add", "path": f"{GROUP}:Members", "value": [{"value": eve, "display": "Eve"}]}], {ada, bob, eve}),
        ([{"op": "add", "value": {"members": [{"value": eve}]}}], {ada, bob, eve}),
        ([{"op": "add", "path": "members", "value": [{"value": ada}]}], {ada, bob}),
        ([{"op": "remove", "path": f'members[value eq "{ada}"]'}], {bob}),
        ([{"op": "remove", "path": f'{GROUP}:members[value eq "{ada}"]'}], {bob}),
        ([{"op": "Remove", "path": "members", "value": [{"value": ada}]}], {bob}),
        ([{"op": "remove", "path": "members", "value": [{"value": eve}]}], {ada, bob}),
        ([{"op": "remove", "path": "members"}], set()),
        ([{"op": "replace", "path": "members", "value": [{"value": eve}]}], {eve}),
        ([{"op": "replace", "path": "members", "value": []}], set()),
        ([{"op": "replace", "value": {"displayName": "x", "members": [{"value": eve}]}}], {eve}),
        ([{"op": "remove", "path": f'members[value eq "{ada}" or value eq "{bob}"]'}], set()),
        ([{"op": "remove", "path": f'members[not (value eq "{ada}")]'}], {ada}),
        ([{"op": "remove", "path": 'members[type eq "User"]'}], set()),
        (
            [
                {"op": "remove", "path": "members"},
                {"op": "add", "path": "members", "value": [{"value": eve}]},
                {"op": "add", "path": "members", "value": [{"value": bob}]},
                {"op": "remove", "path": f'members[value eq "{eve}"]'},
            ],
            {bob},
        ),
        (
            [
                {"op": "remove", "path": f'members[value eq "{ada}"]'},
                {"op": "add", "path": "members", "value": [{"value": ada}]},
            ],
            {ada, bob},
        ),
    ]


async def test_changes_of_members(directory: Directory, people: list[dict[str, Any]]) -> None:
    ada, bob, _ = people
    for number, (operations, expected) in enumerate(changes(*(each["id"] for each in people))):
        team = await directory.group(f"Team {number}", ada, bob)
        status, changed = await directory.patch(team, *operations)
        assert (status, ids(changed)) == (200, expected), operations
        _, shown, _ = await directory.call("GET", f"/Groups/{team['id']}")
        assert shown == changed
        is_changed = expected != ids(team) or changed["displayName"] != team["displayName"]
        assert (shown["meta"]["version"] != team["meta"]["version"]) == is_changed


@pytest.mark.both_stores
async def test_who_cannot_be_a_member_can_be_removed(directory: Directory, people: list[dict[str, Any]]) -> None:
    team = await directory.group("Team", *people)
    for value in ("x", "\0", "\x7f" * 4_000):
        status, same = await directory.patch(team, {"op": "remove", "path": f'members[value eq "{value}"]'})
        assert (status, same) == (200, team)


async def test_who_is_no_user_is_no_member(directory: Directory) -> None:
    team = await directory.group("Team")
    for member in ({"value": UNKNOWN}, {"value": "x"}, {"value": 4}, {}, 4, {"value": UNKNOWN.replace("scu", "scg")}):
        for status, body in (
            (await directory.call("POST", "/Groups", {"displayName": "Crew", "members": [member]}))[:2],
            await directory.patch(team, {"op": "add", "path": "members", "value": [member]}),
        ):
            assert (status, body["scimType"]) == (400, "invalidValue"), member
    assert (await directory.call("GET", "/Groups"))[1]["totalResults"] == 1


async def test_groups_in_groups_are_refused(directory: Directory) -> None:
    team = await directory.group("Team")
    status, body, _ = await directory.call(
        "POST", "/Groups", {"displayName": "All", "members": [{"value": team["id"], "type": "Group"}]}
    )
    assert (status, body["detail"]) == (400, "Only users can be members of a group.")


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"op": "replace", "path": "displayName", "value": ""}, "invalidValue"),
    ({"op": "remove", "path": "displayName"}, "mutability"),
    ({"op": "replace", "path": "displayName", "value": "x" * 257}, "invalidValue"),
    ({"op": "explode", "path": "displayName", "value": "x"}, "invalidValue"),
    ({"op": "explode", "path": "members", "value": []}, "invalidValue"),
    ({"op": "replace", "path": 4, "value": "x"}, "invalidPath"),
    ({"op": "replace", "path": "id", "value": "x"}, "mutability"),
    ({"op": "replace", "path": "displayName[", "value": "x"}, "invalidPath"),
    ({"op": "remove", "value": {"members": None}}, "noTarget"),
)


async def test_changes_that_are_refused(directory: Directory) -> None:
    team = await directory.group("Team")
    for operation, scim_type in REFUSED:
        status, body = await directory.patch(team, operation)
        assert (status, body["scimType"]) == (400, scim_type), body
    no_operations: tuple[object, ...] = ([], {}, "x", None, [4], [{}] * 101)
    for none in no_operations:
        status, body, _ = await directory.call("PATCH", f"/Groups/{team['id']}", {"Operations": none})
        assert (status, body["scimType"]) in ((400, "invalidSyntax"), (400, "tooMany")), none
    assert (await directory.call("GET", f"/Groups/{team['id']}"))[1] == team


async def test_roles_follow_groups(control: Control, directory: Directory, people: list[dict[str, Any]]) -> None:
    ada, bob, eve = people

    async def roles() -> list[str]:
        members = await directory.members()
        return [members[each["userName"]]["role"] for each in people]

    await map_roles(control, {"admins": "ADMIN", "G2": "MEMBER"})
    admins = await directory.group("admins", ada)
    developers = await directory.group("developers", ada, bob, externalId="G2")
    assert await roles() == ["ADMIN", "MEMBER", "VIEWER"]
    await directory.patch(admins, {"op": "add", "path": "members", "value": [{"value": bob["id"]}]})
    await directory.patch(developers, {"op": "add", "path": "members", "value": [{"value": eve["id"]}]})
    assert await roles() == ["ADMIN", "ADMIN", "MEMBER"]
    await directory.patch(admins, {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})
    assert await roles() == ["MEMBER", "ADMIN", "MEMBER"]
    await directory.patch(admins, {"op": "replace", "path": "displayName", "value": "former admins"})
    assert await roles() == ["MEMBER", "MEMBER", "MEMBER"]
    await map_roles(control, {"former admins": "BILLING"}, "MEMBER")
    assert await roles() == ["MEMBER", "BILLING", "MEMBER"]
    await directory.call("DELETE", f"/Groups/{admins['id']}")
    assert await roles() == ["MEMBER", "MEMBER", "MEMBER"]
    changes = [(each["data"]["role"], len(each["data"]["members"])) for each in await directory.audit("scim.roles")]
    assert changes[::-1] == [
        ("ADMIN", 1),  # ada
        ("MEMBER", 1),  # bob
        ("ADMIN", 1),  # bob
        ("MEMBER", 1),  # eve
        ("MEMBER", 1),  # ada
        ("MEMBER", 1),  # bob
        ("BILLING", 1),  # bob
        ("MEMBER", 1),  # bob
    ]


async def test_a_role_is_that_of_the_groups_from_the_first_moment(control: Control, directory: Directory) -> None:
    await map_roles(control, {"admins": "ADMIN"}, "MEMBER")
    ada = await directory.user("ada@example.com", active=False)
    await directory.group("admins", ada)
    await directory.activate(ada, True)
    assert (await directory.members())["ada@example.com"]["role"] == "ADMIN"
    await directory.user("bob@example.com")
    assert (await directory.members())["bob@example.com"]["role"] == "MEMBER"


async def test_without_a_mapping_groups_give_no_role(directory: Directory, person: Any) -> None:
    await person("grace@example.com", "ADMIN")
    grace = await directory.user("grace@example.com")
    await directory.group("anything", grace)
    assert (await directory.members())["grace@example.com"]["role"] == "ADMIN"


async def test_a_directory_changes_no_owner(control: Control, directory: Directory) -> None:
    await map_roles(control, {"team": "MEMBER"})
    status, page, _ = await control.call("GET", "/orgs/acme/members")
    (owner,) = [each for each in page["data"] if each["role"] == "OWNER"]
    # The tenant's owner logs in with a token alone; an owner with an address is made of a member.
    ada = await directory.user("ada@example.com")
    member = (await directory.members())["ada@example.com"]
    status, body, _ = await control.call("PATCH", f"/orgs/acme/members/{member['principalId']}", {"role": "MEMBER"})
    assert status == 409, body
    status, body, _ = await control.call("PATCH", f"/orgs/acme/members/{member['principalId']}", {"role": "OWNER"})
    assert (status, owner["role"]) == (200, "OWNER")
    await directory.group("team", ada)
    assert (await directory.members())["ada@example.com"]["role"] == "OWNER"
    for status, body in (
        await directory.activate(ada, False),
        (await directory.call("DELETE", f"/Users/{ada['id']}"))[:2],
    ):
        assert (status, body["status"]) == (409, "409")
        assert "owner" in body["detail"]
    assert (await directory.call("GET", f"/Users/{ada['id']}"))[1]["active"] is True
    # As soon as an owner has taken the role away, the directory has its say again.
    assert (await control.call("PATCH", f"/orgs/acme/members/{member['principalId']}", {"role": "ADMIN"}))[0] == 200
    await directory.patch(ada, {"op": "replace", "path": "title", "value": "x"})
    assert (await directory.members())["ada@example.com"]["role"] == "MEMBER"


async def test_the_last_administrator_stays_one(control: Control, directory: Directory, person: Any) -> None:
    """An organization whose owner cannot authenticate any more."""
    grace = await person("grace@example.com", "ADMIN")
    user = await directory.user("grace@example.com")
    admins = await directory.group("admins", user)
    await map_roles(control, {"admins": "ADMIN"})
    async with control.checks.database.write() as connection:
        await organization_store.revoke_token(connection, control.acme.organization.id, control.acme.token.id)
    status, _ = await directory.patch(admins, {"op": "remove", "path": "members"})
    assert status == 200
    for status, body in (
        await directory.activate(user, False),
        (await directory.call("DELETE", f"/Users/{user['id']}"))[:2],
    ):
        assert status == 409
        assert body["detail"].startswith("The user is the last administrator of the organization. ")
    status, page, _ = await control.call("GET", "/orgs/acme/members", token=grace.access)
    assert [each["role"] for each in page["data"] if each["email"]] == ["ADMIN"]
    status, page, _ = await control.call("GET", "/orgs/acme/audit?limit=100", token=grace.access)
    assert [each["data"] for each in page["data"] if each["action"] == "scim.roles.keep"] == [
        {"role": "VIEWER", "members": [grace.id], "reason": "the last administrator"}
    ]


@pytest.mark.control_settings(max_body_bytes=2**20)
async def test_operations_that_compare_too_much_are_refused(directory: Directory) -> None:
    """Each would take minutes, in a transaction for which all other writers wait."""
    many = " or ".join(f'value eq "{number}"' for number in range(200))
    changes: tuple[tuple[list[dict[str, Any]], str], ...] = (
        ([{"op": "replace", "path": f"roles[not ({many})].type", "value": "x"}] * 10, "tooMany"),
        ([{"op": "add", "path": "roles", "value": [{"value": "x"}] * 100}] * 100, "tooMany"),
        ([{"op": "replace", "value": {f"roles[{many}].type": "x"}}] * 10, "tooMany"),
        ([{"op": "replace", "path": f"roles[{many} or {many}].type", "value": "x"}], "invalidPath"),
    )
    ada = await directory.user("ada@example.com", roles=[{"value": f"r{number}"} for number in range(100)])
    for operations, scim_type in changes:
        status, body = await directory.patch(ada, *operations)
        assert (status, body["scimType"]) == (400, scim_type), body
    assert (await directory.call("GET", f"/Users/{ada['id']}"))[1] == ada


async def test_odd_changes_of_large_groups_are_refused(
    directory: Directory, people: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch, "MAX_WORK", 100)
    team = await directory.group("Team", *people)
    path = 'members[not (value eq "x")]'
    status, body = await directory.patch(team, *[{"op": "remove", "path": path}] * 2)
    assert (status, body["scimType"]) == (400, "tooMany")
    assert (await directory.patch(team, {"op": "remove", "path": path}))[0] == 200
