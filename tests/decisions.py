"""What the pages of docs/adr allow by name: lines of their own, a word and what it is about.

Gate: cpu-json
Interface: GET /orgs/{orgSlug}/members parameters/query/limit
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

Word = Literal["Gate", "Interface"]

PAGES: Final = Path(__file__).parents[1] / "docs" / "adr"


class Allowance(NamedTuple):
    """A line of a page."""

    page: str
    subject: str

    def __str__(self) -> str:
        return f"{self.page}: {self.subject}"


def read(directory: Path = PAGES) -> dict[str, str]:
    """The text of every page, by its name."""
    return {page.stem: page.read_text() for page in sorted(directory.glob("*.md"))}


def allowances(pages: Mapping[str, str], word: Word) -> list[Allowance]:
    """The lines that begin with the word, in order. What is indented, quoted or within a line is an example."""
    line = re.compile(rf"^{word}: (\S.*?)\s*$", re.MULTILINE)
    return [Allowance(page, subject) for page, text in pages.items() for subject in line.findall(text)]


def added(base: Mapping[str, str], head: Mapping[str, str], word: Word) -> list[str]:
    """What lines are about that the pages of `base` do not have; a page may have got another name."""
    left = Counter(line.subject for line in allowances(base, word))
    new = Counter(line.subject for line in allowances(head, word))
    return list((new - left).elements())
