"""Reads messages of commits and texts of proposals: which issues they fix, and which changes they revert. Pure
functions.

How forges and git say that a change is reverted:

    This reverts commit HASH.                           git, GitHub, GitLab, Gitea
    This reverts commit HASH, reversing changes made to HASH.   git, of a merge: with all commits that it merged
    Reverts OWNER/REPOSITORY#N                          GitHub, the description of the pull request
    This reverts merge request !N                       GitLab (`revert_description` of its commits)
    This reverts pull request #N.                       Bitbucket
    revert HASH                                         Gitea and Forgejo, the first line; the old message follows

A revert quotes the title of the reverted change: `Revert "Fixes WEB-1"`. Quoted text fixes nothing. The rest of the
message counts, so a squashed message may fix one issue and revert another change. If a squashed message contains a
change and its revert (items with `* `), both are left out.

Code, quotes and HTML comments are removed from a text before it is read, in time that is linear in its length.
Descriptions of proposals are Markdown, so the rules are those that CommonMark defines
(https://spec.commonmark.org/0.31.2/). Messages of commits are plain text in which people write Markdown, because forges
copy descriptions into them. In messages, too, text in fences, in backticks, behind `>` and in comments is quoted.
Indented lines of messages are read, however, because `git merge --squash` indents the messages that it joins.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from control.issues.references import MAX_REFERENCES, MAX_TEXT, References, fixed_by

PLACEHOLDER: Final = "\ufffc"  # replaces removed text, so that the words around it are not joined

_FENCE: Final = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_ITEM: Final = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])(?: +|$)")
_NEW_BLOCK: Final = re.compile(r"[>#`~<|]|(?:[-+*]|[0-9]{1,9}[.)]) ")
_SPAN: Final = re.compile(r"\\[\\`<]|`+|<!--")
_TICKS: Final = re.compile(r"`+")
_END: Final = "-->"
_CODE_INDENT: Final = 4
MAX_LINES: Final = 4_000  # per text; further lines are not read
_MAX_NESTED: Final = 8  # markers of list items on one line


def strip_code_and_quotes(text: str, *, is_markdown: bool) -> str:
    """Remove fenced and inline code, quotes and comments from a text. From Markdown, indented code is removed, too."""
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


@dataclass(slots=True)
class _Blocks:
    """Reads lines one after the other, and tracks the block that the next line is in. `last_end`: the last line that
    may end a comment.
    """

    _is_markdown: bool
    _last_end: int
    _fence: str = ""
    _in_comment: bool = False
    _in_quote: bool = False  # whether the next line continues a quote without a marker
    _in_code: bool = False
    _after_blank: bool = True
    _items: list[int] = field(default_factory=list)  # columns at which the contents of the open list items begin

    def keep(self, number: int, line: str) -> str:
        """The part of the line that is read."""
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
        if len(line) >= len(self._fence) and not line.strip(self._fence[0]):
            self._fence, self._after_blank = "", True

    def _enter_items(self, column: int, content: str) -> int:
        """Leave the list items that the line does not belong to. Returns the line's indent within the remaining list
        items.
        """
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
        """Whether the line is not part of a quote, and begins neither a fence nor a comment of several lines."""
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
    """Remove code in backticks, and comments."""
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


SHORTEST_HASH: Final = 7
_SPACE: Final = r"[ \t\n]{1,20}"
_REF: Final = (
    r"(?:https?://[^\s<>]{1,255}?/(?:pulls?|merge_requests|pull-requests)/[1-9][0-9]{0,17}"
    r"|(?:[\w./~-]{1,200})?[#!][1-9][0-9]{0,17}|[0-9a-f]{7,64})(?![\w-])"
)
_REVERTS: Final = re.compile(
    rf"(?:\bThis{_SPACE}reverts|^[ \t]{{0,20}}(?:[*+-][ \t]{{1,20}})?Reverts){_SPACE}"
    rf"(?:(?:commits?|pull{_SPACE}requests?|merge{_SPACE}requests?){_SPACE})?"
    rf"(?P<list>{_REF}(?:(?:,(?:{_SPACE})?(?:and{_SPACE})?|{_SPACE}and{_SPACE}){_REF})*)"
    rf"(?P<whole>,?{_SPACE}reversing{_SPACE}changes{_SPACE}made{_SPACE}to\b)?",
    re.IGNORECASE | re.MULTILINE,
)
_WORTH_READING: Final = re.compile(r"fix|close|resolve|revert", re.IGNORECASE)
_EACH: Final = re.compile(_REF, re.IGNORECASE)
_QUOTE: Final = re.compile(r'\b(?:Revert(?:s|ed)?|Reapply) "', re.IGNORECASE)
_QUOTED_LINE: Final = re.compile(
    r"(?:[*+-] +)?revert(?:(?:\([^()\n]{0,100}\))?!?:|(?= +(?:fix|close|resolve)))", re.IGNORECASE
)
_SECTION: Final = re.compile(r"[*-][ \t]+(?=\S)")
_TITLE: Final = re.compile(r'(Revert|Reapply) "(.*)"')
_OLD_MESSAGE: Final = re.compile(r"revert ([0-9a-f]{40}|[0-9a-f]{64})[ \t]*\n", re.IGNORECASE)
_OF_TITLE: Final = re.compile(r"[ \t]+\([#!]([1-9][0-9]{0,17})\)$")
_TITLE_END: Final = 30  # characters at the end of a title that are searched: a title may be as long as a message
_MERGED: Final = re.compile(
    r"Merge pull request (?:#([1-9][0-9]{0,17}) (?:from|in) |'.{0,1000}' \(#([1-9][0-9]{0,17})\) from )"
    r"|Merged in .{1,1000} \(pull request #([1-9][0-9]{0,17})\)|Pull request #([1-9][0-9]{0,17}): "
)
_MERGED_LATER: Final = re.compile(
    r"^(?:See merge request [\w./~-]{0,250}!|Reviewed-on: https?://[^\s<>]{1,255}/pulls/)([1-9][0-9]{0,17})[ \t]*$",
    re.MULTILINE,
)
_CUT: Final = "\u2026"  # ends a title that was too long; the rest begins the next paragraph


class Revert(NamedTuple):
    """A change that is reverted. `target`: the beginning of a commit's hash in lower case, or `#` and the number of a
    proposal. `reverts_merge`: the commit is a merge, and is reverted with all commits that it merged.
    """

    target: str
    reverts_merge: bool = False

    @property
    def is_number(self) -> bool:
        return self.target.startswith("#")


class MergeOf(NamedTuple):
    """The number of the proposal that a commit says it comes from. `is_merge`: the commit is the merge of the
    proposal's commits.
    """

    number: str | None = None
    is_merge: bool = False


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """The references in a text."""

    fixed: References = field(default_factory=References)
    reverts: tuple[Revert, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fixed.short_ids or self.fixed.issue_ids or self.reverts)


@dataclass(slots=True)
class _Section:
    """A change that a message describes: its title, and the text without quoted titles."""

    title: str
    lines: list[str] = field(default_factory=list)
    quotes: bool = False


def read_commit(message: str, org_slug: str, repository: str) -> ParsedMessage:
    """Parse the message of a commit."""
    if _WORTH_READING.search(message[:MAX_TEXT]) is None:
        return ParsedMessage()
    old = _OLD_MESSAGE.match(message)
    if old is not None:
        return ParsedMessage(reverts=(Revert(old[1].lower()),))
    return _read(strip_code_and_quotes(message[:MAX_TEXT], is_markdown=False), org_slug, repository)


def read_proposal(title: str, text: str | None, org_slug: str, repository: str) -> ParsedMessage:
    """Parse title and description of a proposal. Only the description is Markdown."""
    description = strip_code_and_quotes((text or "")[:MAX_TEXT], is_markdown=True)
    return _read(f"{strip_code_and_quotes(title, is_markdown=False)}\n\n{description}", org_slug, repository)


def merge_of(message: str) -> MergeOf:
    """The proposal that a commit comes from, according to the texts that forges write into messages."""
    head = message[:MAX_TEXT]
    title = head.partition("\n")[0].rstrip()
    merged = _MERGED.match(title)
    if merged is not None:
        return MergeOf(next(one for one in merged.groups() if one is not None), is_merge=True)
    squashed = _OF_TITLE.search(title[-_TITLE_END:])
    if squashed is not None:
        return MergeOf(squashed[1])
    later = _MERGED_LATER.findall(head)
    return MergeOf(later[-1], is_merge=title.startswith("Merge ")) if later else MergeOf()


def _read(text: str, org_slug: str, repository: str) -> ParsedMessage:
    own_text = "\n".join(line for one in _kept(_sections(text)) for line in one.lines)
    reverts = tuple(dict.fromkeys(_reverts(own_text, repository)))
    return ParsedMessage(fixed_by(own_text, org_slug), reverts[:MAX_REFERENCES])


def _sections(text: str) -> list[_Section]:
    sections: list[_Section] = []
    for line in text.split("\n"):
        item = _SECTION.match(line)
        if item is not None or not sections:
            sections.append(_Section(_without_number(line[item.end() if item else 0 :].strip())))
        section = sections[-1]
        section.lines.append(_unquoted(line, section))
    return sections


def _without_number(title: str) -> str:
    """The title without the proposal number that forges add."""
    end = title[-_TITLE_END:]
    number = _OF_TITLE.search(end)
    return title if number is None else title[: len(title) - len(end) + number.start()].rstrip(" \t")


def _unquoted(line: str, section: _Section) -> str:
    """The line without the title that a revert quotes."""
    quote = _QUOTE.search(line)
    if quote is not None:
        section.quotes = True
        end = line.rfind('"', quote.end())
        return line[: quote.start()] + PLACEHOLDER + (line[end + 1 :] if end >= 0 else "")
    if _QUOTED_LINE.match(line) or (section.quotes and line.startswith(_CUT)):
        return PLACEHOLDER
    return line


def _kept(sections: list[_Section]) -> list[_Section]:
    """The sections that no later section reverts by its title."""
    kept: list[_Section] = []
    reverted: Counter[str] = Counter()
    for section in reversed(sections):
        if reverted[section.title]:
            reverted[section.title] -= 1
            continue
        kept.append(section)
        title = _TITLE.fullmatch(section.title)
        if title is not None:
            reverted[title[2] if title[1] == "Revert" else f'Revert "{title[2]}"'] += 1
    return kept[::-1]


def _reverts(text: str, repository: str) -> Iterator[Revert]:
    for match in _REVERTS.finditer(text):
        for each in _EACH.findall(match["list"]):
            target = _target(each.lower(), repository.lower())
            if target is not None:
                yield Revert(target, match["whole"] is not None and not target.startswith("#"))


def _target(reference: str, repository: str) -> str | None:
    """The hash, or the number of a proposal of this repository. None for a proposal of another repository."""
    if reference.startswith(("http://", "https://")):
        address, _, number = reference.rpartition("/")
        place = address.rpartition("/")[0].removesuffix("/-").replace("/repos/", "/")
        return f"#{number}" if place.endswith(f"/{repository}") else None
    place, sign, number = reference.replace("!", "#").partition("#")
    if not sign:
        return place
    return f"#{number}" if not place or f"/{repository}".endswith(f"/{place}") else None
