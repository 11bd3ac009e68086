"""Finds the issues that texts name: `fixes CHECKOUT-12`, in messages of commits and in texts of proposals.

A short id is the slug of a project in capitals and the number of an issue in the project. The cost of a text is
bounded: only its first MAX_TEXT characters and its first MAX_REFERENCES references are read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from proto.identity import MAX_SLUG_LENGTH

MAX_TEXT: Final = 65_536
MAX_REFERENCES: Final = 50  # per text
MAX_SHORT_ID_LENGTH: Final = MAX_SLUG_LENGTH + 1 + 18
SHORT_ID_PATTERN: Final = r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?-[1-9][0-9]{0,17}(?!\n)$"

_SHORT_ID: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?-[1-9][0-9]{0,17}(?![\w-])"
_ISSUE_URL: Final = (
    r"https?://[^\s/?#<>]{1,255}/(?:[^\s?#<>]{0,255}/)?orgs/(?P<org>[a-z0-9-]{1,64})/"
    r"(?:projects/[a-z0-9-]{1,64}/)?issues/"
)
_NAMED: Final = rf"(?:{_ISSUE_URL.replace('?P<org>', '')}(?:iss_[0-9a-z]{{26}}|{_SHORT_ID})|#?{_SHORT_ID})"
_FIXES: Final = re.compile(
    rf"(?<![\w-])(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?):?[ \t]+(?P<list>{_NAMED}(?:(?:[ \t]*,[ \t]*(?:and[ \t]+)?"
    rf"|[ \t]+and[ \t]+){_NAMED})*)",
    re.IGNORECASE,
)
_EACH: Final = re.compile(
    rf"(?:{_ISSUE_URL}(?:(?P<id>iss_[0-9a-z]{{26}})|(?P<linked>{_SHORT_ID}))|#?(?P<short>{_SHORT_ID}))", re.IGNORECASE
)
# [text](address): the address repeats or contradicts the text
_MARKDOWN_LINK: Final = re.compile(r"\[([^\[\]\n]{1,500})\]\([^()\s]{1,2048}\)")


class ShortId(NamedTuple):
    """The name of an issue: the slug of its project, and its number."""

    project_slug: str
    number: int

    def __str__(self) -> str:
        return f"{self.project_slug.upper()}-{self.number}"


class NamedIssue(NamedTuple):
    """An issue that was found by its name."""

    id: str
    project_id: int
    short_id: ShortId


@dataclass(frozen=True, slots=True)
class References:
    """The issues that one text names as fixed."""

    short_ids: tuple[ShortId, ...] = ()
    issue_ids: tuple[str, ...] = ()


class IssueIndex(NamedTuple):
    """Issues of an organization by name and by id."""

    by_name: Mapping[ShortId, NamedIssue]
    by_id: Mapping[str, NamedIssue]

    def resolve(self, references: References) -> list[NamedIssue]:
        """The issues that exist, each once, in the order of their ids."""
        found = [self.by_name.get(name) for name in references.short_ids]
        found += [self.by_id.get(issue_id) for issue_id in references.issue_ids]
        return sorted({one for one in found if one is not None})


def parse_short_id(text: str) -> ShortId | None:
    """Parse a text such as `CHECKOUT-12`, in upper or lower case. Returns None for other texts."""
    if re.match(SHORT_ID_PATTERN, text) is None:
        return None
    slug, _, number = text.rpartition("-")
    return ShortId(slug.lower(), int(number))


def fixed_by(text: str, org_slug: str) -> References:
    """The issues that the text names as fixed. Addresses count if they belong to this organization."""
    plain = _MARKDOWN_LINK.sub(r"\1", text[:MAX_TEXT])
    names: dict[ShortId, None] = {}
    ids: dict[str, None] = {}
    each = (match for listed in _FIXES.finditer(plain) for match in _EACH.finditer(listed["list"]))
    for match in islice(each, MAX_REFERENCES):  # repetitions count, too: they cost as much
        if match["org"] is not None and match["org"].lower() != org_slug:
            continue
        name = parse_short_id(match["linked"] or match["short"] or "")
        if name is not None:
            names[name] = None
        elif match["id"] is not None:
            ids[match["id"].lower()] = None
    return References(tuple(names), tuple(ids))
