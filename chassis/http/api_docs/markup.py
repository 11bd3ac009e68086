"""Text to HTML. All content of the page passes through here: strings are escaped, `Markup` is not."""

import re
from collections.abc import Sequence
from html import escape
from typing import Final

_CODE: Final = re.compile(r"`([^`]+)`")
_VOID: Final = frozenset({"meta", "wbr"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """`<name ...>children</name>`. `class_` becomes `class`, `data_x` `data-x`; an empty attribute is omitted."""
    by_name = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value}
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in by_name.items())
    if name in _VOID:
        return Markup(f"<{name}{attribute_text}>")
    return Markup(f"<{name}{attribute_text}>{concat(*children)}</{name}>")


def concat(*parts: str) -> Markup:
    """The concatenated parts, each escaped unless it is `Markup`."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def inline(text: str) -> Markup:
    """A line of text; text between backticks becomes code."""
    pieces = _CODE.split(text)
    return concat(*(element("code", piece) if n % 2 else piece for n, piece in enumerate(pieces)))


def paragraphs(text: str) -> Markup:
    """One `p` element for each paragraph of a text; empty lines separate paragraphs."""
    return concat(*(element("p", inline(" ".join(part.split()))) for part in text.split("\n\n") if part.strip()))


def table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Markup:
    """A table; empty for no rows. Each cell has its heading as `data-label`, for screens too narrow for columns."""
    if not rows:
        return Markup()
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in headings)))
    body = [
        element("tr", *(element("td", cell, data_label=name) for name, cell in zip(headings, row, strict=True)))
        for row in rows
    ]
    return element("table", head, element("tbody", *body))
