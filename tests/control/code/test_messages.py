"""What messages of commits and texts of proposals say.

What texts say themselves, beside code, quotes and comments.
"""

import re

import pytest

from control.code import messages
from control.code.messages import PLACEHOLDER, MergeOf, merge_of, read_commit, read_proposal, strip_code_and_quotes

BOTH = [
    ("", ""),
    ("Fixes WEB-1", "Fixes WEB-1"),
    ("One\nTwo\r\nThree\n\n\n\nFour", "One\nTwo\nThree\n\nFour"),
    ("```\nFixes WEB-1\n```\nafter", "after"),
    ("before\n~~~ text\nFixes WEB-1\n```\n~~~~\nafter", "before\n\nafter"),
    ("````\n```\nFixes WEB-1\n````\nafter", "after"),
    ("```\nnever closed\n\nFixes WEB-1", ""),
    ("``` a`b\nFixes WEB-1", "``` a`b\nFixes WEB-1"),
    ("- ```\n  Fixes WEB-1\n  ```\n- after", "- after"),
    ("> Fixes WEB-1\n\nafter", "after"),
    ("- > Fixes WEB-1\n- after", "- after"),
    ("a `Fixes WEB-1` b", f"a {PLACEHOLDER} b"),
    ("a ``Fixes ` WEB-1`` b", f"a {PLACEHOLDER} b"),
    ("a `Fixes\nWEB-1` b", f"a {PLACEHOLDER} b"),
    ("a `Fixes\n\nWEB-1` b", "a `Fixes\n\nWEB-1` b"),
    (r"a \`Fixes WEB-1\` b", r"a \`Fixes WEB-1\` b"),
    ("`a` `b", f"{PLACEHOLDER} `b"),
    ("a <!-- Fixes WEB-1 --> b", f"a {PLACEHOLDER} b"),
    ("<!--\nFixes WEB-1\n\nCloses WEB-2\n--> after", f"{PLACEHOLDER} after"),
    ("`<!--` Fixes WEB-1 `-->`", f"{PLACEHOLDER} Fixes WEB-1 {PLACEHOLDER}"),
    ("a <!-- no end", "a <!-- no end"),
    ("```\n<!--\n```\nFixes WEB-1", "Fixes WEB-1"),
    ("<!--\n```\n-->\nFixes WEB-1", f"{PLACEHOLDER}\nFixes WEB-1"),
    ("Fixes `x` WEB-1", f"Fixes {PLACEHOLDER} WEB-1"),
]
MARKDOWN = [
    ("a\n\n    Fixes WEB-1\n\n    Closes WEB-2\n\nafter", "a\n\nafter"),
    ("\tFixes WEB-1\nafter", "after"),
    ("a\n    Fixes WEB-1", "a\n    Fixes WEB-1"),
    ("- a\n\n    Fixes WEB-1", "- a\n\n    Fixes WEB-1"),
    ("- a\n\n      Fixes WEB-1", "- a"),
    ("10. a\n\n    Fixes WEB-1\n\nb\n\n    Closes WEB-2", "10. a\n\n    Fixes WEB-1\n\nb"),
    ("> quoted\nFixes WEB-1", ""),
    ("> quoted\n- Fixes WEB-1", "- Fixes WEB-1"),
    (">\nFixes WEB-1", "Fixes WEB-1"),
    ("<!--\nFixes WEB-1", ""),
]
PLAIN = [
    ("Squashed\n\n    Fixes WEB-1", "Squashed\n\n    Fixes WEB-1"),
    ("> quoted\nFixes WEB-1", "Fixes WEB-1"),
    ("<!--\nFixes WEB-1", "<!--\nFixes WEB-1"),
]


@pytest.mark.parametrize(("text", "kept"), [*BOTH, *MARKDOWN])
def test_code_quotes_and_comments_of_markdown_are_stripped(text: str, kept: str) -> None:
    assert strip_code_and_quotes(text, is_markdown=True) == kept


@pytest.mark.parametrize(("text", "kept"), [*BOTH, *PLAIN])
def test_code_and_quotes_of_commit_messages_are_stripped_but_not_indented_lines(text: str, kept: str) -> None:
    assert strip_code_and_quotes(text, is_markdown=False) == kept


A, B = "a" * 40, "b" * 40

COMMITS: list[tuple[str, list[str], list[str]]] = [
    ("Round\n\nFixes WEB-1, WEB-2 and closes: web-3", ["WEB-1", "WEB-2", "WEB-3"], []),
    (f"This reverts commit {A}.", [], [A]),
    (f"This reverts commit {A.upper()}", [], [A]),
    (f"This reverts commits {A[:7]}, {B[:8]} and {B}.", [], [A[:7], B[:8], B]),
    (f'Revert "Merge it"\n\nThis reverts commit {A}, reversing\nchanges made to {B}.', [], [f"{A} whole"]),
    (f'Revert "Fixes WEB-1: a "quoted" title (#1)" (#2)\n\nThis reverts commit {A}.', [], [A]),
    (f'Revert "Fixes WEB-1"\n\nThis reverts commit {A}.\n\nFixes WEB-2', ["WEB-2"], [A]),
    (f'Revert "Fixes WEB-1: a very long ti\u2026\n\n\u2026tle, closes WEB-2"\n\nThis reverts commit {A}.', [], [A]),
    (f'Reapply "Fixes WEB-1"\n\nThis reverts commit {A}.', [], [A]),
    (f'Revert "Revert "Fixes WEB-1""\n\nThis reverts commit {A}.', [], [A]),
    (f"revert: Fixes WEB-1\n\nThis reverts commit {A}.", [], [A]),
    (f"revert(cart)!: closes WEB-1\n\nThis reverts commit {A}.", [], [A]),
    ("Revert fixes WEB-1", [], []),
    ("Revert the cache, fixes WEB-1", ["WEB-1"], []),
    ('Revert "Fixes WEB-1" (#6)\n\nReverts shop/web#5', [], ["#5"]),
    ("Reverts #5, #6", [], ["#5", "#6"]),
    ("Reverts Shop/Web#5", [], ["#5"]),
    ("Reverts other/web#5", [], []),
    ("Reverts bookshop/web#5\nReverts op/web#6", [], []),
    ("Reverts https://github.com/shop/web/pull/5", [], ["#5"]),
    ("Reverts https://gitlab.com/shop/web/-/merge_requests/5.", [], ["#5"]),
    ("Reverts https://git.example/projects/SHOP/repos/web/pull-requests/5", [], ["#5"]),
    ("Reverts https://github.com/other/web/pull/5", [], []),
    ("This reverts merge request !5", [], ["#5"]),
    ("This reverts merge request shop/web!5", [], ["#5"]),
    ("This reverts merge request web!5", [], ["#5"]),
    ("This reverts pull request #5.\n\n> Fixes WEB-1\r\n> \r\n> Closes WEB-2", [], ["#5"]),
    (f"revert {A}\n\nrevert Round (fixes WEB-1)\n\nCloses WEB-2", [], [A]),
    ("It reverts #5, and this partially reverts commit abcdef0", [], []),
    (f'Cart (#9)\n\n* Fixes WEB-1\n\n* Cache\n\n* Revert "Cache"\n\nThis reverts commit {A}.', ["WEB-1"], [A]),
    ('Cart (#9)\n\n* Fixes WEB-1\n\n* Fixes WEB-2\n\n* Revert "Fixes WEB-1"', ["WEB-2"], []),
    ('Cart\n\n* Fixes WEB-1\n\n* Revert "Fixes WEB-1"\n\n* Reapply "Fixes WEB-1"', ["WEB-1"], []),
    ('Cart\n\n* Fixes WEB-1\n\n* Revert "Fixes WEB-1"\n\n* Fixes WEB-1', ["WEB-1"], []),
    (f'Cart\n\n* Revert "x"\n\nThis reverts commit {A}.\n\n* Reapply "x"\n\nThis reverts commit {B}.', [], [B]),
    (f"`This reverts commit {A}`\n> This reverts commit {B}", [], []),
    (f"Reverts {A[:6]}\nReverts {'1' * 65}", [], []),
    ("\n".join(f"This reverts commit {n:07x}." for n in range(60)), [], [f"{n:07x}" for n in range(50)]),
]  # fmt: skip


@pytest.mark.parametrize(("message", "fixed", "reverts"), COMMITS)
def test_what_messages_of_commits_fix_and_revert_is_found(message: str, fixed: list[str], reverts: list[str]) -> None:
    parsed = read_commit(message, "acme", "shop/web")
    assert [str(one) for one in parsed.fixed.short_ids] == fixed
    assert [one.target + " whole" * one.reverts_merge for one in parsed.reverts] == reverts


def test_a_description_of_a_proposal_is_read_as_markdown() -> None:
    parsed = read_proposal(
        'Revert "Fixes WEB-1"', "Reverts shop/web#5\n\n    Fixes WEB-2\n\nFixes WEB-3", "acme", "shop/web"
    )
    assert ([str(one) for one in parsed.fixed.short_ids], [one.target for one in parsed.reverts]) == (["WEB-3"], ["#5"])
    parsed = read_proposal("Fixes WEB-1", None, "acme", "shop/web")
    assert ([str(one) for one in parsed.fixed.short_ids], parsed.reverts) == (["WEB-1"], ())


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Round totals", MergeOf()),
        ("Round totals (#12)", MergeOf("12")),
        ("Round totals (#12)\n\nbody", MergeOf("12")),
        ("Round totals (!12)", MergeOf("12")),
        ('Revert "Round totals (#12)"', MergeOf()),
        ("Merge pull request #12 from ada/fix", MergeOf("12", is_merge=True)),
        ("Merge pull request #12 in SHOP/web from fix to main", MergeOf("12", is_merge=True)),
        ("Merge pull request 'Round' (#12) from fix into main", MergeOf("12", is_merge=True)),
        ("Merged in fix (pull request #12)\n\nRound", MergeOf("12", is_merge=True)),
        ("Pull request #12: Round", MergeOf("12", is_merge=True)),
        ("Merge branch 'fix' into 'main'\n\nRound\n\nSee merge request shop/web!12", MergeOf("12", is_merge=True)),
        ("Round\n\nReviewed-on: https://git.example/shop/web/pulls/12", MergeOf("12")),
    ],
)
def test_commits_name_their_proposal(message: str, found: MergeOf) -> None:
    assert merge_of(message) == found


class Recorded:
    """A pattern that notes how much it searches."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.sizes: list[int] = []

    def search(self, text: str) -> re.Match[str] | None:
        self.sizes.append(len(text))
        return self.pattern.search(text)


def test_only_the_end_of_a_title_is_searched_for_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes quadratic time in a run of spaces, and an item may be as long as a message."""
    recorded = Recorded(messages._OF_TITLE)
    monkeypatch.setattr(messages, "_OF_TITLE", recorded)
    item = "a" + " " * 60_000
    text = f'Fix\n* {item}b\n* Fixes WEB-1{" " * 99}(#{"9" * 18})\n* Revert "Fixes WEB-1"\n\nFixes WEB-2'
    parsed = read_commit(text, "acme", "shop/web")
    assert [str(one) for one in parsed.fixed.short_ids] == ["WEB-2"]
    assert merge_of(f"{item}b").number is None
    assert len(recorded.sizes) == 5
    assert max(recorded.sizes) <= 30
