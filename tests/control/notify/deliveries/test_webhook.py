"""Signed bodies: what is in them, what they are verified by, and how large they get."""

import base64
import json
from datetime import UTC, datetime

from hypothesis import given, settings
from msgspec import structs
from standardwebhooks import Webhook

from control.notify.channels.config import WebhookConfig
from control.notify.deliveries.platforms import webhook
from control.notify.deliveries.platforms.outgoing_message import OutgoingMessage, truncate
from control.notify.message import Fact, Message
from tests.control.notify.deliveries.samples import ASK, NOW, messages, told
from tests.control.receiver import SECRET


def test_the_signature_follows_standard_webhooks() -> None:
    """The vector of Standard Webhooks."""
    config = WebhookConfig(url="https://example.org", secret="whsec_plJ3nmyCDGBKInavdOK15jsl")
    at = datetime.fromtimestamp(1_731_705_121, UTC)
    body = b'{"event_type":"ping","data":{"success":true}}'
    assert webhook.signatures(config, "msg_loFOjxBNrRLzqYUf", at, body) == (
        "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    )


@settings(max_examples=50)
@given(messages)
def test_signed_bodies_are_verified_by_the_package_of_the_standard(message: Message) -> None:
    now = datetime.now(UTC)
    made = webhook.build_request(
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
    made = webhook.build_request(config, OutgoingMessage("dlv_1", ASK, NOW, datetime.now(UTC)))
    for secret in (new, SECRET):
        Webhook(secret).verify(made.body, made.headers)
    assert made.headers["webhook-signature"].count("v1,") == 2


def test_a_signed_body_holds_the_message_and_the_data() -> None:
    made = webhook.build_request(WebhookConfig(url="https://example.org/x", secret=SECRET), told(ASK))
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
        body = webhook.build_request(WebhookConfig(url="https://example.org/x", secret=SECRET), told(large)).body
        data = json.loads(body)["data"]
        assert len(body) <= most
        assert (data["request"], data["message"]["text"]) == (whole["request"], truncate(reason, shown))
