"""Approvals in the whole service: with real channels, real receivers, and its limits."""

import asyncio
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from chassis.runtime.settings import ChassisSettings
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.approvals.office import ASKED, REQUESTS
from tests.control.conftest import Control
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
