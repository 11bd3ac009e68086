"""The audit tells each revocation once, and none that did not happen."""

from typing import Any

import pytest

from chassis.auth.tables import invitations
from tests.control.conftest import Control

INVITATIONS = "/orgs/acme/invitations"
TOKENS = "/orgs/acme/tokens"
KEYS = "/orgs/acme/projects/web/keys"


async def told(control: Control, made: dict[str, Any]) -> list[str]:
    """Actions on it, the latest first."""
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"objectId": made["id"]})
    return [event["action"] for event in page["data"]]


async def revoke_twice(control: Control, path: str) -> None:
    for _ in range(2):
        assert (await control.call("DELETE", path))[0] == 204


async def test_a_token_a_key_and_an_invitation_are_revoked_once(control: Control) -> None:
    """A key that was rotated and works for a while yet, too."""
    for path, body, noun in (
        (TOKENS, {"name": "x"}, "token"),
        (KEYS, {"name": "x"}, "key"),
        (INVITATIONS, {"email": "ada@example.org", "role": "MEMBER"}, "invitation"),
    ):
        _, made, _ = await control.call("POST", path, body)
        await revoke_twice(control, f"{path}/{made['id']}")
        assert await told(control, made) == [f"{noun}.revoke", f"{noun}.create"]
    _, made, _ = await control.call("POST", KEYS, {"name": "x"})
    assert (await control.call("POST", f"{KEYS}/{made['id']}/rotate", {}))[0] == 201
    await revoke_twice(control, f"{KEYS}/{made['id']}")
    assert await told(control, made) == ["key.revoke", "key.create"]


@pytest.mark.both_stores
async def test_an_invitation_that_was_accepted_is_not_revoked(control: Control) -> None:
    _, made, _ = await control.call("POST", INVITATIONS, {"email": "ada@example.org", "role": "MEMBER"})
    async with control.checks.database.write() as connection:
        await connection.execute(invitations.update().values(accepted_at=control.acme.organization.created_at))
    await revoke_twice(control, f"{INVITATIONS}/{made['id']}")
    assert await told(control, made) == ["invitation.create"]


async def test_an_invitation_that_is_replaced_is_revoked(control: Control) -> None:
    invited = {"email": "ada@example.org", "role": "MEMBER"}
    made = [(await control.call("POST", INVITATIONS, invited))[1] for _ in range(3)]
    assert [await told(control, one) for one in made] == [
        ["invitation.revoke", "invitation.create"],
        ["invitation.revoke", "invitation.create"],
        ["invitation.create"],
    ]
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"objectId": made[0]["id"]})
    assert page["data"][0]["data"] == {"replacedBy": made[1]["id"]}
