"""What the store and votes hold on their own, whatever is checked before."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from control.approvals import repository
from control.approvals.model import RequestRecord, Status
from control.approvals.policies.builtin import FALLBACK
from control.approvals.repository import RequestDetails
from proto.identity import PrincipalKind
from tests.control.approvals.office import Office, context

pytestmark = pytest.mark.both_stores


async def stored(office: Office, asked: dict[str, Any]) -> RequestRecord:
    async with office.checks.database.read() as connection:
        return await repository.get(connection, office.acme.organization.id, asked["id"])


async def test_the_same_submission_through_other_principals_is_a_new_request(office: Office) -> None:
    alice = await office.member()
    agent, further = await office.machine(alice), await office.machine(alice)
    caller = context(office.acme.organization, agent.id, PrincipalKind.AGENT, alice.id, alice.id)
    now = office.now()
    asked = RequestDetails("deploy.it", "service", "x", None, {})
    async with office.checks.database.write() as connection:
        party = await repository.load_participant(connection, caller)
        made = await repository.create(
            connection, caller.org_id, party, asked, FALLBACK, now + timedelta(minutes=1), now
        )
        assert await repository.find_open(connection, caller.org_id, party, asked, now) == made
        through = replace(party, act_chain=(agent.id, further.id))
        assert await repository.find_open(connection, caller.org_id, through, asked, now) is None


async def test_closed_requests_accept_no_votes(office: Office) -> None:
    voter = await office.member()
    asked, late = await office.ask(), await office.ask(targetId="late", ttlMinutes=1)
    await office.vote("reject", asked, voter)
    values = {"status": "APPROVED", "decided_at": office.now(), "approvals": 1, "independent": True}
    later = office.now() + timedelta(minutes=1)
    for request, when, status in ((asked, office.now(), Status.REJECTED), (late, later, Status.PENDING)):
        before = await stored(office, request)
        async with office.checks.database.write() as connection:
            assert not await repository.decide(connection, before, values, when)
        assert (await stored(office, request)).status is status
    async with office.checks.database.write() as connection:  # and in time it is decided
        waiting = await repository.get(connection, office.acme.organization.id, late["id"])
        assert await repository.decide(connection, waiting, values, office.now())
