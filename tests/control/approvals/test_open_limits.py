"""However much has been asked, a question and a list look at few rows (SQLite's plans), and so many may wait."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chassis.db.database import Database
from control.approvals import open_limits, repository
from control.approvals.expiry import ExpiryTask
from control.approvals.model import Status
from control.approvals.notifications import LinkBuilder
from control.approvals.schemas import NewRequest
from control.approvals.submission import Submission, submit
from control.identity.members.member_store import retire_machine
from control.settings import ControlSettings
from proto.identity import PrincipalKind, Role
from tests.chassis.auth.tenants import new_tenant
from tests.control.approvals.office import ASKED, REQUESTS, Office, context, new_machine, new_member
from tests.control.conftest import serving
from tests.control.plans import Plans

NOW = datetime(2026, 11, 20, tzinfo=UTC)


async def test_queries_lists_and_expiry_use_their_indexes(sqlite: Database) -> None:
    acme = await new_tenant(sqlite, "acme")
    org = acme.organization
    caller = context(org, acme.owner_id, role=Role.OWNER)
    plans: dict[str, list[str]] = {}
    with Plans(sqlite, "approval_requests") as found:
        async with sqlite.write() as connection:
            body = NewRequest(action="run.it", target_type="x", target_id="y")
            await submit(connection, Submission(caller, body, LinkBuilder().for_org("acme"), "r", NOW))
            plans["ask"], found.seen = found.seen, []
            for status in (None, *Status):
                await repository.list_requests(connection, org.id, status, NOW, 50)
                plans[str(status)], found.seen = found.seen, []
        await ExpiryTask(sqlite, LinkBuilder(), now=lambda: NOW + timedelta(days=2)).poll_once()
        plans["expiry"] = found.seen
    assert plans["ask"][0] == "ix_approval_requests_same (org_id=? AND requester_id=? AND action=? AND target_id=?)"
    assert plans["None"] == ["ix_approval_requests_org_id_id (org_id=?)"]
    assert plans["PENDING"] == ["ix_approval_requests_open (org_id=?)"]
    assert plans["EXPIRED"] == ["ix_approval_requests_noted (org_id=?)", "ix_approval_requests_open (org_id=?)"]
    for status in ("APPROVED", "REJECTED"):
        assert plans[status] == ["ix_approval_requests_decided (org_id=? AND status=?)"]
    assert "ix_approval_requests_due (expires_at<?)" in plans["expiry"]
    assert not [one for seen in plans.values() for one in seen if one.startswith("SCAN") or "B-TREE" in one]


@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("user, with the agents and services that the user owns", "MAX_OPEN_PER_USER"),
        ("organization", "MAX_OPEN_PER_ORG"),
    ],
)
async def test_the_number_of_open_requests_is_limited(
    office: Office, monkeypatch: pytest.MonkeyPatch, of: str, name: str
) -> None:
    monkeypatch.setattr(open_limits, name, 3)
    alice, bob = await office.member(), await office.member()
    first = await office.ask(alice, targetId="0", ttlMinutes=2)
    for number in (1, 2):
        await office.ask(alice, targetId=str(number))
    status, refusal, headers = await office.call("POST", REQUESTS, ASKED | {"targetId": "3"}, alice.token)
    assert (status, refusal["error"]["code"], refusal["error"]["message"]) == (
        *(429, "quota_exceeded"),
        f"The limit of 3 open requests per {of} is reached. Decide or withdraw some.",
    )
    assert 60 < int(headers["Retry-After"]) <= 121
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("3", "0")
    until = int(office.clock.now().timestamp()) + int(headers["Retry-After"])
    assert abs(int(headers["x-ratelimit-reset"]) - until) <= 1
    assert (await office.call("POST", REQUESTS, ASKED | {"targetId": "0"}, alice.token))[0] == 200, "it waits already"
    allowed = await office.call("POST", REQUESTS, ASKED | {"action": "issue.resolve"}, alice.token)
    assert allowed[0] == 200, "nobody is asked"
    others = await office.call("POST", REQUESTS, ASKED | {"targetId": "3"}, bob.token)
    assert others[0] == (201 if name == "MAX_OPEN_PER_USER" else 429)
    assert (await office.vote("approve", first, bob))[0] == 200
    await office.ask(alice, targetId="3")
    office.clock.seconds += 24 * 3600
    await office.ask(alice, targetId="4")


async def test_requests_of_agents_count_for_their_user(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """He may make as many as it takes, and so may they; a retired one still counts."""
    monkeypatch.setattr(open_limits, "MAX_OPEN_PER_USER", 3)
    alice, bob = await office.member(), await office.member()
    agent = await office.machine(alice)
    deep, service = await office.machine(agent), await office.machine(agent, PrincipalKind.SERVICE)
    for number, by in enumerate((alice, agent, deep)):
        await office.ask(by, targetId=str(number))
    async with office.checks.database.write() as connection:
        await retire_machine(connection, office.acme.organization.id, deep.id, office.now())
    for by in (alice, agent, service):
        status, refusal, _ = await office.call("POST", REQUESTS, ASKED | {"targetId": "3"}, by.token)
        assert (status, refusal["error"]["code"]) == (429, "quota_exceeded")
    await office.ask(await office.machine(bob), targetId="3")


async def test_agents_share_the_open_request_limit_of_their_user(migrated_url: str, tmp_path: Path) -> None:
    async with serving(migrated_url, tmp_path, ControlSettings(), approval_rate=1, approval_burst=3) as control:
        database, acme = control.checks.database, control.acme
        alice, bob = await new_member(database, acme), await new_member(database, acme)
        agent = await new_machine(database, acme, alice.id, PrincipalKind.AGENT)
        deep = await new_machine(database, acme, agent.id, PrincipalKind.AGENT)
        for by, expected in ((alice, 400), (agent, 400), (deep, 400), (deep, 429), (alice, 429), (bob, 400)):
            assert (await control.call("POST", REQUESTS, {}, by.token))[0] == expected
