"""Text to HTML. Whatever goes into the page goes through here: strings are escaped, `Markup` is not."""

import re
from collections.abc import Sequence
from html import escape
from typing import Final

_CODE: Final = re.compile(r"`([^`]+)`")
_VOID: Final = frozenset({"meta", "wbr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """`<name ...>children</name>`; `class_` stands for `class`, `data_x` for `data-x`; an empty one is left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value}
    given = "".join(f' {key}="{escape(value)}"' for key, value in named.items())
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{concat(*children)}</{name}>")


def concat(*parts: str) -> Markup:
    """Parts one after the other, each escaped unless it is HTML."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def inline(text: str) -> Markup:
    """A line of text; what stands between backticks is code."""
    pieces = _CODE.split(text)
    return concat(*(element("code", piece) if n % 2 else piece for n, piece in enumerate(pieces)))


def paragraphs(text: str) -> Markup:
    """Text with empty lines between its paragraphs."""
    return concat(*(element("p", inline(" ".join(part.split()))) for part in text.split("\n\n") if part.strip()))


def table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Markup:
    """A table; each cell knows its heading, for screens too narrow for columns."""
    if not rows:
        return Markup()
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in headings)))
    body = [
        element("tr", *(element("td", cell, data_label=name) for name, cell in zip(headings, row, strict=True)))
        for row in rows
    ]
    return element("table", head, element("tbody", *body))
