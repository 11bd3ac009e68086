"""Requests as those see them who vote on them: names, votes, what is missing, and what a vote would be answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from chassis.auth.tables import delegations
from chassis.db.database import format_time
from control.approvals import store, views
from control.identity.organizations import organization_store
from proto.identity import PrincipalKind, Role, Scope
from tests.control.approvals.office import REQUESTS, Member, Office, remove, set_role
from tests.control.plans import Plans

INBOX = f"{REQUESTS}/inbox"
READ, WRITE = Scope.APPROVALS_READ, Scope.APPROVALS_WRITE
OWN = "You cannot approve your own request."
SIBLING = "An agent or service cannot approve a request of its owner or of another principal with the same owner."
UNLISTED = "An agent or service can decide only if the policy lists it in machineApproverIds."
ROLES = "Deciding this request requires the role ADMIN or OWNER."
GONE = (
    "The requester, its owner, or the principal on whose behalf the requester acts has left the organization or is "
    "disabled."
)
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
        made = await organization_store.create_token(connection, org_id, agent.id, "for")
        row = {"token_id": made.id, "org_id": org_id, "subject_id": owner.id, "chain": [agent.id]}
        await connection.execute(delegations.insert().values(row | {"created_at": office.now()}))
    return Member(agent.id, made.secret)


ASKS = frozenset({READ, WRITE})
IS_APPROVED, IS_REJECTED, IS_EXPIRED = (
    f"The request is already {status}." for status in ("APPROVED", "REJECTED", "EXPIRED")
)
LISTED: dict[str, Any] = {"machineApproverIds": ["agent"]}


@dataclass(frozen=True)
class Scene:
    """Why `voter` cannot approve and reject a request; None: they can. Others are an `agent` of the voter, the `human`
    whose agent is the voter, and an `other` member.
    """

    approve: str | None = None
    reject: str | None = None
    asks: str = "owner"
    role: Role = Role.MEMBER
    scopes: frozenset[Scope] | None = None
    is_machine: bool = False
    policy: Mapping[str, Any] | None = None
    since: str = ""  # who does or becomes what after the request

    async def stage(self, office: Office, action: str) -> tuple[dict[str, Any], Member]:
        """The request, which is of this action, and who votes."""
        voter = await office.member(self.role, self.scopes)
        people = {"voter": voter, "agent": await office.machine(voter), "other": await office.member()}
        if self.is_machine:
            people |= {"human": voter, "voter": people["agent"]}
        if self.policy is not None:
            listed = [people[name].id for name in self.policy.get("machineApproverIds", ())]
            await office.policy(actionPattern=action, **{**self.policy, "machineApproverIds": listed})
        asked = await office.ask(people.get(self.asks), action=action, ttlMinutes=1)
        for who, what in (step.split() for step in self.since.split(", ") if step):
            if what in ("approves", "rejects"):
                await office.vote(what[:-1], asked, people[who])
            elif what == "leaves":
                await remove(office, people[who])
            elif what == "passes":
                office.clock.seconds += 60
            else:
                await set_role(office, people[who], Role(what))
        return asked, people["voter"]


SCENES = {
    "nobody has voted": Scene(),
    "one's own": Scene(OWN, None, asks="voter"),
    "one's own, without the right to decide": Scene(NO_SCOPE, None, asks="voter", scopes=ASKS),
    "one's own, with a role that may not ask": Scene(NO_SCOPE, NO_SCOPES, asks="voter", since="voter VIEWER"),
    "of one's agent": Scene(asks="agent"),
    "of one's owner": Scene(SIBLING, None, asks="human", is_machine=True, policy=LISTED),
    "by a machine that is not listed": Scene(UNLISTED, UNLISTED, is_machine=True),
    "by a machine that is listed": Scene(is_machine=True, policy=LISTED),
    "by another role": Scene(ROLES, ROLES, policy={"approverRoles": ["ADMIN", "OWNER"]}),
    "by a viewer": Scene(NO_SCOPE, NO_SCOPES, role=Role.VIEWER),
    "by a token that may ask": Scene(NO_SCOPE, NO_SCOPE, scopes=ASKS),
    "of a requester who has left": Scene(GONE, None, asks="other", since="other leaves"),
    "expired": Scene(IS_EXPIRED, IS_EXPIRED, since="time passes"),
    "approved by another": Scene(IS_APPROVED, IS_APPROVED, since="other approves"),
    "approved by oneself": Scene(APPROVED, IS_APPROVED, since="voter approves"),
    "rejected by oneself": Scene(IS_REJECTED, REJECTED, since="voter rejects"),
    "rejected by another": Scene(IS_REJECTED, IS_REJECTED, since="other rejects"),
    "approved, and not enough": Scene(APPROVED, None, policy={"minApprovers": 2}, since="voter approves"),
    "approved, and another may decide again: approving once more decides": Scene(
        policy={"minApprovers": 2}, since="other approves, other VIEWER, voter approves, other MEMBER"
    ),
}


async def test_a_view_says_what_a_vote_is_answered(office: Office, subtests: pytest.Subtests) -> None:
    """Each sentence is that of the refusal; without one the vote changes something."""
    for number, (name, scene) in enumerate(SCENES.items()):
        with subtests.test(scene=name):
            asked, voter = await scene.stage(office, f"deploy.n{number}")
            expected = [scene.approve, scene.reject]
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
                    asked, voter = await scene.stage(office, f"deploy.n{number}.again")
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
    monkeypatch.setattr(views, "MAX_LISTED_VOTES", 2)
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
        assert await store.mark_expired(connection, asked[3]["id"], now)
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
