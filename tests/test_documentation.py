"""The documentation hangs together: links lead somewhere, the index has every page, README.md stays short, and names in
docstrings of modules exist.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLACES: Final = ("*.md", "docs/**/*.md", "deploy/**/*.md", "changes/*.md")
PAGES: Final = sorted(page for place in PLACES for page in ROOT.glob(place))
README_BYTES: Final = 9_000

LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)

PACKAGES: Final = ("sluice", "gateway", "query", "control", "chassis", "proto")
# Dotted names in backquotes, and at the start of the lines of a listing.
QUOTED_NAME: Final = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)+)`")
LISTED_NAME: Final = re.compile(r"^ +([A-Za-z_]\w*(?:\.\w+)+)(?=  |$)", re.MULTILINE)


@cache
def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere."""
    base = ROOT if page.parent.name == "changes" else page.parent  # fragments move to CHANGELOG.md
    text = re.sub(r"^ {4}.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (base / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def test_links_lead_somewhere_and_pages_that_are_named_exist() -> None:
    wrong = [f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in broken(page)]
    for page in PAGES:
        named = re.findall(r"`((?:docs|deploy|benchmarks)/[\w/.-]+\.\w+)`", page.read_text(encoding="utf-8"))
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in named if not (ROOT / name).exists()]
    assert wrong == []


def test_the_index_has_every_page() -> None:
    index = LINK.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(index)


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES


class Sources:
    """Our modules, packages and classes, and what each defines, read without importing anything."""

    def __init__(self) -> None:
        self.docstrings: dict[str, str] = {}
        self.packages: dict[str, str] = {}  # by module: that in which its docstring looks for names
        self._members: dict[str, set[str]] = {}
        self._bases: dict[str, list[str]] = {}
        self._imports: dict[str, str] = {}
        self._classes: dict[str, set[str]] = {}  # dotted names by name
        for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
            self._read(path)

    def is_broken(self, package: str, name: str, *, listed: bool) -> bool:
        """Whether a name in the docstring of a module of `package` leads nowhere. `listed`: it must be ours."""
        first, _, rest = name.partition(".")
        found = [root for root in (first, f"{package}.{first}") if root in self._members]
        found = found or sorted(self._classes.get(first, ()))
        return not any(self._exists(root, rest) for root in found) if found else listed

    def _read(self, path: Path) -> None:
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.docstrings[module] = ast.get_docstring(tree, clean=False) or ""
        self.packages[module] = module if is_package else module.rpartition(".")[0]
        parent, _, name = module.rpartition(".")
        self._members.setdefault(parent, set()).add(name)
        self._define(module, tree.body)

    def _define(self, owner: str, body: list[ast.stmt]) -> None:
        members = self._members.setdefault(owner, set())
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                self._define_class(f"{owner}.{statement.name}", statement)
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                members.add(statement.name)
            elif isinstance(statement, (ast.If, ast.Try)):
                self._define(owner, [*statement.body, *statement.orelse])
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    members.add(alias.asname or alias.name)
                    self._imports[f"{owner}.{alias.asname or alias.name}"] = f"{statement.module}.{alias.name}"
            else:
                members |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and stored(node)}

    def _define_class(self, name: str, definition: ast.ClassDef) -> None:
        self._classes.setdefault(definition.name, set()).add(name)
        self._bases[name] = [ast.unparse(base).partition("[")[0] for base in definition.bases]
        self._define(name, definition.body)
        attributes = (node for node in ast.walk(definition) if isinstance(node, ast.Attribute) and stored(node))
        self._members[name] |= {node.attr for node in attributes if ast.unparse(node.value) == "self"}

    def _exists(self, owner: str, rest: str) -> bool:
        name, _, rest = rest.partition(".")
        bases = (base for written in self._bases.get(owner, ()) for base in self._classes.get(written, ()))
        if name not in self._members.get(owner, ()):
            return any(self._exists(base, f"{name}.{rest}".rstrip(".")) for base in bases)
        whole = f"{owner}.{name}"
        return not rest or self._exists(self._imports.get(whole, whole), rest)


def stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def test_names_in_docstrings_of_modules_exist() -> None:
    sources = Sources()
    wrong = [
        f"{module}: {name}"
        for module, text in sources.docstrings.items()
        for pattern in (QUOTED_NAME, LISTED_NAME)
        for name in pattern.findall(text)
        if sources.is_broken(sources.packages[module], name, listed=pattern is LISTED_NAME)
    ]
    assert wrong == []
