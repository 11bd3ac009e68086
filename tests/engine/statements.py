"""From the text of a request to one statement and its data, as ClickHouse's HTTP interface takes them apart."""

import re
from typing import Final, NamedTuple

HEAD: Final = 256 * 1024  # bytes; a statement in front of its data is shorter (`max_query_size`)

_INSERT: Final = re.compile(rb"\s*INSERT\s+INTO\s", re.IGNORECASE)
_INSERT_FORMAT: Final = re.compile(rb"\bFORMAT\s+(\w+)[ \t\f]*(?:\r?\n|;|$)?", re.IGNORECASE)
_TRAILING_FORMAT: Final = re.compile(r"\bFORMAT\s+(\w+)\s*(SETTINGS\b[^()]*)?$", re.IGNORECASE)
_SELECTED: Final = re.compile(rb"\b(?:SELECT|VALUES)\b", re.IGNORECASE)
_ANSWERS: Final = re.compile(
    r"[\s(]*(?:SELECT|WITH|SHOW|DESC|DESCRIBE|EXISTS|EXPLAIN|CHECK|KILL|VALUES)\b", re.IGNORECASE
)
_TOKENS: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`|--[^\n]*|/\*.*?\*/|;", re.DOTALL
)


class SyntaxFault(Exception):
    """Code 62: the text is not one statement."""


class Statement(NamedTuple):
    """One statement. `data` is what follows `INSERT ... FORMAT`, None for anything else."""

    text: str
    format: str | None
    data: bytes | None
    answers: bool  # whether it has a result, be it empty


def parse(in_url: str, body: bytes) -> Statement:
    """The statement of a request: the parameter `query`, a line end, and the body read on as one text.

    Raises SyntaxFault.
    """
    whole = f"{in_url}\n".encode() + body if in_url else body
    if _INSERT.match(whole):
        found = _INSERT_FORMAT.search(whole, 0, HEAD)
        if found and not _SELECTED.search(whole, 0, found.start()):
            text = whole[: found.start()].decode()
            return Statement(_single(text), found[1].decode(), whole[found.end() :], answers=False)
    text = _single(whole.decode())
    trailing = _TRAILING_FORMAT.search(text)
    return Statement(text, trailing[1] if trailing else None, None, answers=bool(_ANSWERS.match(_bare(text))))


def _single(text: str) -> str:
    """The text without a semicolon at its end; one anywhere else would begin a second statement."""
    for token in _TOKENS.finditer(text):
        if token[0] == ";":
            if _bare(text[token.end() :]).strip(" \t\r\n;"):
                raise SyntaxFault(f"Syntax error (Multi-statements are not allowed): failed at position {token.end()}")
            return text[: token.start()].rstrip()
    if not _bare(text).strip():
        raise SyntaxFault("Syntax error: failed at position 1 (end of query): empty query")
    return text.rstrip()


def _bare(text: str) -> str:
    """Without comments."""
    return _TOKENS.sub(lambda token: "" if token[0].startswith(("--", "/*")) else token[0], text)
