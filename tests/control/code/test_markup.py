"""What texts say themselves, beside code, quotes and comments."""

import pytest

from control.issues.markup import PLACEHOLDER, strip_code_and_quotes

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
