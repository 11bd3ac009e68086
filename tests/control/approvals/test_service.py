"""Approvals in the whole service: with real channels and receivers, their limits, and the indexes of their lists."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from chassis.db.database import Database
from chassis.runtime.settings import ChassisSettings
from control.approvals import requests, store
from control.approvals.bodies import NewRequest
from control.approvals.model import Status
from control.approvals.notifications import ExpiryTask, LinkBuilder
from control.approvals.requests import submit
from control.identity.members.member_store import retire_machine
from control.routing.arguments import Transaction
from control.settings import ControlSettings
from proto.identity import PrincipalKind, Role
from tests.chassis.auth.tenants import new_member_token, new_tenant
from tests.control.approvals.office import ASKED, REQUESTS, Office, context, new_machine, new_member
from tests.control.conftest import Control, serving
from tests.control.plans import Plans
from tests.control.receiver import SECRET, Receiver

CHANNELS = "/orgs/acme/projects/web/notification-channels"
DEADLINE_S = 30.0


pytestmark = pytest.mark.control_settings(page_url="https://sluice.example.org")


async def opened(receiver: Receiver, number: int) -> list[dict[str, Any]]:
    """Bodies of the first deliveries, whose signatures an independent library has checked."""
    return [Webhook(SECRET).verify(one.body, one.headers) for one in await receiver.until(number, DEADLINE_S)]


async def test_a_receiver_is_notified_of_a_request_and_its_outcome(control: Control, receiver: Receiver) -> None:
    body = {"name": "desk", "kind": "webhook", "config": {"url": receiver.url(), "secret": SECRET}}
    status, channel, _ = await control.call("POST", CHANNELS, body)
    assert status == 201, channel
    status, answer, _ = await control.call("POST", REQUESTS, ASKED | {"projectTag": "web", "notify": True})
    assert (status, answer["deliveries"]) == (
        201,
        [{"channelId": channel["id"], "kind": "webhook", "delivered": True, "error": None}],
    )
    _, member = await new_member_token(control.checks.database, control.acme, Role.MEMBER)
    path = f"{REQUESTS}/{answer['request']['id']}/approve"
    status, voted, _ = await control.call("POST", path, {"reason": "Fine."}, member)
    assert status == 200
    asked, ended = await opened(receiver, 2)
    assert (asked["type"], asked["data"]["request"]) == ("approval.requested", answer["request"])
    assert (ended["type"], ended["data"]["request"]) == ("approval.approved", voted["request"])
    link = f"https://sluice.example.org{REQUESTS}/{answer['request']['id']}"
    assert [one["data"]["message"]["link"] for one in (asked, ended)] == [link, link]


async def test_an_unavailable_receiver_does_not_affect_the_request(control: Control) -> None:
    body = {"name": "desk", "kind": "webhook", "config": {"url": "http://127.0.0.1:9/", "secret": SECRET}}
    _, channel, _ = await control.call("POST", CHANNELS, body)
    status, answer, _ = await control.call("POST", REQUESTS, ASKED | {"channelIds": [channel["id"]]})
    [told] = answer["deliveries"]
    assert (status, told["delivered"], told["channelId"]) == (201, False, channel["id"])
    assert told["error"]
    assert "127.0.0.1" not in msgspec.json.encode(answer).decode()


async def test_submissions_have_their_own_rate_limit(control: Control) -> None:
    burst = ChassisSettings().approval_burst
    bodies = [ASKED | {"action": "issue.resolve", "targetId": str(number)} for number in range(burst + 20)]
    answers = await asyncio.gather(*(control.call("POST", REQUESTS, body) for body in bodies))
    assert {headers["x-ratelimit-limit"] for _, _, headers in answers} == {str(burst)}
    refused = [(answer["error"]["code"], headers) for status, answer, headers in answers if status == 429]
    assert {(code, headers["x-ratelimit-remaining"]) for code, headers in refused} == {("rate_limited", "0")}
    assert all(int(headers["Retry-After"]) >= 1 for _, headers in refused)
    status, _, headers = await control.call("GET", REQUESTS)
    assert (status, headers["x-ratelimit-limit"]) == (200, str(ChassisSettings().api_burst)), "counted apart"


ODD = ("\x00", "\ud800", "\udcff", "\u202e", "'; DROP TABLE approval_requests; --")


async def test_odd_text_is_rejected_or_returned_and_is_never_a_500(control: Control) -> None:
    for number, text in enumerate(ODD):
        await check_odd_text(control, text, f"deploy.n{number}")


async def check_odd_text(control: Control, text: str, action: str) -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in text)
    good = msgspec.json.encode(ASKED | {"action": action, "summary": "s"}).decode()
    for field in (action, "service", "checkout", '"s"'):
        raw = good.replace(field, f'"{escaped}"' if field == '"s"' else escaped)
        status, answer, _ = await control.call(
            "POST", REQUESTS, data=raw.encode(), headers={"Content-Type": "application/json"}
        )
        assert status in (201, 400), (field, answer)
        if status == 201:
            shown = answer["request"] | {"summary": answer["request"]["payload"]["summary"]}
            assert text in (shown["targetType"], shown["targetId"], shown["summary"])


async def test_an_agent_requests_on_behalf_of_the_creator_of_its_token(control: Control) -> None:
    """That is who answers for it: he is named, his approval is not enough, and in his name nobody approves his own."""
    principals = "/orgs/acme/principals"
    _, agent, _ = await control.call("POST", principals, {"kind": "agent", "name": "Bot", "role": "MEMBER"})
    _, minted, _ = await control.call("POST", f"{principals}/{agent['principalId']}/tokens", {"name": "t"})
    _, answer, _ = await control.call("POST", REQUESTS, ASKED, minted["token"])
    asked = answer["request"]
    assert asked["requesterPrincipalId"] == agent["principalId"]
    assert asked["onBehalfOfPrincipalId"] == control.acme.owner_id
    status, voted, _ = await control.call("POST", f"{REQUESTS}/{asked['id']}/approve", {})
    assert status == 200
    assert [voted[name] for name in ("approvals", "remaining", "hasIndependentApprover")] == [1, 1, False]
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"objectId": asked["id"]})
    event = page["data"][-1]
    assert (event["actorPrincipalId"], event["actorKind"]) == (agent["principalId"], "agent")
    assert (event["onBehalfOfPrincipalId"], event["actChain"]) == (control.acme.owner_id, [agent["principalId"]])
    policy: dict[str, Any] = {"name": "x", "actionPattern": "run.it", "effect": "ASK", "riskClass": "LOW"}
    policy |= {"machineApproverIds": [agent["principalId"]]}
    assert (await control.call("POST", "/orgs/acme/approval-policies", policy))[0] == 201
    _, answer, _ = await control.call("POST", REQUESTS, ASKED | {"action": "run.it"})
    path = f"{REQUESTS}/{answer['request']['id']}/approve"
    status, refusal, _ = await control.call("POST", path, {}, minted["token"])
    assert (status, refusal["error"]["message"]) == (403, "You cannot approve your own request.")


NOW = datetime(2026, 11, 20, tzinfo=UTC)


async def test_queries_lists_and_expiry_use_their_indexes(sqlite: Database) -> None:
    acme = await new_tenant(sqlite, "acme")
    org = acme.organization
    caller = context(org, acme.owner_id, role=Role.OWNER)
    plans: dict[str, list[str]] = {}
    with Plans(sqlite, "approval_requests") as found:
        async with sqlite.write() as connection:
            body = NewRequest(action="run.it", target_type="x", target_id="y")
            await submit(Transaction(connection, caller, "r"), body, LinkBuilder().for_org("acme"), NOW)
            plans["ask"], found.seen = found.seen, []
            for status in (None, *Status):
                await store.list_requests(connection, org.id, status, NOW, 50)
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
        ("user (including requests of the user's agents and services)", "MAX_OPEN_PER_USER"),
        ("organization", "MAX_OPEN_PER_ORG"),
    ],
)
async def test_the_number_of_open_requests_is_limited(
    office: Office, monkeypatch: pytest.MonkeyPatch, of: str, name: str
) -> None:
    monkeypatch.setattr(requests, name, 3)
    alice, bob = await office.member(), await office.member()
    first = await office.ask(alice, targetId="0", ttlMinutes=2)
    for number in (1, 2):
        await office.ask(alice, targetId=str(number))
    status, refusal, headers = await office.call("POST", REQUESTS, ASKED | {"targetId": "3"}, alice.token)
    assert (status, refusal["error"]["code"], refusal["error"]["message"]) == (
        *(429, "quota_exceeded"),
        f"The limit of 3 open approval requests per {of} is reached. Decide or withdraw some.",
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
    monkeypatch.setattr(requests, "MAX_OPEN_PER_USER", 3)
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
