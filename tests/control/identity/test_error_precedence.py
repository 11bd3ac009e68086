"""Who may not is told so, and not first what is wrong with his body."""

from typing import Any, NamedTuple

import pytest

from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson

TEXT = {"Content-Type": "text/plain"}
PRINCIPALS = "/orgs/acme/principals"


class Sent(NamedTuple):
    """A body that is none."""

    body: object
    headers: dict[str, str]
    status: int  # for who may


SENT = [Sent({"x": 1}, {}, 400), Sent({}, TEXT, 415), Sent({"x": "y" * 8_192}, {}, 413)]


async def send(control: Control, method: str, path: str, sent: Sent, token: str) -> tuple[int, Any]:
    status, answer, _ = await control.call(method, path, sent.body, token, headers=sent.headers)
    return status, answer


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: str(sent.status))
async def test_changing_an_owner_is_403_before_400(control: Control, sent: Sent) -> None:
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    path = f"/orgs/acme/members/{control.acme.owner_id}"
    assert (await send(control, "PATCH", path, sent, admin))[0] == 403
    assert (await send(control, "PATCH", path, sent, control.acme.token.secret))[0] == sent.status


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: str(sent.status))
async def test_changing_a_foreign_agent_is_403_before_400(control: Control, person: NewPerson, sent: Sent) -> None:
    ada = await person()
    _, agent, _ = await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "Bot"})
    path = f"{PRINCIPALS}/{agent['principalId']}"
    seeing = frozenset({Scope.MEMBERS_READ, Scope.TOKENS_WRITE})
    _, reader = await new_member_token(control.checks.database, control.acme, Role.ADMIN, seeing)
    assert (await send(control, "PATCH", path, sent, reader))[0] == 403
    assert (await send(control, "PATCH", path, sent, ada.access))[0] == sent.status
    assert (await send(control, "POST", f"{path}/tokens", sent, control.acme.token.secret))[0] == 403
    assert (await send(control, "POST", f"{path}/tokens", sent, ada.access))[0] == sent.status
