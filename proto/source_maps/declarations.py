"""Finds the functions that a minified file declares: a frame names a function as the minifier has renamed it, and a map
knows the original name of each declaration.

By patterns, not by a parser: one name too many does no harm, because a map has no other name at its place.
"""

import re
from typing import Final

MAX_DECLARATIONS: Final = 100_000

_NAME: Final = r"[A-Za-z_$\u00aa-\uffff][\w$]{0,99}"
# function t(, function*t(, class t, t=function, t=async, t=class, t=e=>, t=(e,n)=>, t:function
_DECLARATION: Final = re.compile(
    rf"\b(?:function(?:\s+|\s*\*\s*)|class\s+)(?P<a>{_NAME})"
    rf"|(?<![\w$.])(?P<b>{_NAME})\s?[=:]\s?(?:async\b\s?)?(?:function\b|class\b|{_NAME}\s?=>|\([^()]{{0,200}}\)\s?=>)"
)
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def find_declarations(minified: str) -> dict[str, list[int]]:
    """By name, the line and the column of each declaration, as numbers in one list."""
    if not minified.isascii():
        minified = _ASTRAL.sub("  ", minified)  # columns count UTF-16 code units
    found: dict[str, list[int]] = {}
    count = 0
    for number, line in enumerate(minified.split("\n")):
        for match in _DECLARATION.finditer(line):
            group = "a" if match["a"] else "b"
            found.setdefault(match[group], []).extend((number, match.start(group)))
            count += 1
            if count == MAX_DECLARATIONS:
                return found
    return found
