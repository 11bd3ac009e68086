"""What a token of one scope alone may do to an approval request, whatever the role of its holder has."""

import pytest

from control.identity import organization_repository
from proto.identity import Role, Scope
from tests.control.approvals.office import ASKED, REQUESTS, Member, Office

READ, WRITE, DECIDE = Scope.APPROVALS_READ, Scope.APPROVALS_WRITE, Scope.APPROVALS_DECIDE


@pytest.mark.parametrize(
    ("scope", "read", "ask", "approve", "reject"),
    [
        (READ, 200, 403, 403, 403),
        (WRITE, 403, 201, 403, 404),
        (DECIDE, 403, 403, 200, 200),
        (Scope.POLICIES_WRITE, 403, 403, 403, 403),
    ],
)
async def test_requests_of_others(office: Office, scope: Scope, read: int, ask: int, approve: int, reject: int) -> None:
    caller = await office.member(Role.ADMIN, frozenset({scope}))
    asked = await office.ask()
    for path in (REQUESTS, f"{REQUESTS}/{asked['id']}"):
        assert (await office.call("GET", path, token=caller.token))[0] == read
    assert (await office.call("POST", REQUESTS, ASKED | {"targetId": "y"}, caller.token))[0] == ask
    assert (await office.vote("approve", asked, caller))[0] == approve
    assert (await office.vote("reject", await office.ask(targetId="z"), caller))[0] == reject


@pytest.mark.parametrize("more", [None, WRITE, DECIDE])
async def test_withdrawing_requires_the_scope_to_request_or_to_decide(office: Office, more: Scope | None) -> None:
    """With another token of the same member than the one that asked; to read is not enough."""
    asking = await office.member(Role.MEMBER, frozenset({WRITE}))
    asked = await office.ask(asking)
    scopes = [scope for scope in (READ, more) if scope is not None]
    async with office.checks.database.write() as connection:
        made = await organization_repository.create_token(
            connection, office.acme.organization.id, asking.id, "t", scopes=scopes
        )
    status, answer = await office.vote("reject", asked, Member(asking.id, made.secret))
    assert status == (403 if more is None else 200), answer
    assert (await office.vote("approve", await office.ask(asking, targetId="y"), asking))[0] == 403
