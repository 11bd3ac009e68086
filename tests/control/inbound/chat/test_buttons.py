"""Approve buttons: a press is a vote of the linked principal, or nothing; then the message shows the outcome."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp import web

from control.approvals.tables import approval_votes
from control.identity.chat_links import ChatPlatform, chat_links
from control.inbound.chat import update_queue
from control.inbound.chat.update_queue import ChatMetrics, ChatUpdater, chat_updates
from control.inbound.webhooks.platform_events import platform_events
from control.notify.channels.tables import delivery_messages
from control.outbound.egress import Egress
from control.secrets.secret_box import KeyFile, SecretBox
from tests.control.conftest import Control
from tests.control.identity.conftest import NewPerson
from tests.control.inbound.chat.platforms import APP_ID, SETTINGS, Chat, interaction
from tests.control.receiver import Receiver

WHAT = "deploy.production on service checkout"
OK = (200, {"ok": True})


async def until_empty(chat: Chat) -> None:
    async with asyncio.timeout(10):
        while await chat.count(chat_updates):
            await asyncio.sleep(0.02)


def told(text: str) -> dict[str, Any]:
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    return {"response_type": "ephemeral", "text": text, "blocks": [section], "replace_original": False}


async def channel(chat: Chat, receiver: Receiver, kind: str) -> None:
    path = "/orgs/acme/projects/web/notification-channels"
    body = {"kind": kind, "name": kind, "config": {"webhookUrl": receiver.url(f"/{kind}")}}
    status, answer, _ = await chat.control.call("POST", path, body)
    assert status == 201, answer


async def test_a_message_has_the_button_that_a_linked_human_presses(chat: Chat, receiver: Receiver) -> None:
    await channel(chat, receiver, "chat-a")
    ada, bob = await chat.member(), await chat.member()
    await chat.linked(bob)
    request_id = await chat.ask(ada, notify=True, projectTag="web")
    [sent] = await receiver.until(1)
    context, actions = sent.json["blocks"][-2:]
    assert context["elements"][0]["text"] == f"To reject it: `/sluice reject {request_id} REASON`"
    opening = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Open the request"},
        "url": f"https://sluice.example.org/ui/acme/approvals/{request_id}",
    }
    assert actions["elements"] == [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": "Approve"},
            "style": "primary",
            "action_id": "sluice_approve",
            "value": request_id,
        },
        opening,
    ]
    assert await chat.press(actions["elements"][0]["value"], url=receiver.url("/response")) == OK
    assert (await chat.request(request_id))["deciderPrincipalId"] == bob.id
    await until_empty(chat)
    updates = [one.json for one in receiver.received if one.path == "/response"]
    [replaced] = [one for one in updates if one.pop("replace_original")]
    [said] = [one for one in updates if one is not replaced]
    assert said | {"replace_original": False} == told(f"Approved: *{WHAT}*")
    assert replaced["text"] == f"Approved: {WHAT}"
    assert replaced["blocks"] == [
        {"type": "header", "text": {"type": "plain_text", "text": f"Approved: {WHAT}"}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "*Decided by*\nMember", "verbatim": True}]},
        {"type": "actions", "elements": [opening]},
    ]
    outcome = sa.select(delivery_messages.c.message).order_by(delivery_messages.c.id.desc()).limit(1)
    async with chat.database.read() as connection:
        message = msgspec.json.decode(await connection.scalar(outcome) or b"")
    assert message["type"] == "approval.approved", "the channel is notified as of any decision"


async def test_who_may_not_vote_is_told_so_and_nothing_changes(chat: Chat, receiver: Receiver) -> None:
    ada, gone = await chat.member(), await chat.member()
    await chat.linked(ada, "U1")
    await chat.linked(gone, "U2")
    await chat.linked(await chat.member(tenant=chat.control.globex), "U3", tenant=chat.control.globex)
    request_id = await chat.ask(ada)
    status, _, _ = await chat.control.call("DELETE", f"/orgs/acme/members/{gone.id}")
    assert status == 204
    for number, (user, text) in enumerate(
        (
            ("U1", "You cannot approve your own request."),
            ("U2", "not linked"),
            ("U3", "There is no such request."),
            ("U4", "not linked"),
        )
    ):
        assert await chat.press(request_id, user, url=receiver.url(f"/{user}")) == OK
        said = (await receiver.until(number + 1))[-1]
        assert (said.path, said.json["replace_original"]) == (f"/{user}", False)
        assert text in said.json["text"]
    assert await chat.press(request_id, "U4", url="https://evil.example/x") == OK
    assert await chat.press("apr_" + "0" * 26, "U4", url=receiver.url()) == OK
    assert await chat.press("\0", "U4", url=receiver.url()) == OK
    assert await chat.count(approval_votes) == 0
    assert await chat.count(chat_updates) == 0
    assert (await chat.request(request_id))["status"] == "PENDING"


async def test_a_press_on_a_decided_request_shows_the_outcome(chat: Chat, receiver: Receiver) -> None:
    ada, bob = await chat.member(), await chat.member()
    await chat.linked(bob)
    request_id = await chat.ask(ada)
    await chat.says(f"reject {request_id} no")
    assert await chat.press(request_id, url=receiver.url()) == OK
    await until_empty(chat)
    texts = sorted(one.json["text"] for one in receiver.received)
    assert texts == [f"Rejected: {WHAT}", "The request is already REJECTED."]


async def test_the_message_of_chat_b_is_replaced_in_the_answer_and_loses_its_button_after_it(
    chat: Chat, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.inbound.chat.api._UPDATE_DELAY", timedelta())
    await channel(chat, receiver, "chat-b")
    ada, bob = await chat.member(), await chat.member()
    for member, user in ((ada, "1"), (bob, "2")):
        await chat.linked(member, user, platform=ChatPlatform.CHAT_B)
    request_id = await chat.ask(ada, notify=True, projectTag="web")
    [sent] = await receiver.until(1)
    [row] = sent.json["components"]
    assert row == {
        "type": 1,
        "components": [{"type": 2, "style": 3, "label": "Approve", "custom_id": f"sluice_approve:{request_id}"}],
    }
    pressed = {"component_type": 2, "custom_id": row["components"][0]["custom_id"]}
    refused = {"type": 4, "data": {"content": "You cannot approve your own request.", "flags": 64}}
    assert await chat.interact(interaction(3, pressed, "1")) == (200, refused)
    once = interaction(3, pressed, "2")
    shown = {"type": 7, "data": {"content": f"**Approved\\: {WHAT}**"}}
    assert [await chat.interact(once) for _ in range(2)] == [(200, shown)] * 2
    await until_empty(chat)
    [update] = [one for one in receiver.received if one.path.startswith("/api")]
    assert update.path == f"/api/webhooks/{APP_ID}/A_UNIQUE_TOKEN/messages/@original"
    assert update.json["components"] == []
    assert update.json["embeds"][0]["title"] == f"Approved\\: {WHAT}"
    assert update.json["allowed_mentions"] == {"parse": []}


async def test_a_repeated_press_changes_and_sends_nothing_twice(chat: Chat, receiver: Receiver) -> None:
    await chat.linked(await chat.member())
    request_id = await chat.ask()
    presses = [chat.press(request_id, url=receiver.url(), trigger="same") for _ in range(5)]
    assert await asyncio.gather(*presses) == [OK] * 5
    await until_empty(chat)
    assert len(receiver.received) == 2
    assert len(await chat.audited("approval_request.vote")) == 1
    assert await chat.count(platform_events) == 1


async def test_updates_are_sent_again_until_they_arrive_or_expire(
    chat: Chat, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.inbound.chat.update_queue.RETRY_DELAYS", (timedelta(),))
    await chat.linked(await chat.member())

    async def counted(outcome: str) -> float:
        async with chat.control.client.get("/metrics") as answer:
            name = f'sluice_chat_updates_total{{outcome="{outcome}",platform="chat-a"}} '
            found = [line for line in (await answer.text()).splitlines() if line.startswith(name)]
        return float(found[0].removeprefix(name))

    receiver.says(500, 503, 204)
    await chat.press(await chat.ask(), url=receiver.url())
    await until_empty(chat)
    assert len(receiver.received) == 4
    assert await counted("sent") == 2

    receiver.received.clear()
    receiver.says(500)
    await chat.press(await chat.ask(), url=receiver.url())
    await until_empty(chat)
    assert len(receiver.received) == 5, "the platform takes no more at a URL"
    assert await counted("failed") == 2

    receiver.received.clear()
    receiver.says(404)
    await chat.press(await chat.ask(), url=receiver.url())
    await until_empty(chat)
    assert len(receiver.received) == 2, "what is refused is not sent again"
    assert await counted("failed") == 4

    nowhere = "http://127.0.0.1:1/x"
    await chat.press(await chat.ask(), url=nowhere)
    async with chat.database.write() as connection:
        [stored, _] = (await connection.execute(sa.select(chat_updates))).all()
        assert nowhere.encode() not in bytes(stored.url)
        await connection.execute(chat_updates.update().values(expires_at=datetime.now(UTC)))
    await until_empty(chat)
    assert await counted("expired") == 2


async def test_no_update_is_lost_with_the_worker(
    control: Control, receiver: Receiver, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process dies while it sends: another one sends the same when the claim is over."""
    reached, forever = asyncio.Event(), asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        reached.set()
        await forever.wait()
        return web.Response(status=204)

    receiver.answers = [hang]
    secret_box = SecretBox(KeyFile(tmp_path / "sealing.keys"))
    monkeypatch.setattr(update_queue, "LEASE", timedelta(milliseconds=300))
    chat = Chat(control)
    await chat.linked(await chat.member())
    await chat.press(await chat.ask(), url=receiver.url())
    await reached.wait()
    receiver.says(204)
    egress = Egress(SETTINGS.egress_policy)
    other = ChatUpdater(chat.database, secret_box, egress, ChatMetrics(None))
    running = [egress.running(), other.running()]
    for one in running:
        await anext(one)
    await until_empty(chat)
    forever.set()
    for one in reversed(running):
        with pytest.raises(StopAsyncIteration):
            await anext(one)
    assert {one.json["replace_original"] for one in receiver.received} == {True, False}


@pytest.mark.both_stores
async def test_the_same_button_pressed_at_once_decides_once(chat: Chat, receiver: Receiver) -> None:
    people = [await chat.member() for _ in range(4)]
    for number, member in enumerate(people):
        await chat.linked(member, f"U{number}")
    request_id = await chat.ask()
    pressed = [chat.press(request_id, f"U{number}", url=receiver.url()) for number in range(4)]
    assert await asyncio.gather(*pressed) == [OK] * 4
    decided = await chat.audited("approval_request.approve")
    assert len(decided) == 1
    assert await chat.count(approval_votes) == 1


@pytest.mark.both_stores
async def test_a_vote_while_access_is_taken_away_counts_before_it_or_not_at_all(chat: Chat) -> None:
    await chat.two_must_approve()
    for number in range(3):
        ada = await chat.member()
        user = f"U{number}"
        await chat.linked(ada, user)
        request_id = await chat.ask(action="deploy.x", targetId=str(number))
        removal = chat.control.call("DELETE", f"/orgs/acme/members/{ada.id}")
        (removed, _, _), pressed = await asyncio.gather(removal, chat.press(request_id, user))
        assert (removed, pressed) == (204, OK)
        assert "not linked" in await chat.says("status", user)
        assert await chat.count(approval_votes) == 0, "votes of who has left are withdrawn"


@pytest.mark.both_stores
async def test_links_of_one_chat_user_made_at_once_leave_one(chat: Chat, person: NewPerson) -> None:
    """Each code is spent; the last one to come wins."""
    people = [await person(f"{name}@example.org") for name in ("ada", "bob", "eve")]
    codes = [(await one.call("POST", "/orgs/acme/chat-links"))[1]["code"] for one in people]
    said = await asyncio.gather(*(chat.says(f"link {code}") for code in codes))
    assert all(text.startswith("You act as ") for text in said)
    assert await chat.count(chat_links) == 1
    made, replaced = await chat.audited("chat_link.create"), await chat.audited("chat_link.delete")
    assert (len(made), len(replaced)) == (3, 2)
