"""Receivers of one POST of JSON, whose response is only a status.

Teams: an Adaptive Card, sent to the URL of a workflow. Limits: 28 KB in total
(learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors); Adaptive Cards 1.4. Text blocks support some
Markdown, which is escaped.

PagerDuty Events v2: an incident that needs a person's attention, and is resolved when its subject is resolved. Limits:
summary 1 024 characters, deduplication key 255, 512 KB in total (developer.pagerduty.com/docs/events-api-v2). The API
responds with 202 on success, 400 for a permanent error, 429 and 5xx for a transient one.

Webhook of the tenant: Standard Webhooks 1.0.0, signed with HMAC-SHA256. `webhook-id` is the id of the delivery and is
the same in every attempt. A receiver that stores the ids it has seen processes no message twice.
"""

import base64
import hashlib
import hmac
import re
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.notify.channels.config import PagerConfig, TeamsConfig, WebhookConfig, secret_bytes
from control.notify.deliveries.rules import HttpRequest, OutgoingMessage, one_line, truncate
from control.notify.message import Fact, Message, Severity

MAX_CARD_BYTES: Final = 28_000
MAX_CARD_TITLE: Final = 256
MAX_CARD_TEXT: Final = 4_000
MAX_CARD_FACTS: Final = 20
MAX_CARD_VALUE: Final = 500
_STYLES: Final = {
    Severity.INFO: "accent",
    Severity.WARNING: "warning",
    Severity.ERROR: "attention",
    Severity.CRITICAL: "attention",
}
_CARD_MARKUP: Final = re.compile(r"([\\`*_~>#\[\]()<|-])")


def build_teams_request(config: TeamsConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """Build the request for a Teams workflow. Texts are shortened further if the body exceeds MAX_BYTES."""
    body = msgspec.json.encode(envelope(outgoing.message))
    for shrink in (4, 16):
        if len(body) > MAX_CARD_BYTES:
            body = msgspec.json.encode(envelope(outgoing.message, shrink))
    return HttpRequest(config.workflow_url, body, {"Content-Type": "application/json"})


def envelope(message: Message, shrink: int = 1) -> dict[str, Any]:
    """A message with one card. Texts are truncated to their limits divided by `shrink`."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": _card_body(message, shrink),
        "actions": [] if message.link is None else [_open_url_action(message.link, message.link_label)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _card_body(message: Message, shrink: int) -> list[dict[str, Any]]:
    title = {
        "type": "TextBlock",
        "text": escape_markdown(truncate(one_line(message.title), MAX_CARD_TITLE)),
        "weight": "bolder",
    }
    style = "good" if message.resolved else _STYLES[message.severity]
    body: list[dict[str, Any]] = [
        {"type": "Container", "style": style, "items": [title | {"size": "medium", "wrap": True}]}
    ]
    if message.text:
        body.append(
            {
                "type": "TextBlock",
                "text": escape_markdown(truncate(message.text, MAX_CARD_TEXT // shrink)),
                "wrap": True,
            }
        )
    if message.facts:
        facts = [
            {
                "title": truncate(one_line(fact.name), 100),
                "value": escape_markdown(truncate(fact.value, MAX_CARD_VALUE // shrink)),
            }
            for fact in message.facts[:MAX_CARD_FACTS]
        ]
        body.append({"type": "FactSet", "facts": facts})
    return body


def _open_url_action(link: str, label: str) -> dict[str, Any]:
    return {"type": "Action.OpenUrl", "title": truncate(label, 75), "url": link}


def escape_markdown(text: str) -> str:
    """Escape the text's Markdown."""
    return _CARD_MARKUP.sub(r"\\\1", text)


MAX_SUMMARY: Final = 1_024
MAX_DETAIL: Final = 4_000
MAX_PAGER_FACTS: Final = 50
SOURCE: Final = "sluice"


def build_pager_request(config: PagerConfig, outgoing: OutgoingMessage, url: str) -> HttpRequest:
    """Build the request for PagerDuty. Messages of the same subject belong to the same incident."""
    message = outgoing.message
    body: dict[str, Any] = {
        "routing_key": config.routing_key,
        "event_action": "resolve" if message.resolved else "trigger",
        "dedup_key": f"sluice:{message.subject}",
        "client": "Sluice",
        "payload": {
            "summary": truncate(one_line(message.title), MAX_SUMMARY),
            "source": SOURCE,
            "severity": message.severity if config.severity is UNSET else config.severity,
            "timestamp": format_time(outgoing.created_at),
            "class": message.type,
            "custom_details": _details(outgoing),
        },
    }
    if message.link is not None:
        body |= {"client_url": message.link, "links": [{"href": message.link, "text": message.link_label}]}
    return HttpRequest(url, msgspec.json.encode(body), {"Content-Type": "application/json"})


def _details(outgoing: OutgoingMessage) -> dict[str, str]:
    facts = {one_line(fact.name): truncate(fact.value, MAX_DETAIL) for fact in outgoing.message.facts[:MAX_PAGER_FACTS]}
    return ({"text": truncate(outgoing.message.text, MAX_DETAIL)} if outgoing.message.text else {}) | facts


MAX_BYTES: Final = 20_000  # recommended by Standard Webhooks; only a large `data` exceeds it
MAX_FACTS: Final = 20  # in a shortened body
_TEXT_LIMITS: Final = (500, 50)  # characters per text; the second limit applies if the first does not suffice
_SIGNATURE_VERSION: Final = "v1"


def build_webhook_request(config: WebhookConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """Build the signed request. If the body would be too large, the human-readable texts are shortened. The
    machine-readable `data` stays complete.
    """
    body = _body(outgoing, outgoing.message)
    for length in _TEXT_LIMITS:
        if len(body) > MAX_BYTES:
            body = _body(outgoing, _shorten(outgoing.message, length))
    own_headers = {
        "Content-Type": "application/json",
        "webhook-id": outgoing.id,
        "webhook-timestamp": str(int(outgoing.now.timestamp())),
        "webhook-signature": signatures(config, outgoing.id, outgoing.now, body),
    }
    return HttpRequest(config.url, body, {**config.headers, **own_headers})


def _body(outgoing: OutgoingMessage, message: Message) -> bytes:
    """The body `{"type", "timestamp", "data"}`. `data` contains the message's machine-readable data, and the
    message.
    """
    people = {
        "subject": message.subject,
        "title": message.title,
        "text": message.text,
        "severity": message.severity,
        "resolved": message.resolved,
        "facts": message.facts,
        "link": message.link,
    }
    return msgspec.json.encode(
        {
            "type": message.type,
            "timestamp": format_time(outgoing.created_at),
            "data": message.data | {"message": people},
        }
    )


def _shorten(message: Message, length: int) -> Message:
    """Truncate each text of the message."""
    facts = tuple(Fact(truncate(fact.name, length), truncate(fact.value, length)) for fact in message.facts[:MAX_FACTS])
    title, text = truncate(message.title, length), truncate(message.text, length)
    return msgspec.structs.replace(message, title=title, text=text, facts=facts)


def signatures(config: WebhookConfig, id_: str, timestamp: datetime, body: bytes) -> str:
    """The signatures with the secret and, if there is one, with the previous secret, separated by a space."""
    secrets = [config.secret] if config.previous_secret is UNSET else [config.secret, config.previous_secret]
    signed = b"%s.%d.%s" % (id_.encode(), int(timestamp.timestamp()), body)
    return " ".join(f"{_SIGNATURE_VERSION},{_signature(secret_bytes(secret), signed)}" for secret in secrets)


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
