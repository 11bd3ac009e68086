"""Extracts the prose of a file. Blanks replace code, so that the prose keeps its lines and columns.

Of Markdown: everything but code, addresses of links and comments. Of Python: docstrings, and texts of at least four
words that are not SQL. A placeholder of an f-string is a word.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("chassis", "control", "gateway", "proto", "query", "sluice", "web")
_CODE: Final = "X"  # a word instead of code
_FENCE: Final = re.compile(r"^( *)```.*?^\1```[ \t]*$", re.DOTALL | re.MULTILINE)
_INDENTED: Final = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z)|\n(?= {4}))+")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_INLINE: Final = re.compile(r"(`+)(?:(?!\n\n).)+?\1", re.DOTALL)
_ADDRESS: Final = re.compile(r"(?<=\])\([^)\s]*\)|<?https?://[^\s>)]+>?")
_WORDS: Final = re.compile(r"[A-Za-z][a-z']*(?:[ ,]+[A-Za-z`{][\w'`{}.]*){3}")
_STRING: Final = re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
_CONTINUED: Final = re.compile(r'"\s*\n\s*f?"')  # one string in several parts
_SQL: Final = re.compile(r"\b(SELECT|INSERT INTO|CREATE|ALTER TABLE|WHERE|GROUP BY|PRAGMA)\b")


class Text(NamedTuple):
    """Prose, and the line of its file in which it begins."""

    file: str
    line: int
    prose: str


def pages() -> list[Path]:
    """README and the pages of docs/, of which rates are counted."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def markdown_files() -> list[Path]:
    """All pages."""
    return [
        *pages(),
        *sorted(ROOT.glob("C*.md")),
        *sorted(ROOT.glob("SECURITY.md")),
        *sorted(ROOT.glob("changes/*.md")),
    ]


def python_files() -> list[Path]:
    """All modules of the product."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def of_markdown(path: Path) -> Text:
    """The prose of a page."""
    text = path.read_text(encoding="utf-8")
    for pattern in (_COMMENT, _FENCE, _INDENTED):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    text = _INLINE.sub(_as_word, text)
    text = _ADDRESS.sub(lambda found: " " * len(found[0]), text)
    return Text(name_of(path), 1, text)


def strings_of(source: str) -> str:
    """All strings of a module, found without parsing it, which takes fifty times as long."""
    return "\n".join(long or short for long, short in _STRING.findall(_CONTINUED.sub("", source)))


def of_python(path: Path) -> Iterator[Text]:
    """The texts of a module."""
    return _of_node(ast.parse(path.read_text(encoding="utf-8")), name_of(path))


def _of_node(node: ast.AST, file: str) -> Iterator[Text]:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else _CODE for part in node.values)
        yield from _of_string("".join(map(str, parts)), node.lineno, file)
        return
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield from _of_string(node.value, node.lineno, file)
        return
    for child in ast.iter_child_nodes(node):
        yield from _of_node(child, file)


def _of_string(value: str, line: int, file: str) -> Iterator[Text]:
    if _WORDS.search(value) and not _SQL.search(value):
        yield Text(file, line, _INLINE.sub(_as_word, value))


def _as_word(code: re.Match[str]) -> str:
    """One word, and blanks: as many characters and lines as the code."""
    return _CODE + re.sub(r"[^\n]", " ", code[0][1:])


def name_of(path: Path) -> str:
    """The path of a file below the root of the project."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
