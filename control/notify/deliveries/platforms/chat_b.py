"""Discord-compatible chats: an embed, sent to a webhook URL.

Limits: content 2 000 characters; per embed title 256, description 4 096, 25 fields of 256 and 1 024, 6 000 in total
(discord.com/developers/docs/resources/message). No mention is permitted, whatever a text contains.
"""

import math
import re
from datetime import datetime
from typing import Any, Final

import msgspec

from chassis.db.database import format_time
from control.notify.channels.config import ChatBConfig, Kind
from control.notify.deliveries.rules import (
    AttemptResult,
    HttpRequest,
    OutgoingMessage,
    clamp_wait,
    from_reply,
    one_line,
    truncate,
)
from control.notify.message import Message, Severity
from control.outbound.egress import HttpReply

APPROVE_PREFIX: Final = "sluice_approve:"
MAX_CONTENT: Final = 2_000
MAX_TITLE: Final = 256
MAX_DESCRIPTION: Final = 4_096
MAX_FIELDS: Final = 25
MAX_NAME: Final = 256
MAX_VALUE: Final = 1_024
MAX_EMBED: Final = 6_000
_COLORS: Final = {
    Severity.INFO: 0x3B82F6,
    Severity.WARNING: 0xF59E0B,
    Severity.ERROR: 0xEF4444,
    Severity.CRITICAL: 0x991B1B,
}
_RESOLVED_COLOR: Final = 0x22C55E
_MARKUP: Final = re.compile(r"([\\`*_~|>#\[\]()<:-])")
_TOO_MANY_REQUESTS: Final = 429
_ACTION_ROW: Final = 1
_BUTTON: Final = 2
_SUCCESS: Final = 3  # a style


class _RateLimitBody(msgspec.Struct):
    retry_after: float


def build_request(config: ChatBConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """The title is also the content, which notifications show. A webhook that does not belong to an app gets the
    message without the button: the platform leaves it out.
    """
    message = outgoing.message
    body: dict[str, Any] = {
        "content": truncate(escape_markdown(one_line(message.title)), MAX_CONTENT),
        "embeds": [embed(message) | {"timestamp": format_time(outgoing.created_at)}],
        "allowed_mentions": {"parse": []},
    }
    if Kind.CHAT_B.value in message.approve_in:
        body["components"] = [{"type": _ACTION_ROW, "components": [approve_button(message.subject)]}]
    return HttpRequest(config.webhook_url, msgspec.json.encode(body), {"Content-Type": "application/json"})


def interpret_reply(_config: ChatBConfig, reply: HttpReply, now: datetime) -> AttemptResult:
    """The body of a 429 has a more exact wait than its header."""
    result = from_reply(reply, now)
    if reply.status != _TOO_MANY_REQUESTS:
        return result
    try:
        wait = msgspec.json.decode(reply.body, type=_RateLimitBody).retry_after
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return result
    seconds = clamp_wait(wait) if math.isfinite(wait) else None
    return AttemptResult(False, result.detail, retry_after_s=seconds)


def embed(message: Message) -> dict[str, Any]:
    """The embed within MAX_EMBED characters in total: facts that do not fit are omitted from the end."""
    body: dict[str, Any] = {
        "title": truncate(escape_markdown(one_line(message.title)), MAX_TITLE),
        "color": _RESOLVED_COLOR if message.resolved else _COLORS[message.severity],
        "fields": [],
    }
    if message.text:
        body["description"] = truncate(escape_markdown(message.text), MAX_DESCRIPTION)
    if message.link is not None:
        body["url"] = message.link
    remaining = MAX_EMBED - len(body["title"]) - len(body.get("description", ""))
    for fact in message.facts[:MAX_FIELDS]:
        name, value = (
            truncate(escape_markdown(one_line(fact.name)), MAX_NAME) or "-",
            truncate(escape_markdown(fact.value), MAX_VALUE) or "-",
        )
        remaining -= len(name) + len(value)
        if remaining < 0:
            break
        body["fields"].append({"name": name, "value": value, "inline": len(value) <= 40})
    return body


def approve_button(request_id: str) -> dict[str, Any]:
    """A button whose press comes back as an interaction with this id (`control.inbound.chat.api`)."""
    return {"type": _BUTTON, "style": _SUCCESS, "label": "Approve", "custom_id": APPROVE_PREFIX + request_id}


def escape_markdown(text: str) -> str:
    """Escape the text's Markdown."""
    return _MARKUP.sub(r"\\\1", text)
