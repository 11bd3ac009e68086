"""Mutants of a text as it stands in Python source: another name, or another SQL. Prose is left alone."""

import re
from collections.abc import Iterator
from typing import Final

_LITERAL: Final = re.compile(r"""(?P<prefix>[bBrRfFuU]*)(?P<quote>\"\"\"|'''|"|')(?P<text>.*)(?P=quote)""", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,64}")
_SQL: Final = re.compile(
    r"\b(SELECT|FROM|WHERE|PREWHERE|HAVING|ORDER BY|GROUP BY|LIMIT|INSERT INTO|UPDATE|DELETE|SETTINGS|AND|OR)\b"
)
# What stands in SQL, what it becomes, and how the mutant is called. The first that fits at a place is the one.
SQL: Final = (
    (r"\bAND\b", "OR"),
    (r"\bOR\b", "AND"),
    (r"\bDESC\b", "ASC"),
    (r"\bASC\b", "DESC"),
    (r"\bNOT ", ""),
    (r"\bDISTINCT ", ""),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bsum\(", "max("),
    (r"<=", "<"),
    (r">=", ">"),
    (r"!=", "="),
    (r"(?<= )<(?= )", "<="),
    (r"(?<= )>(?= )", ">="),
    (r"(?<= )=(?= )", "!="),
)
_PLACES: Final = re.compile("|".join(f"({pattern})" for pattern, _ in SQL))


def changes(literal: str) -> Iterator[tuple[str, int, int, str]]:
    """(operator, start, end, text) for each: the bytes of the literal from start to end become text."""
    if _SQL.search(literal):
        for at in _PLACES.finditer(literal):
            other = SQL[(at.lastindex or 1) - 1][1]
            start, end = (len(literal[:place].encode()) for place in at.span())
            yield f"sql:{re.sub(r'[^A-Za-z<>=!]', '', other) or 'nothing'}", start, end, other
        return
    if (whole := _LITERAL.fullmatch(literal)) is None:
        return
    if whole["text"] == "" or (_NAME.fullmatch(whole["text"]) and "f" not in whole["prefix"].lower()):
        place = len(literal.encode()) - len(whole["quote"])
        yield "string:_", place, place, "_"
