"""A receiver of the tenant's own: Standard Webhooks 1.0.0, signed with HMAC-SHA256.

`webhook-id` is the id of the delivery, the same in every attempt: a receiver that stores the ids it has seen processes
nothing twice.
"""

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.notify.channels.config import WebhookConfig, secret_bytes
from control.notify.deliveries.platforms.outgoing_message import HttpRequest, OutgoingMessage, truncate
from control.notify.message import Fact, Message

MAX_BYTES: Final = 20_000  # recommended by Standard Webhooks; exceeded only by `data` for programs
MAX_FACTS: Final = 20  # in a shortened body
_TEXT_LIMITS: Final = (500, 50)  # characters per text; the second if the first does not suffice
_SIGNATURE_VERSION: Final = "v1"


def build_request(config: WebhookConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """If the body would be too large, the texts for people are shortened; the data for programs stays complete."""
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
    """`{"type", "timestamp", "data"}`; `data` is the message's data for programs, and the message."""
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
    """One signature by the secret, and one by the previous secret if there is one, separated by a space."""
    secrets = [config.secret] if config.previous_secret is UNSET else [config.secret, config.previous_secret]
    signed = b"%s.%d.%s" % (id_.encode(), int(timestamp.timestamp()), body)
    return " ".join(f"{_SIGNATURE_VERSION},{_signature(secret_bytes(secret), signed)}" for secret in secrets)


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
