"""What a text says itself: without code, quotes and HTML comments. Pure; the time is linear in the length of the text.

Descriptions of proposals are Markdown, so the rules are those of CommonMark (https://spec.commonmark.org/0.31.2/).
Messages of commits are plain text in which people write Markdown: forges join descriptions into them. There, too, text
in fences, in backticks, behind `>` and in comments is quoted. But indented lines count: `git merge --squash` indents
the messages that it joins.
"""

import re
from typing import Final

PLACEHOLDER: Final = "\ufffc"  # in place of what was taken out: words around it do not come together

_FENCE: Final = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_ITEM: Final = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])(?: +|$)")
_NEW_BLOCK: Final = re.compile(r"[>#`~<|]|(?:[-+*]|[0-9]{1,9}[.)]) ")
_SPAN: Final = re.compile(r"\\[\\`<]|`+|<!--")
_TICKS: Final = re.compile(r"`+")
_END: Final = "-->"
_CODE_INDENT: Final = 4
MAX_LINES: Final = 4_000  # that count
_MAX_NESTED: Final = 8  # markers of list items on one line


def strip_code_and_quotes(text: str, *, is_markdown: bool) -> str:
    """The text without fenced and inline code, quotes and comments; of Markdown also without indented code."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MAX_LINES)[:MAX_LINES]
    last_end = max((number for number, line in enumerate(lines) if _END in line), default=-1)
    blocks = _Blocks(is_markdown, last_end)
    paragraphs: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        kept = blocks.keep(number, line)
        if kept.strip():
            paragraphs[-1].append(kept)
        else:
            paragraphs.append([])
    return "\n\n".join(_without_spans("\n".join(one)) for one in paragraphs if one)


class _Blocks:
    """Reads lines one after the other, and knows in which block the next one is. `last_end`: the last line that may end
    a comment.
    """

    def __init__(self, is_markdown: bool, last_end: int) -> None:
        self._is_markdown = is_markdown
        self._last_end = last_end
        self._fence = ""
        self._in_comment = False
        self._in_quote = False  # the next line continues it without a marker
        self._in_code = False
        self._after_blank = True
        self._items: list[int] = []  # where the contents of the open list items begin

    def keep(self, number: int, line: str) -> str:
        """What of the line counts."""
        if self._fence:
            self._end_fence(line.strip())
            return ""
        if self._in_comment:
            _, end, rest = line.partition(_END)
            self._in_comment = not end
            return PLACEHOLDER + rest if end else ""
        expanded = line.expandtabs(_CODE_INDENT)
        content = expanded.lstrip(" ")
        if not content:
            self._after_blank, self._in_quote = True, False
            return ""
        indent = self._enter_items(len(expanded) - len(content), content)
        after_blank, self._after_blank = self._after_blank, False
        self._in_code = self._is_markdown and indent >= _CODE_INDENT and (after_blank or self._in_code)
        if self._in_code:
            return ""
        self._in_quote = self._in_quote and _NEW_BLOCK.match(content) is None
        return line if self._is_own_text(number, self._without_markers(len(expanded) - len(content), content)) else ""

    def _end_fence(self, line: str) -> None:
        is_end = len(line) >= len(self._fence) and not line.strip(self._fence[0])
        if is_end:
            self._fence, self._after_blank = "", True

    def _enter_items(self, column: int, content: str) -> int:
        """Leave the list items that the line does not belong to; its indent within the one that it does."""
        if self._after_blank or _ITEM.match(content):
            while self._items and column < self._items[-1]:
                self._items.pop()
        return column - (self._items[-1] if self._items else 0)

    def _without_markers(self, column: int, content: str) -> str:
        for _ in range(_MAX_NESTED):
            marker = _ITEM.match(content)
            if marker is None:
                break
            column += min(marker.end(), len(marker[0].rstrip()) + _CODE_INDENT)
            content = content[marker.end() :]
            self._items = [*self._items[: _MAX_NESTED - 1], column]
        return content

    def _is_own_text(self, number: int, content: str) -> bool:
        """Whether the line is none of a quote, and begins no fence and no comment of several lines."""
        if content.startswith(">"):
            self._in_quote = self._is_markdown and bool(content.strip("> "))
            return False
        if self._in_quote:
            return False
        fence = _FENCE.fullmatch(content.rstrip())
        if fence is not None:
            self._fence = fence[1] or fence[2]
            return False
        self._in_comment = (
            content.startswith("<!--") and _END not in content and (self._is_markdown or number < self._last_end)
        )
        return not self._in_comment


def _without_spans(paragraph: str) -> str:
    """Without code in backticks and comments."""
    if "`" not in paragraph and "<!--" not in paragraph:
        return paragraph
    closing: dict[int, list[int]] = {}
    for ticks in reversed(list(_TICKS.finditer(paragraph))):
        closing.setdefault(len(ticks[0]), []).append(ticks.start())
    parts: list[str] = []
    at, last_end = 0, paragraph.rfind(_END)
    while (found := _SPAN.search(paragraph, at)) is not None:
        end = found.end()
        if found[0].startswith("`"):
            starts = closing.get(len(found[0]), [])
            while starts and starts[-1] < end:
                starts.pop()
            after = starts[-1] + len(found[0]) if starts else None
        else:
            is_comment = found[0] == "<!--" and end <= last_end
            after = paragraph.index(_END, end) + len(_END) if is_comment else None
        parts.append(paragraph[at:end] if after is None else paragraph[at : found.start()] + PLACEHOLDER)
        at = end if after is None else after
    return "".join(parts) + paragraph[at:]
