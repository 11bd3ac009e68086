"""A receiver of one's own: Standard Webhooks 1.0.0, signed with HMAC-SHA256.

The id in `webhook-id` is that of the delivery, over all attempts: who keeps the ids that were seen does nothing
twice.
"""

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.channels.config import WebhookConfig, secret_bytes
from control.deliveries.platforms.outgoing_message import HttpRequest, OutgoingMessage, truncate
from control.message import Fact, Message

MAX_BYTES: Final = 20_000  # Standard Webhooks recommends it; more only where what is for programs takes it
MAX_FACTS: Final = 20  # where it is shortened
_TEXT_LIMITS: Final = (500, 50)  # characters of a text, the second where the first is not enough
_SIGNATURE_VERSION: Final = "v1"


def build_request(config: WebhookConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """Where the body would be too large, what it shows people is shortened; what it has for programs is whole."""
    body = _body(outgoing, outgoing.message)
    for length in _TEXT_LIMITS:
        if len(body) > MAX_BYTES:
            body = _body(outgoing, _shorten(outgoing.message, length))
    ours = {
        "Content-Type": "application/json",
        "webhook-id": outgoing.id,
        "webhook-timestamp": str(int(outgoing.now.timestamp())),
        "webhook-signature": signatures(config, outgoing.id, outgoing.now, body),
    }
    return HttpRequest(config.url, body, {**config.headers, **ours})


def _body(outgoing: OutgoingMessage, shown: Message) -> bytes:
    """`{"type", "timestamp", "data"}`; `data` is the message, and what it has for programs."""
    people = {
        "subject": shown.subject,
        "title": shown.title,
        "text": shown.text,
        "severity": shown.severity,
        "resolved": shown.resolved,
        "facts": shown.facts,
        "link": shown.link,
    }
    return msgspec.json.encode(
        {"type": shown.type, "timestamp": format_time(outgoing.created_at), "data": shown.data | {"message": people}}
    )


def _shorten(message: Message, length: int) -> Message:
    """Each of its texts."""
    facts = tuple(Fact(truncate(fact.name, length), truncate(fact.value, length)) for fact in message.facts[:MAX_FACTS])
    title, text = truncate(message.title, length), truncate(message.text, length)
    return msgspec.structs.replace(message, title=title, text=text, facts=facts)


def signatures(config: WebhookConfig, id_: str, timestamp: datetime, body: bytes) -> str:
    """One by the secret, and one by the secret before it while there is one, separated by a space."""
    secrets = [config.secret] if config.previous_secret is UNSET else [config.secret, config.previous_secret]
    signed = b"%s.%d.%s" % (id_.encode(), int(timestamp.timestamp()), body)
    return " ".join(f"{_SIGNATURE_VERSION},{_signature(secret_bytes(secret), signed)}" for secret in secrets)


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
