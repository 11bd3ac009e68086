"""Replies to chat users, and the markup of each platform.

Texts from other sources (titles, summaries, reasons, names) pass through `ChatAMarkup.text` or `ChatBMarkup.text`.
These return one line without mentions, links and formatting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from control.notify.deliveries.platforms.chats import (
    approve_chat_a_button,
    escape_markdown,
    escape_mrkdwn,
    neutralize_markdown,
)
from control.notify.deliveries.rules import one_line, truncate

MAX_TEXT: Final = 300  # characters of a text from other sources
MAX_REPLY: Final = {"chat-a": 2_900, "chat-b": 1_900}  # characters; the platforms accept 3 000 per section, and 2 000


@dataclass(frozen=True, slots=True)
class Reply:
    """Lines in the platform's markup. `approve_id`: the request that a button below them approves."""

    lines: tuple[str, ...]
    approve_id: str | None = None


class ChatAMarkup:
    """mrkdwn. `text` and `bold` take texts from other sources, `code` a word to copy, `link` an address of Sluice."""

    def text(self, text: str) -> str:
        return escape_mrkdwn(neutralize_markdown(_shortened(text)))

    def bold(self, text: str) -> str:
        return f"*{self.text(text.replace('*', ''))}*"

    def code(self, text: str) -> str:
        return f"`{escape_mrkdwn(_shortened(text).replace('`', ''))}`"

    def link(self, url: str, text: str) -> str:
        return f"<{escape_mrkdwn(url)}|{self.text(text.replace('|', '/'))}>"


class ChatBMarkup:
    """Markdown, as chat-b has it."""

    def text(self, text: str) -> str:
        return escape_markdown(neutralize_markdown(_shortened(text)))

    def bold(self, text: str) -> str:
        return f"**{self.text(text)}**"

    def code(self, text: str) -> str:
        return f"`{_shortened(text).replace('`', '')}`"

    def link(self, url: str, text: str) -> str:
        return f"[{self.text(text)}](<{url}>)"


Markup = ChatAMarkup | ChatBMarkup
CHAT_A_MARKUP: Final = ChatAMarkup()
CHAT_B_MARKUP: Final = ChatBMarkup()


def chat_a_reply(reply: Reply) -> dict[str, Any]:
    """The message, which only the chat user sees. Its blocks are verbatim, so the platform makes no links of texts that
    look like one.
    """
    text = _joined(reply.lines, MAX_REPLY["chat-a"])
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}},
    ]
    if reply.approve_id is not None:
        blocks.append({"type": "actions", "elements": [approve_chat_a_button(reply.approve_id)]})
    return {"response_type": "ephemeral", "text": text, "blocks": blocks}


def chat_b_content(reply: Reply) -> str:
    """The content of a message."""
    return _joined(reply.lines, MAX_REPLY["chat-b"])


def _shortened(text: str) -> str:
    return truncate(one_line(text), MAX_TEXT)


def _joined(lines: Sequence[str], length: int) -> str:
    """As many whole lines as fit: a line with escaped text must not be cut."""
    kept, size = [], 0
    for line in lines:
        size += len(line) + 1
        if size > length:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(kept)
