"""What a token of one scope alone may do to an approval request, whatever the role of its holder has."""

from proto.identity import Role, Scope
from tests.control.approvals.office import ASKED, REQUESTS, Office, narrow_token

READ, WRITE, DECIDE = Scope.APPROVALS_READ, Scope.APPROVALS_WRITE, Scope.APPROVALS_DECIDE


async def test_requests_of_others(office: Office) -> None:
    for scope, *expected in (
        (READ, 200, 403, 403, 403),
        (WRITE, 403, 201, 403, 404),
        (DECIDE, 403, 403, 200, 200),
        (Scope.POLICIES_WRITE, 403, 403, 403, 403),
    ):
        caller = await office.member(Role.ADMIN, frozenset({scope}))
        asked, other = [await office.ask(targetId=f"{target} {scope}") for target in "xy"]
        listed, _, _ = await office.call("GET", REQUESTS, token=caller.token)
        statuses = [
            (await office.call("GET", f"{REQUESTS}/{asked['id']}", token=caller.token))[0],
            (await office.call("POST", REQUESTS, ASKED, caller.token))[0],
            (await office.vote("approve", asked, caller))[0],
            (await office.vote("reject", other, caller))[0],
        ]
        assert [listed, *statuses] == [expected[0], *expected], scope


async def test_withdrawing_requires_the_scope_to_request_or_to_decide(office: Office) -> None:
    """With another token of the same member than the one that asked; to read is not enough."""
    asking = await office.member(Role.MEMBER, frozenset({WRITE}))
    for more, expected in ((set[Scope](), 403), ({WRITE}, 200), ({DECIDE}, 200)):
        asked = await office.ask(asking, targetId=f"with {more}")
        withdrawing = await narrow_token(office, asking, READ, *more)
        assert (await office.vote("reject", asked, withdrawing))[0] == expected, more
    assert (await office.vote("approve", await office.ask(asking, targetId="y"), asking))[0] == 403
