"""What channels are told of approvals, in the outbox of both databases, and what is noted when nobody decides."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from chassis.db.database import Database, DatabaseUnavailable, format_time
from control.approvals import notifications
from control.approvals.notifications import ExpiryTask, LinkBuilder
from control.approvals.tables import approval_requests
from control.audit.verify import verify_stored
from control.http.page_links import NO_PAGES, PageLinks
from control.notify.channels.tables import deliveries, delivery_messages
from control.notify.deliveries import outbox
from tests.control.approvals.office import ASKED, REQUESTS, Office, new_channel

LINK = "https://ops.example.org/orgs/acme/approval-requests/"


async def messages(office: Office) -> list[tuple[str, dict[str, Any]]]:
    """Channel and message of every delivery, oldest first."""
    async with office.checks.database.read() as connection:
        found = sa.select(deliveries.c.channel_id, delivery_messages.c.message).join(delivery_messages)
        rows = await connection.execute(found.order_by(deliveries.c.id))
        return [(row.channel_id, msgspec.json.decode(row.message)) for row in rows]


async def stop(running: AsyncIterator[None]) -> None:
    with pytest.raises(StopAsyncIteration):
        await anext(running)


def expiring(office: Office) -> ExpiryTask:
    return ExpiryTask(
        office.checks.database,
        LinkBuilder("https://sluice.example.org", PageLinks("https://ops.example.org")),
        poll_s=0.01,
        now=office.clock.now,
    )


async def test_a_message_has_action_requester_risk_and_expiry(office: Office) -> None:
    alice = await office.member()
    agent = await office.machine(alice)
    await office.policy(name="Two", riskClass="CRITICAL", minApprovers=2)
    channel = await new_channel(office.checks.database, office.acme)
    asked = await office.ask(agent, summary="Version 1.4.2.", projectTag="web", notify=True)
    [(told, message)] = await messages(office)
    assert told == channel
    assert message == {
        "type": "approval.requested",
        "subject": asked["id"],
        "title": "Approval needed: deploy.production on service checkout",
        "text": "Version 1.4.2.",
        "facts": [
            {"name": "Risk", "value": "CRITICAL"},
            {"name": "Requested by", "value": "Bot"},
            {"name": "Project", "value": "web"},
            {"name": "Approvals needed", "value": "2"},
            {"name": "Reason", "value": 'The organization policy "Two" requires 2 approvals.'},
            {"name": "Expires", "value": asked["expiresAt"][:16].replace("T", " ") + " UTC"},
        ],
        "severity": "critical",
        "resolved": False,
        "passing": False,
        "link": LINK + asked["id"],
        "linkLabel": "Open the request",
        "approveIn": [],
        "data": {"request": asked},
    }


async def test_without_a_page_a_message_has_the_approve_command_and_no_link(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this service shows at its own address is for programs: a browser is answered 401."""
    monkeypatch.setattr(
        notifications.LinkBuilder,
        "for_org",
        lambda self, slug: notifications.RequestLinks(self.api_url, NO_PAGES, slug),
    )
    bob = await office.member()
    await new_channel(office.checks.database, office.acme)
    asked = await office.ask(notify=True)
    await office.vote("approve", asked, bob)
    [(_, question), (_, end)] = await messages(office)
    assert question["facts"][-1] == {
        "name": "Approve with",
        "value": 'curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d null '
        f"https://sluice.example.org/orgs/acme/approval-requests/{asked['id']}/approve",
    }
    assert [question["link"], end["link"]] == [None, None]


@pytest.mark.both_stores
async def test_unsent_announcements_are_not_sent_after_the_outcome(office: Office) -> None:
    """A pager that was away would open an incident that nobody closes."""
    bob = await office.member()
    await new_channel(office.checks.database, office.acme)
    asked = await office.ask(notify=True)
    async with office.checks.database.read() as connection:  # nor after its time, whatever is noted of that
        assert format_time((await connection.execute(sa.select(deliveries.c.until))).scalar_one()) == asked["expiresAt"]
    await office.vote("approve", asked, bob)
    async with office.checks.database.read() as connection:
        found = sa.select(deliveries.c.type, deliveries.c.state, deliveries.c.until).order_by(deliveries.c.id)
        rows = (await connection.execute(found)).all()
    assert [(row.type, row.state) for row in rows] == [
        ("approval.requested", "CANCELLED"),
        ("approval.approved", "READY"),
    ]
    assert [row.until is None for row in rows] == [False, True]


async def test_notified_channels_are_notified_of_the_outcome(office: Office) -> None:
    bob = await office.member()
    channel = await new_channel(office.checks.database, office.acme)
    quiet = await office.ask(targetId="quiet")
    for verb, title in (("approve", "Approved"), ("reject", "Rejected")):
        asked = await office.ask(targetId=verb, channelIds=[channel])
        _, answer = await office.vote(verb, asked, bob, reason="Because.")
        told, message = (await messages(office))[-1]
        assert (told, message["type"], message["subject"]) == (channel, f"approval.{title.lower()}", asked["id"])
        assert message["title"] == f"{title}: deploy.production on service {verb}"
        assert (message["text"], message["resolved"], message["link"]) == ("Because.", True, LINK + asked["id"])
        assert message["facts"] == [{"name": "Decided by", "value": "Member"}]
        assert message["data"] == {"request": answer["request"]}
    before = len(await messages(office))
    assert before == 4
    await office.vote("approve", quiet, bob)
    await office.policy(minApprovers=2, actionPattern="run.it")
    slow = await office.ask(action="run.it", channelIds=[channel])
    await office.vote("approve", slow, bob)
    assert len(await messages(office)) == before + 1, "of the first no channel was told, and the last is not decided"


async def test_an_expiry_is_recorded_once_and_notified(office: Office) -> None:
    channel = await new_channel(office.checks.database, office.acme)
    soon = await office.ask(targetId="soon", ttlMinutes=1, channelIds=[channel])
    decided = await office.ask(targetId="decided", ttlMinutes=1, channelIds=[channel])
    await office.ask(targetId="late", ttlMinutes=2, channelIds=[channel])
    await office.vote("reject", decided, await office.member())
    one, other = expiring(office), expiring(office)
    assert await one.poll_once() == 0
    office.clock.seconds += 60
    assert sorted(await asyncio.gather(one.poll_once(), other.poll_once())) == [0, 1]
    assert await one.poll_once() == 0
    told, message = (await messages(office))[-1]
    assert (told, message["type"], message["subject"]) == (channel, "approval.expired", soon["id"])
    assert (message["title"], message["resolved"]) == ("Expired: deploy.production on service soon", True)
    assert (message["facts"], message["data"]["request"]["status"]) == ([], "EXPIRED")
    [*_, event] = await office.audit(objectId=soon["id"])
    assert (event["action"], event["actorPrincipalId"], event["requestId"]) == (
        "approval_request.expire",
        None,
        "(expiry)",
    )
    assert event["data"] == {"action": "deploy.production", "expiresAt": soon["expiresAt"]}
    assert (await office.call("GET", f"{REQUESTS}/{soon['id']}"))[1] == soon | {"status": "EXPIRED"}
    assert (await verify_stored(office.checks.database, office.acme.organization.id, "acme", {})).first_break is None


@pytest.mark.both_stores
async def test_a_recorded_expiry_holds_for_every_clock(office: Office) -> None:
    """Of another process, whose clock is behind, too."""
    asked, bob = await office.ask(ttlMinutes=1), await office.member()
    office.clock.seconds += 60
    assert await expiring(office).poll_once() == 1
    office.clock.seconds -= 30
    for verb in ("approve", "reject"):
        assert (await office.vote(verb, asked, bob))[0] == 409
    assert (await office.call("GET", f"{REQUESTS}/{asked['id']}"))[1]["status"] == "EXPIRED"
    for status, number in (("PENDING", 0), ("EXPIRED", 1)):
        _, page, _ = await office.call("GET", REQUESTS, params={"status": status})
        assert len(page["data"]) == number
    assert (await office.ask())["id"] != asked["id"]


async def noted(office: Office) -> list[str]:
    return [one["objectId"] for one in await office.audit() if one["action"] == "approval_request.expire"]


@pytest.mark.background
async def test_many_expired_requests_are_recorded_page_by_page(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PAGE_SIZE", 3)
    made = [(await office.ask(targetId=str(number), ttlMinutes=1))["id"] for number in range(7)]
    office.clock.seconds += 60
    running = expiring(office).running()
    await anext(running)
    async with asyncio.timeout(30):
        while len(await noted(office)) < 7:
            await asyncio.sleep(0.02)
    await stop(running)
    assert sorted(await noted(office)) == sorted(made)


@pytest.mark.both_stores
async def test_a_request_that_cannot_be_recorded_does_not_block_others(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page full of them does not either; each is said once, and noted when it can be."""
    monkeypatch.setattr(notifications, "PAGE_SIZE", 2)
    made = [(await office.ask(targetId=str(number), ttlMinutes=1))["id"] for number in range(5)]
    channel = await new_channel(office.checks.database, office.acme)
    last = await office.ask(targetId="last", ttlMinutes=1, channelIds=[channel])
    await set_roles(office, made[:3], ["KING"])
    office.clock.seconds += 60
    noting = expiring(office)
    with capture_logs() as lines:
        assert [await noting.poll_once() for _ in range(3)] == [3, 0, 0]
    assert sorted(await noted(office)) == sorted([*made[3:], last["id"]])
    assert (await messages(office))[-1][1]["type"] == "approval.expired"
    assert sorted(one["code"] for one in lines) == made[:3]
    assert {one["error"] for one in lines} == {"ValueError: 'KING' is not a valid Role"}
    await set_roles(office, made[:3], ["OWNER"])
    assert await noting.poll_once() == 3


async def set_roles(office: Office, ids: list[str], roles: list[str]) -> None:
    async with office.checks.database.write() as connection:
        of_these = approval_requests.c.id.in_(ids)
        await connection.execute(approval_requests.update().where(of_these).values(approver_roles=roles))


async def test_other_writers_run_between_two_recorded_expiries(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await office.ask(targetId=str(number), ttlMinutes=1)
    office.clock.seconds += 60
    noting, turns = expiring(office), []
    note = noting._mark_expired

    async def counted(due: Any) -> bool:
        async with office.checks.database.write():
            turns.append(due.id)
        return await note(due)

    monkeypatch.setattr(noting, "_mark_expired", counted)
    assert await noting.poll_once() == 3
    assert len(turns) == 3


@pytest.mark.background
async def test_expiry_survives_a_database_outage(office: Office) -> None:
    await office.ask(ttlMinutes=1)
    office.clock.seconds += 60
    away = Database("sqlite:////nowhere/at/all.db", max_wait_s=0.1)
    await away.start()
    noting = ExpiryTask(away, LinkBuilder(), poll_s=0.01, now=office.clock.now)
    try:
        with pytest.raises(DatabaseUnavailable):
            await noting.poll_once()
        running = noting.running()
        await anext(running)
        await asyncio.sleep(0.05)
        noting._database = office.checks.database
        async with asyncio.timeout(30):
            while (await office.audit())[-1]["action"] != "approval_request.expire":
                await asyncio.sleep(0.02)
        await stop(running)
    finally:
        await away.close()


async def test_submitting_again_notifies_the_channels_not_notified_yet(office: Office) -> None:
    database = office.checks.database
    first, second = [await new_channel(database, office.acme) for _ in range(2)]
    disabled = await new_channel(database, office.acme, enabled=False)
    asked = await office.ask(targetId="again")

    async def again(**body: Any) -> list[tuple[str, str | None]]:
        status, answer, _ = await office.call("POST", REQUESTS, ASKED | {"targetId": "again"} | body)
        assert (status, answer["request"]["id"]) == (200, asked["id"])
        return [(one["channelId"], one["error"]) for one in answer["deliveries"]]

    assert await again() == []
    assert await again(channelIds=[first, disabled, "none"]) == [
        (first, None),
        (disabled, "disabled"),
        ("none", "not_found"),
    ]
    assert await again(channelIds=[first, disabled]) == [(disabled, "disabled")]
    assert await again(notify=True) == [(second, None)]
    assert await again(notify=True) == []
    assert sorted(told for told, _ in await messages(office)) == sorted([first, second])
    await office.vote("reject", asked, await office.member())
    assert sorted(told for told, _ in await messages(office)) == sorted([first, second] * 2)


@pytest.mark.both_stores
async def test_the_channel_limit_of_a_request_spans_repeated_submissions(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_CHANNELS", 2)
    channels = [await new_channel(office.checks.database, office.acme) for _ in range(4)]
    await office.ask(channelIds=channels[:1])
    await office.call("POST", REQUESTS, ASKED | {"notify": True})
    _, answer, _ = await office.call("POST", REQUESTS, ASKED | {"channelIds": channels})
    assert [(one["channelId"], one["error"]) for one in answer["deliveries"]] == [
        (id_, "too_many") for id_ in channels[2:]
    ]
    assert [told for told, _ in await messages(office)] == channels[:2]
