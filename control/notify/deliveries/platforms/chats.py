"""Chat platforms, on which a request can be approved by a button.

Slack-compatible platforms: a card of blocks, sent by an incoming webhook or by a bot. Limits: header 150 characters,
section 3 000, ten fields of 2 000, label of a button 75, text 4 000 (api.slack.com/reference/block-kit/blocks). In
mrkdwn `&`, `<` and `>` are escaped, which prevents links and mentions. Platforms without blocks (Mattermost) show the
text as Markdown, so its mentions and links are broken up.

Discord-compatible platforms: an embed, sent to a webhook URL. Limits: content 2 000 characters; per embed title 256,
description 4 096, 25 fields of 256 and 1 024, 6 000 in total (discord.com/developers/docs/resources/message). The
message permits no mentions, even if a text contains some.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import UNSET

from chassis.db.database import format_time
from control.notify.channels.config import ChatAConfig, ChatBConfig, Kind
from control.notify.deliveries.rules import (
    AttemptResult,
    HttpRequest,
    OutgoingMessage,
    clamp_wait,
    from_reply,
    one_line,
    truncate,
)
from control.notify.message import Fact, Message, Severity
from control.outbound.egress import HttpReply

POST_MESSAGE: Final = "/chat.postMessage"
APPROVE_ACTION: Final = "sluice_approve"
MAX_TEXT: Final = 4_000
MAX_HEADER: Final = 150
MAX_SECTION: Final = 3_000
MAX_FIELD: Final = 2_000
MAX_SECTION_FIELDS: Final = 10  # per section
MAX_FIELD_SECTIONS: Final = 4
_MAX_FACT_NAME: Final = 100
_MARKDOWN_TRIGGERS: Final = re.compile(
    r"[@#~\]]|:(?=\S)|www(?=\.)", re.IGNORECASE
)  # characters that Markdown mentions and links need
_ZERO_WIDTH_SPACE: Final = "\u200b"

# Transient errors in a 200 response to a bot. All others are permanent.
_TRANSIENT_ERRORS: Final = frozenset(
    {"ratelimited", "service_unavailable", "internal_error", "fatal_error", "request_timeout"}
)
_ERROR_DETAILS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "channel_not_found": "The channel does not exist, or the bot is not a member of it.",
        "not_in_channel": "The bot is not a member of the channel.",
        "is_archived": "The channel is archived.",
        "invalid_auth": "The platform rejected the token.",
        "account_inactive": "The platform rejected the token.",
        "token_revoked": "The platform rejected the token.",
        "token_expired": "The platform rejected the token.",
        "missing_scope": "The token lacks the scope to post messages.",
    }
)


class _BotResponse(msgspec.Struct):
    ok: bool
    error: str = ""


def build_chat_a_request(config: ChatAConfig, outgoing: OutgoingMessage, api_url: str) -> HttpRequest:
    """Build the request for a Slack-compatible channel. `api_url`: base URL of the platform's API, for bots."""
    body = card(outgoing.message)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if config.webhook_url is not UNSET:
        return HttpRequest(config.webhook_url, msgspec.json.encode(body), headers)
    headers["Authorization"] = f"Bearer {config.bot_token}"
    body |= {"channel": config.channel, "unfurl_links": False, "unfurl_media": False}
    return HttpRequest(api_url + POST_MESSAGE, msgspec.json.encode(body), headers)


def interpret_chat_a_reply(config: ChatAConfig, reply: HttpReply, now: datetime) -> AttemptResult:
    """Interpret the response. A bot always gets a 200, and the body has the result."""
    result = from_reply(reply, now)
    if not result.ok or config.webhook_url is not UNSET:
        return result
    try:
        response = msgspec.json.decode(reply.body, type=_BotResponse)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return AttemptResult(False, "The platform's response is not valid.")
    if response.ok:
        return result
    if response.error in _TRANSIENT_ERRORS:
        return AttemptResult(False, "The platform is temporarily unavailable.")
    return AttemptResult(
        False, _ERROR_DETAILS.get(response.error, "The platform rejected the message."), permanent=True
    )


def card(message: Message) -> dict[str, Any]:
    """The card of a message. `text` is shown in notifications, `blocks` in the channel."""
    header = {"type": "header", "text": {"type": "plain_text", "text": truncate(one_line(message.title), MAX_HEADER)}}
    blocks: list[dict[str, Any]] = [header]
    if message.text:
        blocks.append({"type": "section", "text": _markdown(truncate(escape_mrkdwn(message.text), MAX_SECTION))})
    facts = message.facts[: MAX_SECTION_FIELDS * MAX_FIELD_SECTIONS]
    for start in range(0, len(facts), MAX_SECTION_FIELDS):
        fields = [_markdown(_format_fact(fact)) for fact in facts[start : start + MAX_SECTION_FIELDS]]
        blocks.append({"type": "section", "fields": fields})
    can_approve = Kind.CHAT_A.value in message.approve_in
    if can_approve:
        hint = f"To reject it: `/sluice reject {message.subject} REASON`"
        blocks.append({"type": "context", "elements": [_markdown(hint)]})
    buttons = [approve_chat_a_button(message.subject)] if can_approve else []
    if message.link is not None:
        label = {"type": "plain_text", "text": truncate(message.link_label, 75)}
        buttons.append({"type": "button", "text": label, "url": message.link})
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": truncate(escape_mrkdwn(neutralize_markdown(one_line(message.title))), MAX_TEXT), "blocks": blocks}


def approve_chat_a_button(request_id: str) -> dict[str, Any]:
    """A button. Pressing it sends an action with this id and value (`control.inbound.chat.api`)."""
    label = {"type": "plain_text", "text": "Approve"}
    return {"type": "button", "text": label, "style": "primary", "action_id": APPROVE_ACTION, "value": request_id}


def escape_mrkdwn(text: str) -> str:
    """Escape the text, so that it contains no link and no mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def neutralize_markdown(text: str) -> str:
    """The text with zero-width spaces. It looks the same, but contains no mention and no link in Markdown."""
    return _MARKDOWN_TRIGGERS.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", text)


def _format_fact(fact: Fact) -> str:
    return truncate(
        f"*{truncate(escape_mrkdwn(one_line(fact.name)), _MAX_FACT_NAME)}*\n{escape_mrkdwn(fact.value)}", MAX_FIELD
    )


def _markdown(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


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
_SUCCESS: Final = 3  # the style of a green button


class _RateLimitBody(msgspec.Struct):
    retry_after: float


def build_chat_b_request(config: ChatBConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """Build the request for a Discord-compatible channel. The title is also the content, which notifications show. The
    platform leaves the button out if the webhook does not belong to an app.
    """
    message = outgoing.message
    body: dict[str, Any] = {
        "content": truncate(escape_markdown(one_line(message.title)), MAX_CONTENT),
        "embeds": [embed(message) | {"timestamp": format_time(outgoing.created_at)}],
        "allowed_mentions": {"parse": []},
    }
    if Kind.CHAT_B.value in message.approve_in:
        body["components"] = [{"type": _ACTION_ROW, "components": [approve_chat_b_button(message.subject)]}]
    return HttpRequest(config.webhook_url, msgspec.json.encode(body), {"Content-Type": "application/json"})


def interpret_chat_b_reply(_config: ChatBConfig, reply: HttpReply, now: datetime) -> AttemptResult:
    """Interpret the response. The body of a 429 has a more exact wait than its header."""
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
    """The embed, within MAX_EMBED characters in total. Facts that do not fit are omitted from the end."""
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


def approve_chat_b_button(request_id: str) -> dict[str, Any]:
    """A button. Pressing it sends an interaction with this id (`control.inbound.chat.api`)."""
    return {"type": _BUTTON, "style": _SUCCESS, "label": "Approve", "custom_id": APPROVE_PREFIX + request_id}


def escape_markdown(text: str) -> str:
    """Escape the text's Markdown."""
    return _MARKUP.sub(r"\\\1", text)
