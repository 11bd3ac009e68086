"""The documentation hangs together: links lead somewhere, the index has every page, and README.md stays short."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
README_BYTES: Final = 9_000

LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere."""
    text = re.sub(r"^ {4}.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:docs|deploy|benchmarks)/[\w/.-]+\.\w+)`", page.read_text(encoding="utf-8"))
    if page.name != "CHANGELOG.md":  # which names what there was
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_index_has_every_page() -> None:
    index = LINK.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(index)


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES
