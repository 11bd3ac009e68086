"""Messages of commits and texts of proposals: issues that they fix, changes that they revert.

An input is UTF-8. What is quoted as a whole says nothing, whatever it is; and nothing is said that is not in the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from control.code.messages import (
    PLACEHOLDER,
    ParsedMessage,
    merge_of,
    read_commit,
    read_proposal,
    strip_code_and_quotes,
)
from control.issues.references import MAX_REFERENCES

_TARGET: Final = re.compile(r"#[1-9][0-9]{0,17}|[0-9a-f]{7,64}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")


def check(data: bytes) -> None:
    text = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    for is_markdown in (False, True):
        check_stripped(text, strip_code_and_quotes(text, is_markdown=is_markdown))
    for parsed in (read_commit(text, "acme", "shop/web"), read_proposal("Change", text, "acme", "shop/web")):
        check_parsed(text, parsed)
    number = merge_of(text).number
    assert number is None or (_NUMBER.fullmatch(number) and number in text)
    check_quoted(text)


def check_stripped(text: str, kept: str) -> None:
    pieces = [piece for line in kept.split("\n") for piece in line.split(PLACEHOLDER)]
    assert all(piece in text for piece in pieces)
    assert len(kept.replace(PLACEHOLDER, "")) <= 2 * len(text)


def check_parsed(text: str, parsed: ParsedMessage) -> None:
    lower = text.lower()
    assert len(parsed.reverts) <= MAX_REFERENCES
    assert len(parsed.fixed.short_ids) + len(parsed.fixed.issue_ids) <= MAX_REFERENCES
    targets = {one.target for one in parsed.reverts}
    assert len(targets) + sum(one.reverts_merge for one in parsed.reverts) >= len(parsed.reverts)
    for one in parsed.reverts:
        assert _TARGET.fullmatch(one.target)
        assert one.target.lstrip("#") in lower
    for name in parsed.fixed.short_ids:
        assert f"{name.project_slug}-{name.number}" in lower


def check_quoted(text: str) -> None:
    ticks = "`" * (3 + max((len(run) for run in re.findall("`+", text)), default=0))
    lines = text.split("\n")
    quoted = [f"{ticks}\n{text}\n{ticks}", "\n".join(f"> {line}" for line in lines)]
    if "-->" not in f"<!--\n{text}":
        quoted.append(f"<!--\n{text}\n-->")
    for one in quoted:
        assert not read_commit(one, "acme", "shop/web"), one
        assert not read_proposal("Change", one, "acme", "shop/web"), one
    indented = "\n".join(f"    {line}" for line in lines)
    assert not read_proposal("Change", indented, "acme", "shop/web"), indented


def examples() -> Iterator[bytes]:
    """Texts of every kind."""
    hashed = "a1" * 20
    yield from (
        one.encode()
        for one in (
            'Revert "Fixes WEB-1: totals (#1)" (#2)\n\nThis reverts commit ' + hashed + ".",
            f'Revert "Merge"\n\nThis reverts commit {hashed}, reversing\nchanges made to {hashed}.',
            "Reverts shop/web#5\nReverts https://git.example/shop/web/-/merge_requests/6",
            "This reverts merge request shop/web!5 and !6",
            "This reverts pull request #59.\n\n> Fixes WEB-1",
            f"revert {hashed}\n\nrevert Fixes WEB-1",
            f'Cart (#9)\n\n* Fixes WEB-6, WEB-7\n\n* Cache\n\n* Revert "Cache"\n\nThis reverts commit {hashed}.',
            "- a\n  ```\n  Fixes WEB-1\n  ```\n\n      Closes WEB-2\n\n1. resolves WEB-3 `fixes WEB-4` <!-- a\nb -->",
            "~~~ text\nFixes WEB-1\n~~~\n<!--\nFixes WEB-2\n\n--> Fixes WEB-3\n> quoted\nlazy",
            "Merge pull request 'x' (#12) from a into b\n\nReviewed-on: https://git.example/shop/web/pulls/12",
            f"Fix\n* a{' ' * 4_000}b\n* Round{' ' * 40}(#5)",
            "fixes https://ops.example/orgs/acme/issues/iss_01jd3x4c9v8k2m5n7p0q1r2s3t",
        )
    )
