"""Approve, reject, withdraw, over HTTP (specification 4.1; decisions 7)."""

import asyncio
from typing import Any

import msgspec
import pytest

from chassis.auth.credential_guards import LIMITS
from chassis.auth.tables import access_tokens
from chassis.db.database import format_time
from control.identity.organizations import organization_store
from proto.identity import PrincipalKind, Role, Scope
from tests.control.approvals.office import ASKED, REQUESTS, Member, Office, hand_over, narrow_token, remove, set_role

ASKS = frozenset({Scope.APPROVALS_READ, Scope.APPROVALS_WRITE})


def standing(answer: Any) -> tuple[Any, ...]:
    names = ("approvals", "remaining", "hasIndependentApprover", "idempotent")
    return answer["request"]["status"], *(answer[name] for name in names)


async def standing_after(office: Office, verb: str, asked: dict[str, Any], voter: Member) -> tuple[Any, ...]:
    """Of a request, after a vote that is accepted."""
    status, answer = await office.vote(verb, asked, voter)
    assert status == 200, answer
    return standing(answer)


async def refusal_of(office: Office, verb: str, asked: dict[str, Any], voter: Member) -> tuple[int, str]:
    """Status and message of a vote that is refused."""
    status, answer = await office.vote(verb, asked, voter)
    return status, answer["error"]["message"]


async def test_one_approval_decides_when_one_is_required(office: Office) -> None:
    asked, approver = await office.ask(), await office.member()
    office.clock.seconds += 5
    status, answer = await office.vote("approve", asked, approver, reason="  Read the diff. ")
    assert status == 200
    assert list(answer) == ["request", "approvals", "remaining", "hasIndependentApprover", "idempotent"]
    decided = {"status": "APPROVED", "deciderPrincipalId": approver.id, "reason": "Read the diff."}
    assert answer["request"] == asked | decided | {"decidedAt": format_time(office.clock.now())}
    assert standing(answer) == ("APPROVED", 1, 0, True, False)
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1] == answer["request"]


def reason(*texts: Any) -> list[Any]:
    return [{"reason": text} for text in texts]


# Bodies by verb, and the field and code of what is wrong with them; None: nothing.
REASONS: list[tuple[str, list[Any], tuple[str, str] | None]] = [
    ("approve", [None, {}, *reason("x" * 4_096, "", " ", "\u200b")], None),
    ("approve", reason("x" * 4_097), ("body.reason", "too_long")),
    ("approve", reason(None), ("body.reason", "type")),
    ("approve", reason("a\x00b"), ("body.reason", "format")),
    ("approve", [{"reasons": "x"}], ("body.reasons", "unknown_field")),
    ("approve", [[]], ("body", "type")),
    ("reject", reason("x", "x" * 4_096, "lines\nand\ttabs", "שלום\u200f \u2028 ok"), None),
    ("reject", reason("x" * 4_097), ("body.reason", "too_long")),
    ("reject", reason("", " \n ", "\u200b", "\u3164 \u2060", "\U000e0041"), ("body.reason", "too_short")),
    ("reject", reason(" \x00 ", "a\x7fb", "a\x85b", "a\u202eb", "a\u2069b"), ("body.reason", "format")),
    ("reject", reason(None), ("body.reason", "type")),
    ("reject", [{}], ("body.reason", "missing")),
    ("reject", [{"reason": "x", "more": 1}], ("body.more", "unknown_field")),
]


async def post(office: Office, asked: dict[str, Any], verb: str, raw: bytes, voter: Member) -> tuple[int, Any]:
    path, headers = f"{REQUESTS}/{asked['id']}/{verb}", {"Content-Type": "application/json"}
    status, answer, _ = await office.call("POST", path, token=voter.token, data=raw, headers=headers)
    return status, answer


async def test_bounds_of_reasons(office: Office) -> None:
    voter, waiting = await office.member(), await office.ask()
    for number, (verb, body, wrong) in enumerate((verb, one, wrong) for verb, all_, wrong in REASONS for one in all_):
        asked = await office.ask(targetId=f"target {number}") if wrong is None else waiting
        status, answer = await post(office, asked, verb, msgspec.json.encode(body), voter)
        if wrong is None:
            assert status == 200, body
            assert answer["request"]["reason"] == ((body or {}).get("reason", "").strip(" \u200b") or None), body
        else:
            assert status == 400, body
            assert [(one["path"], one["code"]) for one in answer["error"]["details"]] == [wrong], body
    for verb, raw in (("approve", b""), ("reject", b""), ("reject", b"null"), ("approve", b"{")):
        status, answer = await post(office, waiting, verb, raw, voter)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), (verb, raw)


async def test_the_policy_sets_the_number_of_approvals(office: Office) -> None:
    await office.policy(minApprovers=3)
    asked = await office.ask()
    voters = [await office.member() for _ in range(4)]
    for number, voter in enumerate(voters[:3], 1):
        status, answer = await office.vote("approve", asked, voter)
        expected = ("APPROVED" if number == 3 else "PENDING", number, 3 - number, True, False)
        assert (status, standing(answer)) == (200, expected)
        assert await standing_after(office, "approve", asked, voter) == (*expected[:4], True), (
            "again: the same, and nothing new"
        )
    assert (await office.vote("approve", asked, voters[3]))[0] == 409


async def test_requesters_cannot_approve_their_own_requests(office: Office) -> None:
    member = await office.member()
    asked = await office.ask(member)
    status, answer = await office.vote("approve", asked, member)
    assert (status, answer["error"]["code"], answer["error"]["message"]) == (
        *(403, "forbidden"),
        "You cannot approve your own request.",
    )
    assert "details" not in answer["error"]
    events = await office.audit(objectId=asked["id"])
    assert [one["action"] for one in events] == ["approval_request.create"]
    await office.vote("approve", asked, await office.member())
    assert (await office.vote("approve", asked, member))[0] == 409, "the state comes first"


async def test_the_owner_of_an_agent_is_not_independent_of_it(office: Office) -> None:
    alice, bob = await office.member(), await office.member()
    asked = await office.ask(await office.machine(alice))
    assert await standing_after(office, "approve", asked, alice) == ("PENDING", 1, 1, False, False)
    assert await standing_after(office, "approve", asked, bob) == ("APPROVED", 2, 0, True, False)


async def test_an_agent_that_is_handed_over_belongs_to_both(office: Office) -> None:
    """Neither who owned it when it asked nor who owns it now is independent of it; who owns it now may withdraw."""
    await office.policy(minApprovers=2)
    alice, bob, carol = [await office.member() for _ in range(3)]
    agent = await office.machine(alice)
    asked, other, third = [await office.ask(agent, targetId=str(number)) for number in range(3)]
    await hand_over(office, agent, bob)
    for number, voter in enumerate((alice, bob), 1):
        assert await standing_after(office, "approve", asked, voter) == ("PENDING", number, 1, False, False)
    assert await standing_after(office, "approve", asked, carol) == ("APPROVED", 3, 0, True, False)
    before, now = [await narrow_token(office, one, *ASKS) for one in (alice, bob)]
    assert (await office.vote("reject", other, before))[0] == 403, "it is no agent of hers any more"
    assert (await office.vote("reject", third, now))[0] == 200


async def test_machines_decide_only_where_they_are_listed_and_not_among_themselves(office: Office) -> None:
    alice, bob = await office.member(), await office.member()
    asker, sibling, stranger = await office.machine(alice), await office.machine(alice), await office.machine(bob)
    service = await office.machine(bob, PrincipalKind.SERVICE)
    asked: dict[str, Any] = {}
    for listed in ([], [sibling.id, service.id]):
        await office.policy(actionPattern=f"run.{len(listed)}", machineApproverIds=listed)
        asked = await office.ask(asker, action=f"run.{len(listed)}")
        for verb in ("approve", "reject"):
            assert await refusal_of(office, verb, asked, stranger) == (
                403,
                "An agent or service can decide only if the policy lists it in machineApproverIds.",
            )
    assert await refusal_of(office, "approve", asked, sibling) == (
        403,
        "An agent or service cannot approve a request of its owner or of another principal with the same owner.",
    )
    assert await standing_after(office, "approve", asked, service) == ("APPROVED", 1, 0, True, False)
    asked = await office.ask(asker, action="run.2", targetId="other")
    assert (await office.vote("reject", asked, sibling))[0] == 200


async def test_a_user_and_the_machines_they_own_are_one_approver(office: Office) -> None:
    alice, bob = await office.member(), await office.member()
    first, second = await office.machine(bob), await office.machine(bob, PrincipalKind.SERVICE)
    others = await office.machine(await office.member())
    listed = [first.id, second.id, others.id]
    await office.policy(minApprovers=3, machineApproverIds=listed)
    asked = await office.ask()
    for voter, number in ((first, 1), (second, 1), (bob, 1), (alice, 2)):
        assert await standing_after(office, "approve", asked, voter) == ("PENDING", number, 3 - number, True, False)
    assert await standing_after(office, "approve", asked, others) == ("APPROVED", 3, 0, True, False)


@pytest.mark.both_stores
async def test_an_agent_handed_to_the_requester_no_longer_counts(office: Office) -> None:
    """It may have approved before it was handed over."""
    alice, bob, carol = [await office.member() for _ in range(3)]
    machine = await office.machine(bob)
    await office.policy(minApprovers=2, machineApproverIds=[machine.id])
    asked = await office.ask(alice)
    assert standing((await office.vote("approve", asked, machine))[1])[:2] == ("PENDING", 1)
    await hand_over(office, machine, alice)
    assert await standing_after(office, "approve", asked, carol) == ("PENDING", 1, 1, True, False)


async def test_a_vote_that_no_longer_counts_is_cast_again(office: Office) -> None:
    """A machine approved while it belonged to somebody to whom then what asks was handed."""
    alice, bob, carol, dave = [await office.member() for _ in range(4)]
    asking, machine = await office.machine(alice), await office.machine(bob)
    await office.policy(minApprovers=2, machineApproverIds=[machine.id])
    asked = await office.ask(asking)
    assert standing((await office.vote("approve", asked, machine))[1]) == ("PENDING", 1, 1, True, False)
    for handed, owner in ((asking, bob), (machine, carol)):
        await hand_over(office, handed, owner)
    for idempotent in (False, True):
        assert await standing_after(office, "approve", asked, machine) == ("PENDING", 1, 1, True, idempotent)
    assert standing((await office.vote("approve", asked, dave))[1])[:2] == ("APPROVED", 2)
    votes = await office.audit(action="approval_request.vote")
    assert [event["actorPrincipalId"] for event in votes] == [machine.id, machine.id, dave.id]


async def test_roles_that_decide_are_the_policys(office: Office) -> None:
    await office.policy(approverRoles=["ADMIN", "OWNER"])
    requester, member, admin = await office.member(), await office.member(), await office.member(Role.ADMIN)
    asked = await office.ask(requester)
    for verb in ("approve", "reject"):
        assert await refusal_of(office, verb, asked, member) == (
            403,
            "Deciding this request requires the role ADMIN or OWNER.",
        )
    assert (await office.vote("approve", asked, admin))[0] == 200


async def test_one_rejection_is_final(office: Office) -> None:
    await office.policy(minApprovers=3)
    asked = await office.ask()
    voters = [await office.member() for _ in range(3)]
    for voter in voters[:2]:
        await office.vote("approve", asked, voter)
    status, answer = await office.vote("reject", asked, voters[2], reason="No.")
    assert (status, standing(answer)) == (200, ("REJECTED", 2, 1, True, False))
    assert answer["request"]["reason"] == "No."
    assert answer["request"]["deciderPrincipalId"] == voters[2].id
    again = await office.vote("reject", asked, voters[2], reason="Still no.")
    assert again == (200, answer | {"idempotent": True})
    for verb, voter in (("approve", voters[0]), ("reject", voters[1]), ("approve", voters[2])):
        status, refusal = await office.vote(verb, asked, voter)
        assert (status, refusal["error"]["code"], refusal["error"]["message"]) == (
            *(409, "conflict"),
            "The request is already REJECTED.",
        )


async def test_who_approved_may_still_reject(office: Office) -> None:
    await office.policy(minApprovers=2)
    asked, voter = await office.ask(), await office.member()
    await office.vote("approve", asked, voter)
    assert await standing_after(office, "reject", asked, voter) == ("REJECTED", 0, 2, False, False)


async def test_the_requester_withdraws(office: Office) -> None:
    alice = await office.member()
    asker = await office.machine(alice)
    narrow = await office.member(Role.MEMBER, ASKS)
    asked = await office.ask(narrow)
    for other in (await office.member(Role.VIEWER), await office.member(Role.MEMBER, ASKS)):
        status, refusal = await office.vote("reject", asked, other)
        assert (status, refusal["error"]["code"]) == (403, "forbidden")
        assert "approvals:decide" in refusal["error"]["message"]
    status, answer = await office.vote("reject", asked, narrow, reason="Not needed any more.")
    assert (status, answer["request"]["status"], answer["request"]["deciderPrincipalId"]) == (
        200,
        "REJECTED",
        narrow.id,
    )
    for withdrawing in (asker, alice):
        asked = await office.ask(asker)
        assert (await office.vote("reject", asked, withdrawing))[0] == 200


async def test_withdrawing_requires_the_scope_to_request_or_to_decide(office: Office) -> None:
    """With another token of the same member than the one that asked; to read is not enough."""
    asking = await office.member(Role.MEMBER, frozenset({Scope.APPROVALS_WRITE}))
    for more, expected in ((set[Scope](), 403), ({Scope.APPROVALS_WRITE}, 200), ({Scope.APPROVALS_DECIDE}, 200)):
        asked = await office.ask(asking, targetId=f"with {more}")
        withdrawing = await narrow_token(office, asking, Scope.APPROVALS_READ, *more)
        assert (await office.vote("reject", asked, withdrawing))[0] == expected, more
    assert (await office.vote("approve", await office.ask(asking, targetId="y"), asking))[0] == 403


async def test_undecided_requests_expire(office: Office) -> None:
    asked, voter = await office.ask(ttlMinutes=1), await office.member()
    office.clock.seconds += 59.999
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1]["status"] == "PENDING"
    office.clock.seconds += 0.002
    expired = asked | {"status": "EXPIRED"}
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1] == expired
    for verb in ("approve", "reject"):
        assert await refusal_of(office, verb, asked, voter) == (409, "The request is already EXPIRED.")


async def test_the_time_of_a_vote_is_read_after_the_wait_for_its_transaction(office: Office) -> None:
    asked, voter = await office.ask(ttlMinutes=1), await office.member()
    assert (await office.call("GET", REQUESTS, token=voter.token))[0] == 200
    async with office.checks.database.write():
        late = asyncio.create_task(office.vote("approve", asked, voter))
        await asyncio.sleep(0.2)  # whether it has come to wait by then makes no difference to what must be
        office.clock.seconds += 60
    status, answer = await late
    assert (status, answer["error"]["message"]) == (409, "The request is already EXPIRED.")


async def test_votes_of_those_who_left_do_not_count(office: Office) -> None:
    await office.policy(minApprovers=2)
    asked = await office.ask()
    first, second, third = [await office.member() for _ in range(3)]
    await office.vote("approve", asked, first)
    await remove(office, first)
    assert await standing_after(office, "approve", asked, second) == ("PENDING", 1, 1, True, False)
    await set_role(office, second, Role.VIEWER)
    assert await standing_after(office, "approve", asked, third) == ("PENDING", 1, 1, True, False)
    await set_role(office, second, Role.ADMIN)
    assert await standing_after(office, "approve", asked, third) == ("APPROVED", 2, 0, True, False), (
        "his vote is there, and now enough"
    )


async def test_requests_of_a_departed_requester_cannot_be_approved(office: Office) -> None:
    """Nor while the owner of an agent is: nobody could act on it."""
    voter, (disabled, departed) = await office.member(), [await office.member() for _ in range(2)]
    requests = [await office.ask(by) for one in (disabled, departed) for by in (one, await office.machine(one))]
    async with office.checks.database.write() as connection:
        await organization_store.disable_principal(connection, disabled.id)
    await remove(office, departed)
    for asked in requests:
        status, answer = await office.vote("approve", asked, voter)
        assert (status, answer["error"]["code"]) == (409, "conflict")
    assert (await office.vote("reject", requests[0], voter))[0] == 200
    async with office.checks.database.write() as connection:  # who comes back in time finds what he asked for
        org_id = office.acme.organization.id
        await organization_store.add_membership(connection, org_id, departed.id, Role.MEMBER)
    for asked in requests[2:]:
        assert (await office.vote("approve", asked, voter))[0] == 200


async def test_a_right_that_is_lost_is_lost_in_the_transaction_of_the_vote(office: Office) -> None:
    """Guards remember for some seconds; a vote does not."""
    asked = await office.ask()
    gone, demoted, disabled = [await office.member() for _ in range(3)]
    agent = await office.machine(gone)
    for voter in (gone, demoted, disabled, agent):
        assert (await office.call("GET", REQUESTS, token=voter.token))[0] == 200
    await remove(office, gone)
    await set_role(office, demoted, Role.VIEWER)
    async with office.checks.database.write() as connection:
        await organization_store.disable_principal(connection, disabled.id)
    assert LIMITS.fresh_s > 1, "they are remembered"
    for voter, expected in ((gone, 404), (demoted, 403), (disabled, 401), (agent, 404)):
        assert [(await office.vote(verb, asked, voter))[0] for verb in ("approve", "reject")] == [expected] * 2
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1] == asked


async def test_a_token_that_is_revoked_elsewhere_casts_no_vote(office: Office) -> None:
    """By another process, of which this one has not heard; not even to withdraw."""
    voter = await office.member()
    own, others = await office.ask(voter, targetId="own"), await office.ask()
    async with office.checks.database.write() as connection:
        of_voter = access_tokens.c.principal_id == voter.id
        await connection.execute(access_tokens.update().where(of_voter).values(revoked_at=office.clock.now()))
    for asked in (others, own):
        assert [(await office.vote(verb, asked, voter))[0] for verb in ("approve", "reject")] == [401] * 2
        assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1] == asked


async def test_a_scope_that_is_lost_elsewhere_withdraws_nothing(office: Office) -> None:
    member = await office.member()
    asked = await office.ask(member)
    await set_role(office, member, Role.VIEWER)
    assert (await office.vote("reject", asked, member))[0] == 403
    assert (await office.call("POST", REQUESTS, ASKED | {"targetId": "x"}, member.token))[0] == 403


@pytest.mark.both_stores
async def test_a_changed_policy_does_not_affect_existing_requests(office: Office) -> None:
    policy = await office.policy(minApprovers=2)
    path = f"/orgs/acme/approval-policies/{policy['id']}"
    asked, voters = await office.ask(), [await office.member() for _ in range(2)]
    await office.call("PATCH", path, {"minApprovers": 1, "approverRoles": ["OWNER"], "effect": "DENY"})
    assert standing((await office.vote("approve", asked, voters[0]))[1])[:3] == ("PENDING", 1, 1)
    assert (await office.call("DELETE", path))[0] == 204
    status, answer = await office.vote("approve", asked, voters[1])
    assert (status, standing(answer)[:3]) == (200, ("APPROVED", 2, 0))
    assert answer["request"]["policyId"] == policy["id"]


async def test_twenty_voters_at_once_make_one_transition(office: Office) -> None:
    await office.policy(minApprovers=5)
    asked = await office.ask()
    voters = [await office.member() for _ in range(20)]
    answers = await asyncio.gather(*(office.vote("approve", asked, voter) for voter in voters))
    by_status = {code: [answer for status, answer in answers if status == code] for code in (200, 409)}
    assert (len(by_status[200]), len(by_status[409])) == (5, 15)
    assert sorted(standing(answer)[:3] for answer in by_status[200]) == [
        ("APPROVED", 5, 0),
        *(("PENDING", number, 5 - number) for number in range(1, 5)),
    ]
    actions = [one["action"] for one in await office.audit(objectId=asked["id"])]
    assert actions.count("approval_request.approve") == 1
    assert actions.count("approval_request.vote") == 5
