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

from chassis.relational import format_time
from control.channels.config import WebhookConfig, secret_bytes
from control.deliveries.kinds.told import Request, Told

_VERSION: Final = "v1"


def request(config: WebhookConfig, told: Told) -> Request:
    """`{"type", "timestamp", "data"}`; `data` is the message, and what it has for programs."""
    message = told.message
    shown = {
        "subject": message.subject,
        "title": message.title,
        "text": message.text,
        "severity": message.severity,
        "resolved": message.resolved,
        "facts": message.facts,
        "link": message.link,
    }
    payload = {
        "type": message.type,
        "timestamp": format_time(told.created_at),
        "data": message.data | {"message": shown},
    }
    body = msgspec.json.encode(payload)
    ours = {
        "Content-Type": "application/json",
        "webhook-id": told.id,
        "webhook-timestamp": str(int(told.now.timestamp())),
        "webhook-signature": signatures(config, told.id, told.now, body),
    }
    return Request(config.url, body, {**config.headers, **ours})


def signatures(config: WebhookConfig, id_: str, at: datetime, body: bytes) -> str:
    """One by the secret, and one by the secret before it while there is one, separated by a space."""
    secrets = [config.secret] if config.previous_secret is UNSET else [config.secret, config.previous_secret]
    signed = b"%s.%d.%s" % (id_.encode(), int(at.timestamp()), body)
    return " ".join(f"{_VERSION},{_signature(secret_bytes(secret), signed)}" for secret in secrets)


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
