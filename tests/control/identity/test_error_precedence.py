"""Who may not is told so, and not first what is wrong with his body."""

from typing import NamedTuple

from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.identity.conftest import Person

TEXT = {"Content-Type": "text/plain"}
PRINCIPALS = "/orgs/acme/principals"


class Sent(NamedTuple):
    """A body that is none."""

    body: object
    headers: dict[str, str]
    status: int  # for who may


SENT = [Sent({"x": 1}, {}, 400), Sent({}, TEXT, 415), Sent({"x": "y" * 70_000}, {}, 413)]


async def check(control: Control, method: str, path: str, forbidden: str, permitted: str) -> None:
    """One of two callers may do this, and is told what is wrong with the body."""
    for sent in SENT:
        for token, expected in ((forbidden, 403), (permitted, sent.status)):
            answer = await control.call(method, path, sent.body, token, headers=sent.headers)
            assert answer[0] == expected, (method, path, sent.status)


async def test_changing_an_owner_is_403_before_400(control: Control) -> None:
    _, admin = await new_member_token(control.checks.database, control.acme, Role.ADMIN)
    await check(control, "PATCH", f"/orgs/acme/members/{control.acme.owner_id}", admin, control.acme.token.secret)


async def test_changing_a_foreign_agent_is_403_before_400(control: Control, ada: Person) -> None:
    _, agent, _ = await ada.call("POST", PRINCIPALS, {"kind": "agent", "name": "Bot"})
    path = f"{PRINCIPALS}/{agent['principalId']}"
    seeing = frozenset({Scope.MEMBERS_READ, Scope.TOKENS_WRITE})
    _, reader = await new_member_token(control.checks.database, control.acme, Role.ADMIN, seeing)
    await check(control, "PATCH", path, reader, ada.access)
    await check(control, "POST", f"{path}/tokens", control.acme.token.secret, ada.access)
