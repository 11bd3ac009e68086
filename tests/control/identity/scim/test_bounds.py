"""Requests that would occupy the process for long are refused before they do."""

from typing import Any

import pytest

from control.identity.scim.protocol import patch, users
from tests.control.identity.scim.conftest import PATCH, Directory

PHONES: list[dict[str, Any]] = [{"value": str(number)} for number in range(100)]
FILTER = " or ".join(f'value eq "{number}"' for number in range(40))


OPERATIONS: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"op": "replace", "path": 'phoneNumbers[value eq "1"].display', "value": "x"}, 100, "tooMany"),
    ({"op": "add", "path": f"phoneNumbers[{FILTER}].display", "value": "x"}, 3, "tooMany"),
    ({"op": "remove", "path": "phoneNumbers", "value": PHONES}, 1, "tooMany"),
    ({"op": "add", "path": "phoneNumbers", "value": PHONES}, 30, "tooMany"),
    ({"op": "replace", "value": {f"name.a{number}": "x" for number in range(4_000)}}, 1, "tooMany"),
    ({"op": "replace", "path": f"emails[{'(' * 3_000}value pr{')' * 3_000}].type"}, 1, "invalidPath"),
)


@pytest.mark.control_settings(max_body_bytes=2**20)
async def test_operations_on_a_user_are_bounded(directory: Directory) -> None:
    ada = await directory.user("ada@example.com", phoneNumbers=PHONES)
    for operation, number, scim_type in OPERATIONS:
        status, body = await directory.patch(ada, *[operation] * number)
        assert (status, body["scimType"]) == (400, scim_type), body
    assert (await directory.call("GET", f"/Users/{ada['id']}"))[1] == ada


async def test_what_directories_send_is_within_the_bounds(directory: Directory) -> None:
    lists = ("phoneNumbers", "addresses", "roles", "entitlements")
    ada = await directory.user("ada@example.com", **{name: [{"type": "work"}, {"type": "home"}] for name in lists})
    operations = [
        {"op": "Replace", "path": f'{name}[type eq "{kind}"].{attribute}', "value": "x"}
        for name, attribute in zip(lists, ("value", "locality", "value", "value"), strict=True)
        for kind in ("work", "home", "other", "mobile", "fax")
    ]
    status, body = await directory.patch(ada, *operations)
    assert status == 200, body
    assert [len(body[name]) for name in lists] == [5, 5, 5, 5]


async def test_filters_over_the_members_of_a_big_group_are_refused(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch, "MAX_WORK", 50)
    group = await directory.group("all", *[await directory.user(f"u{number}") for number in range(5)])
    status, body = await directory.patch(group, {"op": "remove", "path": 'members[value co "scu"]'})
    assert (status, body["scimType"]) == (400, "tooMany")
    status, body = await directory.patch(group, {"op": "remove", "path": f'members[value eq "{"scu_" + "0" * 26}"]'})
    assert (status, len(body["members"])) == (200, 5)


async def test_the_values_of_a_user_are_bounded(directory: Directory) -> None:
    ada = await directory.user("ada@example.com")
    many = {"userName": "ada@example.com", "phoneNumbers": [{}] * users.MAX_VALUES}
    added = {"op": "add", "path": "phoneNumbers", "value": [{"value": str(number)} for number in range(990)]}
    for method, path, body in (
        ("POST", "/Users", many),
        ("PUT", f"/Users/{ada['id']}", many),
        ("PATCH", f"/Users/{ada['id']}", {"schemas": [PATCH], "Operations": [added]}),
    ):
        status, answer, _ = await directory.call(method, path, body)
        assert (status, answer["detail"]) == (400, "A user can have at most 1000 values."), method


@pytest.mark.both_stores
async def test_a_page_has_what_fits(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAX_DOCUMENTS_LENGTH", 3_000)
    made = [await directory.user(f"u{number}", title="x" * 1_000) for number in range(5)]
    pages: list[list[str]] = []
    cursor: str | None = ""
    for _ in range(3):
        _, page, _ = await directory.call("GET", f"/Users?count=4&cursor={cursor}")
        cursor = page.get("nextCursor")
        pages.append([each["id"] for each in page["Resources"]])
    assert cursor is None
    assert pages == [[each["id"] for each in part] for part in (made[:2], made[2:4], made[4:])]
    status, page, _ = await directory.call("GET", "/Users?count=4&startIndex=2")
    assert (status, page["itemsPerPage"], page["Resources"]) == (200, 2, made[1:3])


async def test_members_have_the_attributes_that_are_asked_for(directory: Directory) -> None:
    group = await directory.group("all", *[await directory.user(f"u{number}") for number in range(3)])
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("attributes=members.value", {"members": [{"value"}] * 3}),
        ("attributes=members", {"members": [{"value", "$ref", "type"}] * 3}),
        ("attributes=members.display", {}),
        ("attributes=displayName", {"displayName": "all"}),
        ("excludedAttributes=members.type,displayName,meta", {"members": [{"value", "$ref"}] * 3}),
        ("excludedAttributes=members,meta", {"displayName": "all"}),
    )
    for query, expected in asked:
        for path in (f"/Groups/{group['id']}?{query}", f"/Groups?{query}"):
            _, body, _ = await directory.call("GET", path)
            (found,) = body.get("Resources", [body])
            if "members" in found:
                found["members"] = [set(each) for each in found["members"]]
            assert found == {"schemas": group["schemas"], "id": group["id"]} | expected, path
