"""Teams: an Adaptive Card, sent to the URL of a workflow.

Limits: 28 KB in total (learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors); Adaptive Cards 1.4. Text
blocks support some Markdown, which is escaped.
"""

import re
from typing import Any, Final

import msgspec

from control.notify.channels.config import TeamsConfig
from control.notify.deliveries.platforms.outgoing_message import HttpRequest, OutgoingMessage, one_line, truncate
from control.notify.message import Message, Severity

MAX_BYTES: Final = 28_000
MAX_TITLE: Final = 256
MAX_TEXT: Final = 4_000
MAX_FACTS: Final = 20
MAX_VALUE: Final = 500
_STYLES: Final = {
    Severity.INFO: "accent",
    Severity.WARNING: "warning",
    Severity.ERROR: "attention",
    Severity.CRITICAL: "attention",
}
_MARKUP: Final = re.compile(r"([\\`*_~>#\[\]()<|-])")


def build_request(config: TeamsConfig, outgoing: OutgoingMessage) -> HttpRequest:
    """Texts are shortened further if the body exceeds MAX_BYTES."""
    body = msgspec.json.encode(envelope(outgoing.message))
    for shrink in (4, 16):
        if len(body) > MAX_BYTES:
            body = msgspec.json.encode(envelope(outgoing.message, shrink))
    return HttpRequest(config.workflow_url, body, {"Content-Type": "application/json"})


def envelope(message: Message, shrink: int = 1) -> dict[str, Any]:
    """A message with one card; texts are truncated to their limits divided by `shrink`."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": _body(message, shrink),
        "actions": [] if message.link is None else [_open_url_action(message.link, message.link_label)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _body(message: Message, shrink: int) -> list[dict[str, Any]]:
    title = {
        "type": "TextBlock",
        "text": escape_markdown(truncate(one_line(message.title), MAX_TITLE)),
        "weight": "bolder",
    }
    style = "good" if message.resolved else _STYLES[message.severity]
    body: list[dict[str, Any]] = [
        {"type": "Container", "style": style, "items": [title | {"size": "medium", "wrap": True}]}
    ]
    if message.text:
        body.append(
            {"type": "TextBlock", "text": escape_markdown(truncate(message.text, MAX_TEXT // shrink)), "wrap": True}
        )
    if message.facts:
        facts = [
            {
                "title": truncate(one_line(fact.name), 100),
                "value": escape_markdown(truncate(fact.value, MAX_VALUE // shrink)),
            }
            for fact in message.facts[:MAX_FACTS]
        ]
        body.append({"type": "FactSet", "facts": facts})
    return body


def _open_url_action(link: str, label: str) -> dict[str, Any]:
    return {"type": "Action.OpenUrl", "title": truncate(label, 75), "url": link}


def escape_markdown(text: str) -> str:
    """Escape the text's Markdown."""
    return _MARKUP.sub(r"\\\1", text)
