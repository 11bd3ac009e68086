"""The store alone, and votes of two processes on one store, whatever is checked before."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from chassis.auth.model import AuthorizationContext
from chassis.db.database import Database
from chassis.errors import ApiError
from control.approvals import store, voting
from control.approvals.bodies import NewRequest
from control.approvals.model import RequestRecord, Status
from control.approvals.notifications import LinkBuilder
from control.approvals.policies import store as policies
from control.approvals.policies.rules import FALLBACK
from control.approvals.requests import submit
from control.approvals.store import RequestDetails
from control.approvals.tables import approval_votes
from control.approvals.voting import Ballot, CastVote
from control.audit.tables import audit_events
from control.audit.verify import verify_stored
from control.routing.arguments import Transaction
from proto.identity import PrincipalKind
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.control.approvals.office import POLICY, Office, context, new_member

pytestmark = pytest.mark.both_stores


async def stored(office: Office, asked: dict[str, Any]) -> RequestRecord:
    async with office.checks.database.read() as connection:
        return await store.get(connection, office.acme.organization.id, asked["id"])


async def test_the_same_submission_through_other_principals_is_a_new_request(office: Office) -> None:
    alice = await office.member()
    agent, further = await office.machine(alice), await office.machine(alice)
    caller = context(office.acme.organization, agent.id, PrincipalKind.AGENT, alice.id, alice.id)
    now = office.now()
    asked = RequestDetails("deploy.it", "service", "x", None, {})
    async with office.checks.database.write() as connection:
        party = await store.load_participant(connection, caller)
        made = await store.create(connection, caller.org_id, party, asked, FALLBACK, now + timedelta(minutes=1), now)
        assert await store.find_open(connection, caller.org_id, party, asked, now) == made
        through = replace(party, act_chain=(agent.id, further.id))
        assert await store.find_open(connection, caller.org_id, through, asked, now) is None


async def test_closed_requests_accept_no_votes(office: Office) -> None:
    voter = await office.member()
    asked, late = await office.ask(), await office.ask(targetId="late", ttlMinutes=1)
    await office.vote("reject", asked, voter)
    values = {"status": "APPROVED", "decided_at": office.now(), "approvals": 1, "independent": True}
    later = office.now() + timedelta(minutes=1)
    for request, when, status in ((asked, office.now(), Status.REJECTED), (late, later, Status.PENDING)):
        before = await stored(office, request)
        async with office.checks.database.write() as connection:
            assert not await store.decide(connection, before, values, when)
        assert (await stored(office, request)).status is status
    async with office.checks.database.write() as connection:  # and in time it is decided
        waiting = await store.get(connection, office.acme.organization.id, late["id"])
        assert await store.decide(connection, waiting, values, office.now())


NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
async def databases(migrated_url: str) -> AsyncIterator[tuple[Database, Database]]:
    both = Database(migrated_url, max_wait_s=30.0), Database(migrated_url, max_wait_s=30.0)
    for one in both:
        await one.start()
    yield both
    for one in both:
        await one.close()


async def asked(database: Database, acme: Tenant) -> RequestRecord:
    async with database.write() as connection:
        await policies.create(connection, acme.organization.id, None, POLICY)
        body = NewRequest(action="run.it", target_type="x", target_id="y")
        caller = context(acme.organization, acme.owner_id)
        made = (await submit(Transaction(connection, caller, "r"), body, LinkBuilder().for_org("acme"), NOW)).request
    assert made is not None
    return made


async def vote(
    database: Database, caller: AuthorizationContext, request: RequestRecord, verb: str
) -> CastVote | ApiError:
    try:
        async with database.write() as connection:
            return await getattr(voting, verb)(connection, Ballot(caller, request.id, "x", "r", NOW))  # type: ignore[no-any-return]  # one of two
    except ApiError as error:
        return error


@pytest.mark.parametrize("rejecting", [pytest.param(0, marks=pytest.mark.long), 6])
async def test_of_sixty_votes_through_two_processes_one_decides(
    databases: tuple[Database, Database], rejecting: int
) -> None:
    acme = await new_tenant(databases[0], "acme")
    request = await asked(databases[0], acme)
    voters = [context(acme.organization, (await new_member(databases[0], acme)).id) for _ in range(60)]
    verbs = ["reject" if rejecting and place % 10 == rejecting else "approve" for place in range(60)]
    outcomes = await asyncio.gather(
        *(
            vote(databases[n % 2], voter, request, verb)
            for n, (voter, verb) in enumerate(zip(voters, verbs, strict=True))
        )
    )
    good = [one for one in outcomes if isinstance(one, CastVote)]
    assert [one.decided for one in good].count(True) == 1
    assert {one.status for one in outcomes if isinstance(one, ApiError)} == {409}
    async with databases[1].read() as connection:
        final = await store.get(connection, acme.organization.id, request.id)
        votes = await connection.scalar(select(func.count()).select_from(approval_votes))
        ends = ("approval_request.approve", "approval_request.reject")
        told = await connection.scalar(
            select(func.count()).select_from(audit_events).where(audit_events.c.action.in_(ends))
        )
    assert (votes, told) == (len(good), 1)
    assert final.status is Status.APPROVED if not rejecting else final.status in (Status.APPROVED, Status.REJECTED)
    assert final.status is not Status.APPROVED or votes == 5
    assert (await verify_stored(databases[0], acme.organization.id, "acme", {})).first_break is None
