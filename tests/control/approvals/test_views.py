"""Requests as those see them who vote on them: names, votes, what is missing, and what a vote would be answered."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from chassis.auth.tables import delegations
from chassis.db.database import format_time
from control.approvals import repository, view_schemas
from control.identity import organization_repository
from proto.identity import PrincipalKind, Role, Scope
from tests.control.approvals.office import REQUESTS, Member, Office, hand_over, remove, set_role
from tests.control.plans import Plans

INBOX = f"{REQUESTS}/inbox"
READ, WRITE = Scope.APPROVALS_READ, Scope.APPROVALS_WRITE
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
    await set_role(office, bob, Role.VIEWER)
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


@dataclass
class Scene:
    """A request of an action of its own, on which `voter` is going to vote. Its policies hold for this action alone."""

    office: Office
    action: str

    async def ask(self, by: Member | None = None, **body: Any) -> dict[str, Any]:
        return await self.office.ask(by, action=self.action, **body)

    async def policy(self, **body: Any) -> None:
        await self.office.policy(actionPattern=self.action, **body)

    async def voted(self, verb: str, by: Member | None = None) -> dict[str, Any]:
        """A request on which a member, or this one, has voted."""
        asked = await self.ask()
        await self.office.vote(verb, asked, by or await self.office.member())
        return asked


Staged = tuple[dict[str, Any], Member]


async def own(scene: Scene, scopes: frozenset[Scope] | None = None) -> Staged:
    ada = await scene.office.member(scopes=scopes)
    return await scene.ask(ada), ada


async def own_with_a_role_that_may_not_ask_any_more(scene: Scene) -> Staged:
    asked, ada = await own(scene)
    await set_role(scene.office, ada, Role.VIEWER)
    return asked, ada


async def of_ones_agent(scene: Scene) -> Staged:
    ada = await scene.office.member()
    return await scene.ask(await scene.office.machine(ada)), ada


async def of_ones_owner(scene: Scene) -> Staged:
    ada = await scene.office.member()
    agent = await scene.office.machine(ada)
    await scene.policy(machineApproverIds=[agent.id])
    return await scene.ask(ada), agent


async def by_a_machine(scene: Scene, *, is_listed: bool) -> Staged:
    agent = await scene.office.machine(await scene.office.member())
    await scene.policy(machineApproverIds=[agent.id] if is_listed else [])
    return await scene.ask(), agent


async def by_another_role(scene: Scene) -> Staged:
    await scene.policy(approverRoles=["ADMIN", "OWNER"])
    return await scene.ask(), await scene.office.member()


async def by_a_member(scene: Scene, role: Role = Role.MEMBER, scopes: frozenset[Scope] | None = None) -> Staged:
    return await scene.ask(), await scene.office.member(role, scopes)


async def of_a_requester_who_has_left(scene: Scene) -> Staged:
    ada = await scene.office.member()
    asked = await scene.ask(ada)
    await remove(scene.office, ada)
    return asked, await scene.office.member()


async def expired(scene: Scene) -> Staged:
    asked, voter = await scene.ask(ttlMinutes=1), await scene.office.member()
    scene.office.clock.seconds += 60
    return asked, voter


async def ended_by_another(scene: Scene, verb: str) -> Staged:
    return await scene.voted(verb), await scene.office.member()


async def ended_by_oneself(scene: Scene, verb: str) -> Staged:
    voter = await scene.office.member()
    return await scene.voted(verb, voter), voter


async def approved_and_not_enough(scene: Scene) -> Staged:
    await scene.policy(minApprovers=2)
    return await ended_by_oneself(scene, "approve")


async def approved_and_enough_by_now(scene: Scene) -> Staged:
    """Another one could not decide when this one voted, and can again: approving once more decides."""
    await scene.policy(minApprovers=2)
    other, voter = await scene.office.member(), await scene.office.member()
    asked = await scene.voted("approve", other)
    await set_role(scene.office, other, Role.VIEWER)
    await scene.office.vote("approve", asked, voter)
    await set_role(scene.office, other, Role.MEMBER)
    return asked, voter


async def approved_and_not_counted_any_more(scene: Scene) -> Staged:
    """The machine belonged to somebody to whom that which asks was handed; it belongs to another one now."""
    alice, bob, carol = [await scene.office.member() for _ in range(3)]
    asking, machine = await scene.office.machine(alice), await scene.office.machine(bob)
    await scene.policy(minApprovers=2, machineApproverIds=[machine.id])
    asked = await scene.ask(asking)
    await scene.office.vote("approve", asked, machine)
    for handed, owner in ((asking, bob), (machine, carol)):
        await hand_over(scene.office, handed, owner)
    return asked, machine


ASKS = frozenset({READ, WRITE})
ENDED = {status: f"The request is already {status}." for status in ("APPROVED", "REJECTED", "EXPIRED")}
# Why one cannot approve and reject in each scene; None: one can.
SCENES: dict[str, tuple[Callable[[Scene], Awaitable[Staged]], str | None, str | None]] = {
    "nobody has voted": (by_a_member, None, None),
    "one's own": (own, OWN, None),
    "one's own, without the right to decide": (partial(own, scopes=ASKS), NO_SCOPE, None),
    "one's own, with a role that may not ask any more": (
        own_with_a_role_that_may_not_ask_any_more, NO_SCOPE, NO_SCOPES),
    "of one's agent": (of_ones_agent, None, None),
    "of one's owner": (of_ones_owner, SIBLING, None),
    "by a machine that is not listed": (partial(by_a_machine, is_listed=False), UNLISTED, UNLISTED),
    "by a machine that is listed": (partial(by_a_machine, is_listed=True), None, None),
    "by another role": (by_another_role, ROLES, ROLES),
    "by a viewer": (partial(by_a_member, role=Role.VIEWER), NO_SCOPE, NO_SCOPES),
    "by a token that may ask": (partial(by_a_member, scopes=ASKS), NO_SCOPE, NO_SCOPE),
    "of a requester who has left": (of_a_requester_who_has_left, GONE, None),
    "expired": (expired, ENDED["EXPIRED"], ENDED["EXPIRED"]),
    "approved by another": (partial(ended_by_another, verb="approve"), ENDED["APPROVED"], ENDED["APPROVED"]),
    "approved by oneself": (partial(ended_by_oneself, verb="approve"), APPROVED, ENDED["APPROVED"]),
    "rejected by oneself": (partial(ended_by_oneself, verb="reject"), ENDED["REJECTED"], REJECTED),
    "rejected by another": (partial(ended_by_another, verb="reject"), ENDED["REJECTED"], ENDED["REJECTED"]),
    "approved, and not enough": (approved_and_not_enough, APPROVED, None),
    "approved, and enough by now": (approved_and_enough_by_now, None, None),
    "approved, and not counted any more": (approved_and_not_counted_any_more, None, None),
}  # fmt: skip


async def test_a_view_says_what_a_vote_is_answered(office: Office, subtests: pytest.Subtests) -> None:
    """Each sentence is that of the refusal; without one the vote changes something."""
    for number, (name, (stage, *expected)) in enumerate(SCENES.items()):
        with subtests.test(scene=name):
            asked, voter = await stage(Scene(office, f"deploy.n{number}"))
            found = await view(office, asked, voter)
            _, page, _ = await office.call("GET", INBOX, token=voter.token, params={"limit": "1"})
            assert page["data"] == [found]
            viewer = found["viewer"]
            assert [viewer["why"]["approve"], viewer["why"]["reject"]] == expected
            assert [viewer["mayApprove"], viewer["mayReject"]] == [one is None for one in expected]
            refused_first = sorted(viewer["why"], key=lambda verb: viewer["why"][verb] is None)
            for verb in refused_first:
                await check_vote(office, asked, voter, verb, viewer["why"][verb])
                if viewer["why"][verb] is None and expected == [None, None]:
                    asked, voter = await stage(Scene(office, f"deploy.n{number}.again"))
        office.clock.seconds += 25 * 3_600  # the requests of this scene come last from now on


async def check_vote(office: Office, asked: dict[str, Any], voter: Member, verb: str, why: str | None) -> None:
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
