"""`python -m tests.prose [FILE...]` prints each place with a habit that makes a sentence hard to read.

It ends with 1 if it finds one, or if README and docs/ have too many semicolons or too few examples.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.prose.texts import Text, markdown_files, name_of, of_markdown, of_python, pages, python_files, strings_of

RULES: Final = Path(__file__).with_name("rules.toml")
_BEFORE: Final = re.compile(r"(?:\A|[.!?:;]\s|\n\s*\n|\n\s*[-*]\s|\n\s*\d+\.\s)\s*\Z")  # a sentence
_QUESTION: Final = re.compile(r"[^.;|]*\?")
_SEMICOLON: Final = re.compile(r"(?<!&[a-z]{2});(?=\s)")
_EXAMPLE: Final = re.compile(r"\b(for example|such as)\b", re.IGNORECASE)
MOST: Final = {"semicolons": 4.0}  # per 1 000 words
LEAST: Final = {"examples": 0.8}


class Rule(NamedTuple):
    """A habit. `exceptions`: texts in which it is right, and why."""

    name: str
    pattern: re.Pattern[str]
    begins_sentence: bool
    instead: str
    exceptions: Mapping[str, str]


class Place(NamedTuple):
    """Where a text has it."""

    file: str
    line: int
    rule: Rule
    excerpt: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule.name}: {self.excerpt!r} ({self.rule.instead})"


def read_rules() -> list[Rule]:
    """The rules of rules.toml."""
    return [make_rule(**one) for one in tomllib.loads(RULES.read_text(encoding="utf-8"))["rule"]]


def make_rule(
    name: str, pattern: str, instead: str, *, sentence: bool = False, exception: Sequence[dict[str, str]] = ()
) -> Rule:
    """A rule as rules.toml has it. Raises KeyError for an exception without a text or a reason."""
    compiled = re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
    return Rule(name, compiled, sentence, instead, {each["text"]: each["reason"] for each in exception})


def find(texts: Iterable[Text], rules: Sequence[Rule]) -> Iterator[Place]:
    """All places, in the order of the texts."""
    for text in texts:
        for rule in rules:
            for found in rule.pattern.finditer(text.prose):
                if rule.begins_sentence and not _begins_statement(text.prose, found):
                    continue
                if not _is_exception(text.prose, found, rule.exceptions):
                    excerpt = " ".join(text.prose[max(0, found.start() - 30) : found.end() + 50].split())
                    yield Place(text.file, text.line + text.prose.count("\n", 0, found.end()), rule, excerpt)


def _is_exception(prose: str, found: re.Match[str], exceptions: Iterable[str]) -> bool:
    """Whether the habit is inside of one of the texts, whose words may be on several lines."""
    patterns = (r"\s+".join(map(re.escape, exception.split())) for exception in exceptions)
    allowed = (each.span() for pattern in patterns for each in re.finditer(pattern, prose))
    return any(begin <= found.start() and found.end() <= end for begin, end in allowed)


def _begins_statement(prose: str, found: re.Match[str]) -> bool:
    """Whether a sentence begins here that is no question."""
    before = prose[max(0, found.start() - 20) : found.start()]
    return bool(_BEFORE.search(before)) and not _QUESTION.match(prose, found.end())


def find_in(rules: Sequence[Rule], files: Sequence[str] = ("",)) -> Iterator[Place]:
    """In the pages and modules whose names begin so. A module is parsed only if a pattern is in one of its strings."""
    for path in markdown_files():
        if name_of(path).startswith(tuple(files)):
            yield from find([of_markdown(path)], rules)
    for path in python_files():
        if name_of(path).startswith(tuple(files)):
            strings = strings_of(path.read_text(encoding="utf-8"))
            if any(rule.pattern.search(strings) for rule in rules):
                yield from find(of_python(path), rules)


def rates() -> dict[str, float]:
    """How often README and docs/ have something, per 1 000 words."""
    counted: Counter[str] = Counter()
    for text in map(of_markdown, pages()):
        counted["words"] += len(text.prose.split())
        counted["semicolons"] += len(_SEMICOLON.findall(text.prose))
        counted["examples"] += len(_EXAMPLE.findall(text.prose))
    return {name: 1_000 * counted[name] / counted["words"] for name in (*MOST, *LEAST)}


def main(files: Sequence[str]) -> int:
    """In these files and folders, or in all."""
    wrong = [str(place) for place in find_in(read_rules(), files or ("",))]
    if not files:
        wrong += [
            f"README and docs/: {rate:.2f} {name} in 1 000 words"
            for name, rate in rates().items()
            if _is_wrong(name, rate)
        ]
    sys.stdout.writelines(f"{one}\n" for one in wrong)
    return bool(wrong)


def _is_wrong(name: str, rate: float) -> bool:
    return rate > MOST.get(name, rate) or rate < LEAST.get(name, rate)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
