"""Requests as those see them who vote on them: names, votes, what is missing, and what a vote would be answered."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chassis.auth.tables import delegations, principals
from chassis.db.database import format_time
from control.approvals import repository, view_schemas
from control.identity import organization_repository
from proto.identity import PrincipalKind, Role, Scope
from tests.control.approvals.office import REQUESTS, Member, Office, new_member
from tests.control.plans import Plans

INBOX = f"{REQUESTS}/inbox"
READ, WRITE, DECIDE = Scope.APPROVALS_READ, Scope.APPROVALS_WRITE, Scope.APPROVALS_DECIDE
OWN = "You cannot approve your own request."
SIBLING = "An agent or service cannot approve a request of its owner or of another principal with the same owner."
UNLISTED = "An agent or service can decide only if the policy lists it in machineApproverIds."
ROLES = "Deciding this request requires the role ADMIN or OWNER."
GONE = "The requester, its owner or the principal that it acts for has left the organization or is disabled."
NO_SCOPE = "The access token or its holder's role lacks the scope approvals:decide."
NO_SCOPES = "The access token or its holder's role lacks the scope approvals:decide or approvals:write."
APPROVED, REJECTED = "You have approved this request already.", "You have rejected this request already."


async def view(office: Office, asked: dict[str, Any], by: Member) -> dict[str, Any]:
    status, found, _ = await office.call("GET", f"{REQUESTS}/{asked['id']}/view", token=by.token)
    assert status == 200, found
    body: dict[str, Any] = found
    return body


async def test_a_view_has_names_votes_and_what_is_missing(office: Office) -> None:
    await office.policy(minApprovers=2, approverRoles=["MEMBER", "ADMIN"])
    ada, bob, reader = await office.member(), await office.member(Role.ADMIN), await office.member(Role.VIEWER)
    asked = await office.ask(ada)
    before = await view(office, asked, bob)
    assert before == {
        "request": asked,
        "requesterName": "Member",
        "onBehalfOfName": None,
        "deciderName": None,
        "approverRoles": ["ADMIN", "MEMBER"],
        "votes": [],
        "approvals": 0,
        "remaining": 2,
        "hasIndependentApprover": False,
        "viewer": {"mayApprove": True, "mayReject": True, "withdraws": False, "why": {"approve": None, "reject": None}},
    }
    office.clock.seconds += 5
    await office.vote("approve", asked, bob, reason="Read it.")
    vote = {
        "approver": bob.id,
        "approverName": "Admin",
        "onBehalfOf": None,
        "onBehalfOfName": None,
        "decision": "APPROVE",
        "reason": "Read it.",
        "at": format_time(office.clock.now()),
        "counts": True,
    }
    found = await view(office, asked, bob)
    assert (found["votes"], found["approvals"], found["remaining"]) == ([vote], 1, 1)
    assert found["viewer"]["why"] == {"approve": APPROVED, "reject": None}
    found = await view(office, asked, ada)
    assert found["viewer"] == {
        "mayApprove": False,
        "mayReject": True,
        "withdraws": True,
        "why": {"approve": OWN, "reject": None},
    }
    async with office.checks.database.write() as connection:
        await organization_repository.set_role(connection, office.acme.organization.id, bob.id, Role.VIEWER)
    found = await view(office, asked, reader)
    assert (found["votes"], found["approvals"], found["remaining"]) == ([vote | {"counts": False}], 0, 2)
    office.clock.seconds += 5
    await office.vote("reject", asked, ada, reason="Not needed.")
    found = await view(office, asked, reader)
    assert [(one["approverName"], one["decision"], one["counts"]) for one in found["votes"]] == [
        ("Admin", "APPROVE", None),
        ("Member", "REJECT", None),
    ]
    assert (found["request"]["status"], found["deciderName"]) == ("REJECTED", "Member")


async def acting(office: Office, agent: Member, owner: Member) -> Member:
    """The agent with a token that acts for its owner."""
    async with office.checks.database.write() as connection:
        org_id = office.acme.organization.id
        made = await organization_repository.create_token(connection, org_id, agent.id, "for")
        row = {
            "token_id": made.id,
            "org_id": org_id,
            "subject_id": owner.id,
            "chain": [agent.id],
            "created_at": office.now(),
        }
        await connection.execute(delegations.insert().values(row))
    return Member(agent.id, made.secret)


Scene = Callable[[Office], Awaitable[tuple[dict[str, Any], Member]]]


async def nobody_has_voted(office: Office) -> tuple[dict[str, Any], Member]:
    return await office.ask(), await office.member()


async def own(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member()
    return await office.ask(ada), ada


async def own_without_the_right_to_decide(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member(scopes=frozenset({READ, WRITE}))
    return await office.ask(ada), ada


async def own_with_a_role_that_may_not_ask_any_more(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member()
    asked = await office.ask(ada)
    async with office.checks.database.write() as connection:
        await organization_repository.set_role(connection, office.acme.organization.id, ada.id, Role.VIEWER)
    return asked, ada


async def of_ones_agent(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member()
    return await office.ask(await office.machine(ada)), ada


async def of_ones_owner(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member()
    agent = await office.machine(ada)
    await office.policy(machineApproverIds=[agent.id])
    return await office.ask(ada), agent


async def by_a_machine_that_is_not_listed(office: Office) -> tuple[dict[str, Any], Member]:
    return await office.ask(), await office.machine(await office.member())


async def by_a_machine_that_is_listed(office: Office) -> tuple[dict[str, Any], Member]:
    agent = await office.machine(await office.member())
    await office.policy(machineApproverIds=[agent.id])
    return await office.ask(), agent


async def by_another_role(office: Office) -> tuple[dict[str, Any], Member]:
    await office.policy(approverRoles=["ADMIN", "OWNER"])
    return await office.ask(), await office.member()


async def by_a_viewer(office: Office) -> tuple[dict[str, Any], Member]:
    return await office.ask(), await office.member(Role.VIEWER)


async def by_a_token_that_may_ask(office: Office) -> tuple[dict[str, Any], Member]:
    return await office.ask(), await office.member(scopes=frozenset({READ, WRITE}))


async def of_a_requester_who_has_left(office: Office) -> tuple[dict[str, Any], Member]:
    ada = await office.member()
    asked = await office.ask(ada)
    async with office.checks.database.write() as connection:
        await organization_repository.remove_membership(connection, office.acme.organization.id, ada.id)
    return asked, await office.member()


async def expired(office: Office) -> tuple[dict[str, Any], Member]:
    asked, voter = await office.ask(ttlMinutes=1), await office.member()
    office.clock.seconds += 60
    return asked, voter


async def approved_by_another(office: Office) -> tuple[dict[str, Any], Member]:
    asked = await office.ask()
    await office.vote("approve", asked, await office.member())
    return asked, await office.member()


async def approved_by_oneself(office: Office) -> tuple[dict[str, Any], Member]:
    asked, voter = await office.ask(), await office.member()
    await office.vote("approve", asked, voter)
    return asked, voter


async def rejected_by_oneself(office: Office) -> tuple[dict[str, Any], Member]:
    asked, voter = await office.ask(), await office.member()
    await office.vote("reject", asked, voter)
    return asked, voter


async def rejected_by_another(office: Office) -> tuple[dict[str, Any], Member]:
    asked = await office.ask()
    await office.vote("reject", asked, await office.member())
    return asked, await office.member()


async def approved_and_not_enough(office: Office) -> tuple[dict[str, Any], Member]:
    await office.policy(minApprovers=2)
    asked, voter = await office.ask(), await office.member()
    await office.vote("approve", asked, voter)
    return asked, voter


async def approved_and_enough_by_now(office: Office) -> tuple[dict[str, Any], Member]:
    """Another one could not decide when this one voted, and can again: approving once more decides."""
    await office.policy(minApprovers=2)
    asked, other, voter = await office.ask(), await office.member(), await office.member()
    org_id = office.acme.organization.id
    await office.vote("approve", asked, other)
    async with office.checks.database.write() as connection:
        await organization_repository.set_role(connection, org_id, other.id, Role.VIEWER)
    await office.vote("approve", asked, voter)
    async with office.checks.database.write() as connection:
        await organization_repository.set_role(connection, org_id, other.id, Role.MEMBER)
    return asked, voter


async def approved_and_not_counted_any_more(office: Office) -> tuple[dict[str, Any], Member]:
    """The machine belonged to somebody to whom that which asks was handed; it belongs to another one now."""
    alice, bob, carol = [await office.member() for _ in range(3)]
    asking, machine = await office.machine(alice), await office.machine(bob)
    await office.policy(minApprovers=2, machineApproverIds=[machine.id])
    asked = await office.ask(asking)
    await office.vote("approve", asked, machine)
    for handed, owner in ((asking, bob), (machine, carol)):
        async with office.checks.database.write() as connection:
            of_handed = principals.c.id == handed.id
            await connection.execute(principals.update().where(of_handed).values(owner_id=owner.id))
    return asked, machine


ANYTHING: tuple[str | None, str | None] = (None, None)
SCENES: list[tuple[Scene, tuple[str | None, str | None]]] = [
    (nobody_has_voted, ANYTHING),
    (own, (OWN, None)),
    (own_without_the_right_to_decide, (NO_SCOPE, None)),
    (own_with_a_role_that_may_not_ask_any_more, (NO_SCOPE, NO_SCOPES)),
    (of_ones_agent, ANYTHING),
    (of_ones_owner, (SIBLING, None)),
    (by_a_machine_that_is_not_listed, (UNLISTED, UNLISTED)),
    (by_a_machine_that_is_listed, ANYTHING),
    (by_another_role, (ROLES, ROLES)),
    (by_a_viewer, (NO_SCOPE, NO_SCOPES)),
    (by_a_token_that_may_ask, (NO_SCOPE, NO_SCOPE)),
    (of_a_requester_who_has_left, (GONE, None)),
    (expired, ("The request is already EXPIRED.", "The request is already EXPIRED.")),
    (approved_by_another, ("The request is already APPROVED.", "The request is already APPROVED.")),
    (approved_by_oneself, (APPROVED, "The request is already APPROVED.")),
    (rejected_by_oneself, ("The request is already REJECTED.", REJECTED)),
    (rejected_by_another, ("The request is already REJECTED.", "The request is already REJECTED.")),
    (approved_and_not_enough, (APPROVED, None)),
    (approved_and_enough_by_now, ANYTHING),
    (approved_and_not_counted_any_more, ANYTHING),
]


@pytest.mark.parametrize("verb", ["approve", "reject"])
@pytest.mark.parametrize(("scene", "expected"), SCENES, ids=[scene.__name__ for scene, _ in SCENES])
async def test_a_view_says_what_a_vote_is_answered(
    office: Office, scene: Scene, expected: tuple[str | None, str | None], verb: str
) -> None:
    """Each sentence is that of the refusal; without one the vote changes something."""
    asked, voter = await scene(office)
    found = await view(office, asked, voter)
    assert (await office.call("GET", INBOX, token=voter.token))[1]["data"] == [found]
    viewer = found["viewer"]
    assert (viewer["why"]["approve"], viewer["why"]["reject"]) == expected
    assert (viewer["mayApprove"], viewer["mayReject"]) == tuple(one is None for one in expected)
    why = viewer["why"][verb]
    status, answer = await office.vote(verb, asked, voter)
    if why is None:
        assert (status, answer["idempotent"]) == (200, False)
        seen = await view(office, asked, voter)
        assert (seen["remaining"], seen["approvals"]) == (answer["remaining"], answer["approvals"])
    elif why in (APPROVED, REJECTED):
        assert (status, answer["idempotent"]) == (200, True)
    else:
        assert (status, answer["error"]["message"]) in ((403, why), (409, why))


async def test_agents_are_named_with_those_they_act_for(office: Office) -> None:
    ada, bob = await office.member(), await office.member(Role.ADMIN)
    asker, voter = await office.machine(ada), await office.machine(bob, PrincipalKind.SERVICE)
    await office.policy(minApprovers=2, machineApproverIds=[voter.id])
    asked = await office.ask(await acting(office, asker, ada))
    await office.vote("approve", asked, await acting(office, voter, bob))
    found = await view(office, asked, bob)
    assert (found["requesterName"], found["onBehalfOfName"]) == ("Bot", "Member")
    (vote,) = found["votes"]
    assert (vote["approver"], vote["approverName"]) == (voter.id, "Bot")
    assert (vote["onBehalfOf"], vote["onBehalfOfName"]) == (bob.id, "Admin")


async def test_the_latest_votes_are_listed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_schemas, "MAX_LISTED_VOTES", 2)
    await office.policy(minApprovers=4)
    asked, voters = await office.ask(), [await office.member() for _ in range(3)]
    for voter in voters:
        office.clock.seconds += 1
        await office.vote("approve", asked, voter)
    found = await view(office, asked, voters[0])
    assert [one["approver"] for one in found["votes"]] == [voters[1].id, voters[2].id]
    assert (found["approvals"], found["remaining"], found["viewer"]["why"]["approve"]) == (3, 1, APPROVED)


async def test_what_is_not_there(office: Office) -> None:
    member = await office.member()
    other = await new_member(office.checks.database, office.globex)
    asked = await office.ask()
    for path, by, expected in (
        (f"{REQUESTS}/{asked['id']}/view", other, 404),
        (f"{REQUESTS}/apr_{'0' * 26}/view", member, 404),
        (f"{REQUESTS}/%00/view", member, 404),
        (f"{REQUESTS}/inbox/view", member, 404),
        (INBOX, other, 404),
        (f"{REQUESTS}/{asked['id']}/view", await office.member(scopes=frozenset({DECIDE})), 403),
        (INBOX, await office.member(scopes=frozenset({DECIDE})), 403),
    ):
        assert (await office.call("GET", path, token=by.token))[0] == expected, path


async def pages(office: Office, by: Member, **query: str) -> list[tuple[str, str]]:
    """Every request of the inbox with its status, two at a time."""
    found: list[tuple[str, str]] = []
    params = {"limit": "2"} | query
    while True:
        status, page, _ = await office.call("GET", INBOX, token=by.token, params=params)
        assert status == 200, page
        found += [(one["request"]["id"], one["request"]["status"]) for one in page["data"]]
        assert page["hasMore"] == (page["nextCursor"] is not None)
        if page["nextCursor"] is None:
            return found
        assert len(page["data"]) == 2
        params["cursor"] = page["nextCursor"]


@pytest.mark.both_stores
async def test_the_inbox_begins_with_what_expires_first(office: Office) -> None:
    voter = await office.member()
    minutes = (40, 20, 60, 1, 30, 2, 20, 50, 10)
    asked = [await office.ask(targetId=str(number), ttlMinutes=minutes[number % len(minutes)]) for number in range(12)]
    for number in (0, 6, 10):
        await office.vote("approve" if number else "reject", asked[number], voter)
    office.clock.seconds += 120
    now = office.now()
    async with office.checks.database.write() as connection:
        assert await repository.mark_expired(connection, asked[3]["id"], now)
    ended = {0: "REJECTED", 6: "APPROVED", 10: "APPROVED", 3: "EXPIRED", 5: "EXPIRED"}
    pending = sorted(set(range(12)) - ended.keys(), key=lambda n: (asked[n]["expiresAt"], asked[n]["id"]))
    last = [(asked[n]["id"], ended[n]) for n in sorted(ended, reverse=True)]
    first = [(asked[n]["id"], "PENDING") for n in pending]
    assert await pages(office, voter) == first + last
    assert await pages(office, voter, status="PENDING") == first
    for status in ("APPROVED", "REJECTED", "EXPIRED"):
        assert await pages(office, voter, status=status) == [one for one in last if one[1] == status]
        _, page, _ = await office.call("GET", INBOX, token=voter.token, params={"status": status})
        assert page["pendingCount"] == len(pending)


async def test_none_is_missed_while_others_end(office: Office) -> None:
    voter = await office.member()
    asked = [await office.ask(targetId=str(number), ttlMinutes=number + 1) for number in range(6)]
    _, page, _ = await office.call("GET", INBOX, token=voter.token, params={"limit": "2"})
    seen = [one["request"]["id"] for one in page["data"]]
    await office.vote("approve", asked[4], voter)
    office.clock.seconds += 180  # the third one expires
    while page["nextCursor"] is not None:
        params = {"limit": "2", "cursor": page["nextCursor"]}
        _, page, _ = await office.call("GET", INBOX, token=voter.token, params=params)
        seen += [one["request"]["id"] for one in page["data"]]
    assert {one["id"] for one in asked} == set(seen)


@pytest.mark.parametrize(
    ("query", "path", "code"),
    [
        ({"status": "OPEN"}, "query.status", "not_allowed"),
        ({"limit": "0"}, "query.limit", "too_small"),
        ({"limit": "101"}, "query.limit", "too_large"),
        ({"sort": "x"}, "query.sort", "unknown_field"),
        ({"cursor": "x"}, "query.cursor", "invalid"),
    ],
)
async def test_queries_that_are_not_valid(office: Office, query: dict[str, str], path: str, code: str) -> None:
    status, answer, _ = await office.call("GET", INBOX, params=query)
    assert status == 400
    assert [(one["path"], one["code"]) for one in answer["error"]["details"]] == [(path, code)]


async def test_a_cursor_of_another_list(office: Office) -> None:
    for number in range(3):
        await office.ask(targetId=str(number))
    _, page, _ = await office.call("GET", INBOX, params={"limit": "1"})
    cursor = {"cursor": page["nextCursor"]}
    assert (await office.call("GET", INBOX, params=cursor))[0] == 200
    assert (await office.call("GET", INBOX, params=cursor | {"status": "PENDING"}))[0] == 400
    other = "/orgs/globex/approval-requests/inbox"
    assert (await office.call("GET", other, token=office.globex.token.secret, params=cursor))[0] == 400


async def test_a_page_reads_what_it_shows(office: Office) -> None:
    """Besides the pending ones, whose ids are sorted; and more requests need no more statements."""
    voter = await office.member()
    for number in range(4):
        await office.ask(targetId=str(number))
    pending = "ix_approval_requests_open (org_id=?)"
    own, sort = "sqlite_autoindex_approval_requests_1 (id=?)", "USE TEMP B-TREE FOR ORDER BY"
    decided = "ix_approval_requests_decided (org_id=? AND status=?)"
    expired = ["ix_approval_requests_noted (org_id=?)", pending]
    for status, limit, plan in (
        ("PENDING", "4", [pending, sort, own, pending]),
        ("PENDING", "1", [pending, sort, own, pending]),
        ("REJECTED", "4", [decided, pending]),
        ("EXPIRED", "4", [*expired, pending]),
        (None, "1", [pending, sort, own, pending]),
        (None, "4", [pending, sort, own, decided, decided, *expired, pending]),
    ):
        params = {"limit": limit} | ({} if status is None else {"status": status})
        with Plans(office.checks.database, "approval_requests") as plans:
            assert (await office.call("GET", INBOX, token=voter.token, params=params))[0] == 200
        assert plans.seen == plan, (status, limit)
