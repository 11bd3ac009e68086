"""Messages as the platforms take them, held to the limits that the platforms document, whatever people typed.

Signed bodies: what is in them, what they are verified by, and how large they get.
"""

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from multidict import CIMultiDict, CIMultiDictProxy
from standardwebhooks import Webhook

from control.notify.channels.config import (
    ChatAConfig,
    ChatBConfig,
    PagerConfig,
    TeamsConfig,
    WebhookConfig,
)
from control.notify.deliveries.platforms import chats, webhooks
from control.notify.deliveries.rules import AttemptResult, OutgoingMessage, one_line, truncate
from control.notify.message import Fact, Message, Severity
from control.outbound.egress import HttpReply
from tests.control.notify.deliveries.samples import ASK, NOW, messages, told
from tests.control.receiver import SECRET

NESTED = b'{"x":' + b"[" * 30_000
NOTHING = CIMultiDictProxy(CIMultiDict[str]())
CHAT_A = ChatAConfig(webhook_url="https://hooks.slack.com/services/x")
BOT = ChatAConfig(bot_token="xoxb-1", channel="#ops")
CHAT_B = ChatBConfig(webhook_url="https://discord.com/api/webhooks/x")
PAGER = PagerConfig(routing_key="r" * 32)
TEAMS = TeamsConfig(workflow_url="https://a.logic.azure.com/x")


# chat-a


def test_a_card_of_chat_a() -> None:
    assert chats.card(ASK) == {
        "text": "Approve release.rollback of checkout?",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Approve release.rollback of checkout?"}},
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn",
                    "text": "Errors rose &lt;b&gt;after&lt;/b&gt; *v42* &amp; &lt;@U1&gt; said so",
                    "verbatim": True,
                },
            },
            {
                "type": "section",
                "fields": [
                    {"type": "mrkdwn", "text": "*Requested by*\ndeploy-bot", "verbatim": True},
                    {"type": "mrkdwn", "text": "*Risk*\nHIGH", "verbatim": True},
                ],
            },
            {
                "type": "actions",
                "elements": [
                    {
                        "type": "button",
                        "text": {"type": "plain_text", "text": "Decide"},
                        "url": "https://sluice.example.org/a",
                    }
                ],
            },
        ],
    }


def check_chat_a(message: Message) -> None:
    card = chats.card(message)
    assert len(card["text"]) <= 4_000
    assert not re.search(r"[@~#]\w|\][(\[:]|://|www\.", card["text"], re.IGNORECASE)
    assert len(card["blocks"]) <= 50
    for block in card["blocks"]:
        if block["type"] == "header":
            assert len(block["text"]["text"]) <= 150
        texts_of = [block["text"]] if block["type"] == "section" and "text" in block else []
        assert all(len(each["text"]) <= 3_000 and "<" not in each["text"] for each in texts_of)
        fields = block.get("fields", [])
        assert len(fields) <= 10
        assert all(1 <= len(each["text"]) <= 2_000 and "<" not in each["text"] for each in fields)


def test_the_text_beside_the_blocks_mentions_nobody_and_links_nowhere() -> None:
    for typed in (
        "@channel", "@all and @here", "[Approve here](https://evil.example)", "![x](//evil.example)", "[x][y]",
        "[x]: y", "https://evil.example", "www.evil.example", "WWW.evil.example", "mailto:eve@example.com",
        "~town-square", "#tag",
    ):  # fmt: skip
        text = chats.card(structs.replace(ASK, title=f"Approve: {typed} on 10:30?"))["text"]
        assert text.replace("\u200b", "") == f"Approve: {typed} on 10:30?"
        assert not re.search(r"[@~#]\w|\][(\[:]|:[\w/]|www\.", text, re.IGNORECASE), typed


def test_a_bot_writes_to_its_channel() -> None:
    made = chats.build_chat_a_request(BOT, told(ASK), "https://slack.com/api")
    assert made.url == "https://slack.com/api/chat.postMessage"
    assert made.headers["Authorization"] == "Bearer xoxb-1"
    assert json.loads(made.body)["channel"] == "#ops"
    made = chats.build_chat_a_request(CHAT_A, told(ASK), "https://slack.com/api")
    assert (made.url, "Authorization" in made.headers) == (CHAT_A.webhook_url, False)


def test_responses_of_chats() -> None:
    """Nothing of them is quoted."""
    for config, status, body, ok, permanent in (
        (BOT, 200, b'{"ok":true,"ts":"1"}', True, False),
        (BOT, 200, b'{"ok":false,"error":"channel_not_found"}', False, True),
        (BOT, 200, b'{"ok":false,"error":"is_archived"}', False, True),
        (BOT, 200, b'{"ok":false,"error":"invalid_auth"}', False, True),
        (BOT, 200, b'{"ok":false,"error":"something new"}', False, True),
        (BOT, 200, b'{"ok":false,"error":"ratelimited"}', False, False),
        (BOT, 200, b'{"ok":false,"error":"service_unavailable"}', False, False),
        (BOT, 200, b"<html>", False, False),
        (BOT, 200, b"\xff", False, False),
        (BOT, 200, NESTED, False, False),
        (BOT, 429, b"", False, False),
        (BOT, 500, b"", False, False),
        (BOT, 403, b"", False, True),
        *((CHAT_A, status, b"invalid_payload", status == 200, status in {400, 403, 404, 410})
          for status in (200, 400, 403, 404, 410, 429, 500)),
        *((CHAT_B, status, b"", status < 300, 400 <= status < 500) for status in (204, 200, 401, 403, 404, 502)),
    ):  # fmt: skip
        is_b = isinstance(config, ChatBConfig)
        interpret: Callable[..., AttemptResult] = chats.interpret_chat_b_reply if is_b else chats.interpret_chat_a_reply
        outcome = interpret(config, HttpReply(status, NOTHING, body), NOW)
        assert (outcome.ok, outcome.permanent) == (ok, permanent), (config, status, body)
        assert "something new" not in outcome.detail
        assert "invalid_payload" not in outcome.detail


# chat-b


def check_chat_b(message: Message) -> None:
    """Nobody is mentioned."""
    body = json.loads(chats.build_chat_b_request(CHAT_B, told(message)).body)
    assert body["allowed_mentions"] == {"parse": []}
    assert len(body["content"]) <= 2_000
    (embed,) = body["embeds"]
    assert len(embed["title"]) <= 256
    assert len(embed.get("description", "")) <= 4_096
    assert len(embed["fields"]) <= 25
    assert all(1 <= len(each["name"]) <= 256 and 1 <= len(each["value"]) <= 1_024 for each in embed["fields"])
    every = [embed["title"], embed.get("description", "")]
    every += [text for each in embed["fields"] for text in (each["name"], each["value"])]
    assert sum(map(len, every)) <= 6_000


def test_chat_b_has_the_retry_delay_in_its_body() -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Retry-After": "9"}))
    for body, seconds in (
        (b'{"retry_after": 64.57}', 65), (b'{"retry_after": 0.2}', 1), (b'{"retry_after": 1e30}', 86_400),
        (b"{}", 9), (b"x", 9), (b"\xff", 9), (NESTED, 9),
    ):  # fmt: skip
        outcome = chats.interpret_chat_b_reply(CHAT_B, HttpReply(429, headers, body), NOW)
        assert (outcome.ok, outcome.permanent, outcome.retry_after_s) == (False, False, seconds), body


# pager


def test_an_event_of_the_pager() -> None:
    made = webhooks.build_pager_request(PAGER, told(ASK), "https://events.pagerduty.com/v2/enqueue")
    assert json.loads(made.body) == {
        "routing_key": "r" * 32,
        "event_action": "trigger",
        "dedup_key": "sluice:apr_1",
        "client": "Sluice",
        "client_url": "https://sluice.example.org/a",
        "links": [{"href": "https://sluice.example.org/a", "text": "Decide"}],
        "payload": {
            "summary": "Approve release.rollback of checkout?",
            "source": "sluice",
            "severity": "warning",
            "timestamp": "2026-11-21T12:30:01.000Z",
            "class": "approval.requested",
            "custom_details": {"text": ASK.text, "Requested by": "deploy-bot", "Risk": "HIGH"},
        },
    }


def check_pager(message: Message) -> None:
    made = webhooks.build_pager_request(PagerConfig("r" * 32, Severity.CRITICAL), told(message), "https://example.org")
    body = json.loads(made.body)
    assert len(made.body) <= 512 * 1024
    assert len(body["payload"]["summary"]) <= 1_024
    assert len(body["dedup_key"]) <= 255
    assert body["payload"]["severity"] == "critical"
    assert body["event_action"] == ("resolve" if message.resolved else "trigger")


# teams


def check_teams(message: Message) -> None:
    made = webhooks.build_teams_request(TEAMS, told(message))
    body = json.loads(made.body)
    assert len(made.body) <= 28 * 1024
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {part["type"] for part in card["body"]} <= {"Container", "TextBlock", "FactSet"}


@given(messages)
def test_messages_keep_the_limits_of_every_platform(message: Message) -> None:
    for check in (check_chat_a, check_chat_b, check_pager, check_teams):
        check(message)


def test_a_card_of_teams_shows_what_is_asked() -> None:
    card = webhooks.envelope(ASK)["attachments"][0]["content"]
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Decide", "url": "https://sluice.example.org/a"}]
    assert card["body"][0]["style"] == "warning"
    assert card["body"][2]["facts"][1] == {"title": "Risk", "value": "HIGH"}


# texts


@given(st.text(max_size=50), st.integers(1, 60))
def test_texts_are_truncated_to_one_line(text: str, length: int) -> None:
    assert len(truncate(text, length)) <= length
    assert truncate(text, 60) == text
    line = one_line(text)
    assert line.isprintable()
    assert line == line.strip()


def test_the_signature_follows_standard_webhooks() -> None:
    """The vector of Standard Webhooks."""
    config = WebhookConfig(url="https://example.org", secret="whsec_plJ3nmyCDGBKInavdOK15jsl")
    at = datetime.fromtimestamp(1_731_705_121, UTC)
    body = b'{"event_type":"ping","data":{"success":true}}'
    assert webhooks.signatures(config, "msg_loFOjxBNrRLzqYUf", at, body) == (
        "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    )


@settings(max_examples=50)
@given(messages)
def test_signed_bodies_are_verified_by_the_package_of_the_standard(message: Message) -> None:
    now = datetime.now(UTC)
    made = webhooks.build_webhook_request(
        WebhookConfig(url="https://example.org", secret=SECRET, headers={"X-Team": "ops"}),
        OutgoingMessage("dlv_1", message, NOW, now),
    )
    payload = Webhook(SECRET).verify(made.body, made.headers)
    assert (payload["type"], payload["timestamp"]) == (message.type, "2026-11-21T12:30:01.000Z")
    title = payload["data"]["message"]["title"]
    assert title in (message.title, truncate(message.title, 500), truncate(message.title, 50))
    assert len(made.body) <= 20_000
    assert (made.headers["X-Team"], made.headers["webhook-id"]) == ("ops", "dlv_1")


def test_during_a_secret_change_both_secrets_sign() -> None:
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    config = WebhookConfig(url="https://example.org", secret=new, previous_secret=SECRET)
    made = webhooks.build_webhook_request(config, OutgoingMessage("dlv_1", ASK, NOW, datetime.now(UTC)))
    for secret in (new, SECRET):
        Webhook(secret).verify(made.body, made.headers)
    assert made.headers["webhook-signature"].count("v1,") == 2


def test_a_signed_body_holds_the_message_and_the_data() -> None:
    made = webhooks.build_webhook_request(WebhookConfig(url="https://example.org/x", secret=SECRET), told(ASK))
    assert json.loads(made.body) == {
        "type": "approval.requested",
        "timestamp": "2026-11-21T12:30:01.000Z",
        "data": {
            "requestId": "apr_1",
            "message": {
                "subject": "apr_1",
                "title": ASK.title,
                "text": ASK.text,
                "severity": "warning",
                "resolved": False,
                "facts": [{"name": "Requested by", "value": "deploy-bot"}, {"name": "Risk", "value": "HIGH"}],
                "link": "https://sluice.example.org/a",
            },
        },
    }
    assert made.headers["webhook-timestamp"] == str(int(NOW.timestamp()))


def test_a_large_body_truncates_texts_but_not_data() -> None:
    """As large as an approval request can be."""
    for letter, shown, most in (("a", 4_096, 20_000), ('"', 500, 20_000), ("é", 500, 20_000), ("😀", 50, 32_768)):
        summary, reason, target = letter * 2_000, letter * 4_096, letter * 500
        whole = {"request": {"targetId": target, "reason": reason, "payload": {"summary": summary}}}
        facts = tuple(Fact("Requested by", letter * 200) for _ in range(3))
        large = structs.replace(ASK, title=f"Approved: x on y {target}", text=reason, facts=facts, data=whole)
        body = webhooks.build_webhook_request(
            WebhookConfig(url="https://example.org/x", secret=SECRET), told(large)
        ).body
        data = json.loads(body)["data"]
        assert len(body) <= most
        assert (data["request"], data["message"]["text"]) == (whole["request"], truncate(reason, shown))
