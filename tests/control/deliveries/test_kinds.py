"""Messages as the platforms take them, held to the limits that the platforms document, whatever people typed."""

import base64
import json
import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from multidict import CIMultiDict, CIMultiDictProxy
from standardwebhooks import Webhook

from chassis.egress import Reply
from control.channels.config import (
    ChatAConfig,
    ChatBConfig,
    EmailConfig,
    PagerConfig,
    TeamsConfig,
    WebhookConfig,
)
from control.deliveries.kinds import chat_a, chat_b, email, pager, teams, webhook
from control.deliveries.kinds.mail_server import MailServer
from control.deliveries.kinds.told import Told, cut, one_line
from control.deliveries.message import Fact, Message, Severity
from tests.control.receiver import SECRET

NOW = datetime(2026, 11, 21, 12, 30, 1, tzinfo=UTC)
NESTED = b'{"x":' + b"[" * 30_000
NOTHING = CIMultiDictProxy(CIMultiDict[str]())
CHAT_A = ChatAConfig(webhook_url="https://hooks.slack.com/services/x")
BOT = ChatAConfig(bot_token="xoxb-1", channel="#ops")
CHAT_B = ChatBConfig(webhook_url="https://discord.com/api/webhooks/x")
PAGER = PagerConfig(routing_key="r" * 32)
TEAMS = TeamsConfig(workflow_url="https://a.logic.azure.com/x")
MAIL = EmailConfig(["ada@example.org", "bob@example.org"])


def encoded_word(hidden: str) -> str:
    """As headers write what is not ASCII (RFC 2047); here it hides what no header may have."""
    return f"x =?utf-8?b?{base64.b64encode(hidden.encode()).decode()}?= y"


hidden = st.text(alphabet="\r\n: <b>Bcc", max_size=30) | st.just("\r\nBcc: eve@example.com\r\n\r\n<h1>")
texts = (
    st.text(max_size=30)
    | hidden.map(encoded_word)
    | st.text(alphabet="<&>*_[](){}@`~|#:/w.\n\r\0\\é漢😀a ", max_size=9_000)
)
messages = st.builds(
    Message,
    type=st.just("approval.requested"),
    subject=st.just("apr_1"),
    title=texts,
    text=texts,
    facts=st.lists(st.builds(Fact, texts, texts), max_size=60).map(tuple),
    severity=st.sampled_from(Severity),
    resolved=st.booleans(),
    link=st.none() | st.just("https://sluice.example.org/x?a=b&c=d"),
)


def told(message: Message) -> Told:
    return Told("dlv_1", message, NOW, NOW)


ASK = Message(
    type="approval.requested",
    subject="apr_1",
    title="Approve release.rollback of checkout?",
    text="Errors rose <b>after</b> *v42* & <@U1> said so",
    facts=(Fact("Requested by", "deploy-bot"), Fact("Risk", "HIGH")),
    severity=Severity.WARNING,
    link="https://sluice.example.org/a",
    link_label="Decide",
    data={"requestId": "apr_1"},
)


# webhook


def test_our_signature_is_that_of_the_standard() -> None:
    """The vector of Standard Webhooks."""
    config = WebhookConfig(url="https://example.org", secret="whsec_plJ3nmyCDGBKInavdOK15jsl")
    at = datetime.fromtimestamp(1_731_705_121, UTC)
    body = b'{"event_type":"ping","data":{"success":true}}'
    assert webhook.signatures(config, "msg_loFOjxBNrRLzqYUf", at, body) == (
        "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    )


@given(messages)
def test_signed_bodies_are_verified_by_the_package_of_the_standard(message: Message) -> None:
    now = datetime.now(UTC)
    made = webhook.request(
        WebhookConfig(url="https://example.org", secret=SECRET, headers={"X-Team": "ops"}),
        Told("dlv_1", message, NOW, now),
    )
    payload = Webhook(SECRET).verify(made.body, made.headers)
    assert (payload["type"], payload["timestamp"]) == (message.type, "2026-11-21T12:30:01.000Z")
    title = payload["data"]["message"]["title"]
    assert title in (message.title, cut(message.title, 500), cut(message.title, 50))
    assert len(made.body) <= 20_000
    assert (made.headers["X-Team"], made.headers["webhook-id"]) == ("ops", "dlv_1")


def test_while_a_secret_changes_both_sign() -> None:
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    config = WebhookConfig(url="https://example.org", secret=new, previous_secret=SECRET)
    made = webhook.request(config, Told("dlv_1", ASK, NOW, datetime.now(UTC)))
    for secret in (new, SECRET):
        Webhook(secret).verify(made.body, made.headers)
    assert made.headers["webhook-signature"].count("v1,") == 2


def test_a_signed_body_holds_the_message_and_the_data() -> None:
    made = webhook.request(WebhookConfig(url="https://example.org/x", secret=SECRET), told(ASK))
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


@pytest.mark.parametrize(
    ("letter", "shown", "most"), [("a", 4_096, 20_000), ('"', 500, 20_000), ("é", 500, 20_000), ("😀", 50, 32_768)]
)
def test_a_large_body_shows_people_less_and_has_all_for_programs(letter: str, shown: int, most: int) -> None:
    """As large as an approval request can be."""
    summary, reason, target = letter * 2_000, letter * 4_096, letter * 500
    whole = {"request": {"targetId": target, "reason": reason, "payload": {"summary": summary}}}
    facts = tuple(Fact("Asked by", letter * 200) for _ in range(3))
    large = structs.replace(ASK, title=f"Approved: x on y {target}", text=reason, facts=facts, data=whole)
    body = webhook.request(WebhookConfig(url="https://example.org/x", secret=SECRET), told(large)).body
    data = json.loads(body)["data"]
    assert len(body) <= most
    assert (data["request"], data["message"]["text"]) == (whole["request"], cut(reason, shown))


# chat-a


def test_a_card_of_chat_a() -> None:
    assert chat_a.card(ASK) == {
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


@given(messages)
def test_cards_of_chat_a_keep_the_limits(message: Message) -> None:
    card = chat_a.card(message)
    assert len(card["text"]) <= 4_000
    assert len(card["blocks"]) <= 50
    for block in card["blocks"]:
        if block["type"] == "header":
            assert len(block["text"]["text"]) <= 150
        texts_of = [block["text"]] if block["type"] == "section" and "text" in block else []
        assert all(len(each["text"]) <= 3_000 and "<" not in each["text"] for each in texts_of)
        fields = block.get("fields", [])
        assert len(fields) <= 10
        assert all(1 <= len(each["text"]) <= 2_000 and "<" not in each["text"] for each in fields)


@pytest.mark.parametrize(
    "typed",
    [
        "@channel", "@all and @here", "[Approve here](https://evil.example)", "![x](//evil.example)", "[x][y]",
        "[x]: y",
        "https://evil.example", "www.evil.example", "WWW.evil.example", "mailto:eve@example.com", "~town-square",
        "#tag",
    ],
)  # fmt: skip
def test_the_text_beside_the_blocks_mentions_nobody_and_links_nowhere(typed: str) -> None:
    text = chat_a.card(structs.replace(ASK, title=f"Approve: {typed} on 10:30?"))["text"]
    assert text.replace("\u200b", "") == f"Approve: {typed} on 10:30?"
    assert not re.search(r"[@~#]\w|\][(\[:]|:[\w/]|www\.", text, re.IGNORECASE)


@given(messages)
def test_cards_of_chat_a_have_nothing_live_in_their_text(message: Message) -> None:
    assert not re.search(r"[@~#]\w|\][(\[:]|://|www\.", chat_a.card(message)["text"], re.IGNORECASE)


def test_a_bot_writes_to_its_channel() -> None:
    made = chat_a.request(BOT, told(ASK), "https://slack.com/api")
    assert made.url == "https://slack.com/api/chat.postMessage"
    assert made.headers["Authorization"] == "Bearer xoxb-1"
    assert json.loads(made.body)["channel"] == "#ops"
    made = chat_a.request(CHAT_A, told(ASK), "https://slack.com/api")
    assert (made.url, "Authorization" in made.headers) == (CHAT_A.webhook_url, False)


@pytest.mark.parametrize(
    ("status", "body", "ok", "permanent"),
    [
        (200, b'{"ok":true,"ts":"1"}', True, False),
        (200, b'{"ok":false,"error":"channel_not_found"}', False, True),
        (200, b'{"ok":false,"error":"is_archived"}', False, True),
        (200, b'{"ok":false,"error":"invalid_auth"}', False, True),
        (200, b'{"ok":false,"error":"something new"}', False, True),
        (200, b'{"ok":false,"error":"ratelimited"}', False, False),
        (200, b'{"ok":false,"error":"service_unavailable"}', False, False),
        (200, b"<html>", False, False),
        (200, b"\xff", False, False),
        (200, NESTED, False, False),
        (429, b"", False, False),
        (500, b"", False, False),
        (403, b"", False, True),
    ],
)
def test_answers_to_a_bot(status: int, body: bytes, ok: bool, permanent: bool) -> None:
    outcome = chat_a.judge(BOT, Reply(status, NOTHING, body), NOW)
    assert (outcome.ok, outcome.permanent) == (ok, permanent)
    assert "something new" not in outcome.detail


@pytest.mark.parametrize(
    ("status", "ok", "permanent"),
    [
        (200, True, False),
        (400, False, True),
        (403, False, True),
        (404, False, True),
        (410, False, True),
        (429, False, False),
        (500, False, False),
    ],
)
def test_answers_to_an_incoming_webhook(status: int, ok: bool, permanent: bool) -> None:
    outcome = chat_a.judge(CHAT_A, Reply(status, NOTHING, b"invalid_payload"), NOW)
    assert (outcome.ok, outcome.permanent) == (ok, permanent)
    assert "invalid_payload" not in outcome.detail


# chat-b


@given(messages)
def test_embeds_of_chat_b_keep_the_limits_and_mention_nobody(message: Message) -> None:
    body = json.loads(chat_b.request(CHAT_B, told(message)).body)
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


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"retry_after": 64.57}', 65), (b'{"retry_after": 0.2}', 1), (b'{"retry_after": 1e30}', 86_400),
        (b"{}", 9), (b"x", 9), (b"\xff", 9),
        (NESTED, 9),
    ],
)  # fmt: skip
def test_chat_b_tells_the_wait_in_its_body(body: bytes, seconds: int) -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Retry-After": "9"}))
    outcome = chat_b.judge(CHAT_B, Reply(429, headers, body), NOW)
    assert (outcome.ok, outcome.permanent, outcome.retry_after_s) == (False, False, seconds)


@pytest.mark.parametrize(
    ("status", "ok", "permanent"),
    [
        (204, True, False),
        (200, True, False),
        (401, False, True),
        (403, False, True),
        (404, False, True),
        (502, False, False),
    ],
)
def test_answers_of_chat_b(status: int, ok: bool, permanent: bool) -> None:
    outcome = chat_b.judge(CHAT_B, Reply(status, NOTHING, b""), NOW)
    assert (outcome.ok, outcome.permanent) == (ok, permanent)


# pager


def test_an_event_of_the_pager() -> None:
    made = pager.request(PAGER, told(ASK), "https://events.pagerduty.com/v2/enqueue")
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


@given(messages)
def test_events_of_the_pager_keep_the_limits(message: Message) -> None:
    made = pager.request(PagerConfig("r" * 32, Severity.CRITICAL), told(message), "https://example.org")
    body = json.loads(made.body)
    assert len(made.body) <= 512 * 1024
    assert len(body["payload"]["summary"]) <= 1_024
    assert len(body["dedup_key"]) <= 255
    assert body["payload"]["severity"] == "critical"
    assert body["event_action"] == ("resolve" if message.resolved else "trigger")


# teams


@given(messages)
def test_cards_of_teams_keep_the_limits(message: Message) -> None:
    made = teams.request(TEAMS, told(message))
    body = json.loads(made.body)
    assert len(made.body) <= 28 * 1024
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {part["type"] for part in card["body"]} <= {"Container", "TextBlock", "FactSet"}


def test_a_card_of_teams_shows_what_is_asked() -> None:
    card = teams.envelope(ASK)["attachments"][0]["content"]
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Decide", "url": "https://sluice.example.org/a"}]
    assert card["body"][0]["style"] == "warning"
    assert card["body"][2]["facts"][1] == {"title": "Risk", "value": "HIGH"}


# e-mail


class Links(HTMLParser):
    """Tags and links of an HTML text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def parsed(message: Message) -> Any:
    made = email.compose(MAIL, told(message), "sluice@example.org")
    return message_from_bytes(email.to_bytes(made), policy=default)


@given(messages)
def test_mail_is_well_formed_whatever_people_typed(message: Message) -> None:
    mail = parsed(message)
    assert mail["To"] == "ada@example.org, bob@example.org"
    assert mail["From"] == "Sluice <sluice@example.org>"
    assert mail["Message-ID"] == "<dlv_1@example.org>"
    assert len(mail["Subject"]) <= 200
    assert sorted({name.lower() for name in mail}) == sorted(
        ["from", "to", "subject", "date", "message-id", "references", "auto-submitted", "content-type", "mime-version"]
    )
    plain, rich = mail.iter_parts()
    assert (plain.get_content_type(), rich.get_content_type()) == ("text/plain", "text/html")
    html = Links()
    html.feed(rich.get_content())
    assert html.tags <= {"html", "body", "h1", "p", "table", "tr", "td", "a"}
    assert html.links == ([] if message.link is None else [message.link])


@pytest.mark.parametrize("mark", ["=?", "==??", "=\0?", "=\r\n?"])
def test_a_subject_has_no_encoded_words_but_ours(mark: str) -> None:
    words = encoded_word("\r\nBcc: eve@example.com\r\n\r\n<h1>").replace("=?", mark)
    made = email.compose(MAIL, told(structs.replace(ASK, title=words)), "sluice@example.org")
    assert "=?" not in made["Subject"]
    assert b"eve@" not in email.to_bytes(made)
    assert parsed(structs.replace(ASK, title=words))["Subject"] == one_line(words).replace("=?", "= ?")


@pytest.mark.parametrize("name", ["Bcc", "X-A", "Auto-Submitted"])
def test_mail_with_headers_that_are_not_ours_is_not_sent(name: str) -> None:
    made = email.compose(MAIL, told(ASK), "sluice@example.org")
    made[name] = "eve@example.com"
    with pytest.raises(ValueError, match="headers"):
        email.to_bytes(made)


def test_mail_says_what_is_asked() -> None:
    plain, _ = parsed(ASK).iter_parts()
    assert plain.get_content().replace("\r\n", "\n") == (
        "Approve release.rollback of checkout?\n\n"
        "Errors rose <b>after</b> *v42* & <@U1> said so\n\n"
        "Requested by: deploy-bot\n"
        "Risk:         HIGH\n\n"
        "Decide: https://sluice.example.org/a\n"
    )


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 587, False, None, None)),
        ("smtp://mail.example.org:25/", ("mail.example.org", 25, False, None, None)),
        ("smtps://a%40b:p%2Fq@mail.example.org", ("mail.example.org", 465, True, "a@b", "p/q")),
    ],
)
def test_a_mail_server_is_a_url(url: str, server: tuple[Any, ...]) -> None:
    found = MailServer.parse(url, "sluice@example.org")
    assert (found.host, found.port, found.implicit_tls, found.user, found.password) == server
    assert "p/q" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "mail",
        "http://mail",
        "smtp://",
        "smtp://h:0x",
        "smtp://h:99999",
        "smtp://h/path",
        "smtp://h?a=b",
        "smtp://u:secret#x@h",
    ],
)
def test_what_is_no_mail_server_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="must be smtp://") as raised:
        MailServer.parse(url, "sluice@example.org")
    assert "secret" not in str(raised.value)


@given(st.text(max_size=50), st.integers(1, 60))
def test_texts_are_cut_and_kept_on_one_line(text: str, length: int) -> None:
    assert len(cut(text, length)) <= length
    assert cut(text, 60) == text
    line = one_line(text)
    assert line.isprintable()
    assert line == line.strip()
