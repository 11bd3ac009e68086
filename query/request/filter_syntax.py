"""Parses the text encoding of filters, for URLs: terms separated by spaces, all of which must match.

    key:value   -key:value      equals, does not equal
    key:>100  key:>=1  key:<5  key:<=5
    key:[a,b]   -key:[a,b]      one of, none of
    key:abc*  key:*abc          starts, ends with
    key:*abc*   -key:*abc*      contains, does not contain
    has:key     !has:key        has, lacks the key (also key:* and -key:*)
    (key:a or key:b)            one of these terms matches
    key:"a b"   "a key":value   quotes keep spaces and signs literal; inside them \\" and \\\\ are escapes

`attr:key:value` names the attribute if a built-in field has the same name. A key with a colon must be quoted, and so
must a key that begins with a parenthesis. Within a group, parentheses in keys and values must be quoted.
"""

import re
from dataclasses import dataclass
from typing import Final

_ATTRIBUTE: Final = "attr:"
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_KEY: Final = re.compile(r'[^\s:"]+')
_BARE: Final = re.compile(r"[^\s]*")
_GROUPED_KEY: Final = re.compile(r'[^\s:"()]+')
_GROUPED_BARE: Final = re.compile(r"[^\s()]*")
_OR: Final = re.compile(r"(?i:or)(?=\s)")
_LIST_ITEM: Final = re.compile(r'[^\s",\[\]]*')
_SPACE: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ORDERS: Final = ((">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt"))
_NEGATED: Final = {"eq": "neq", "in": "not_in", "contains": "not_contains", "exists": "not_exists"}


class FilterSyntaxError(ValueError):
    """The text is not a list of terms; the message gives the position and is meant for the client."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term; `op` has its name in the JSON encoding."""

    key: str
    op: str
    value: str | list[str] | None = None


def parse(text: str) -> list[Term | list[Term]]:
    """Parse `text` into terms, and groups of terms. Raises FilterSyntaxError for what the module's
    grammar does not have.
    """
    return _Parser(text).terms()


class _Parser:
    """Parses terms from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._key_pattern, self._bare_pattern = _KEY, _BARE

    def terms(self) -> list[Term | list[Term]]:
        terms = list[Term | list[Term]]()
        self._take(_SPACE)
        while self._at < len(self._text):
            terms.append(self._group() if self._skip("(") else self._term())
            if self._at < len(self._text) and not self._text[self._at].isspace():
                raise self._error("a space")
            self._take(_SPACE)
        return terms

    def _group(self) -> list[Term]:
        """The terms after an opening parenthesis, up to the closing one."""
        self._key_pattern, self._bare_pattern = _GROUPED_KEY, _GROUPED_BARE
        members = list[Term]()
        while True:
            self._take(_SPACE)
            members.append(self._term())
            before = self._at
            self._take(_SPACE)
            if self._skip(")"):
                self._key_pattern, self._bare_pattern = _KEY, _BARE
                return members
            if self._at == before or not self._take(_OR):
                raise self._error("'or' or ')'")

    def _term(self) -> Term:
        negated = self._skip("-") or self._skip("!")
        if negated and self._text.startswith("(", self._at):
            raise FilterSyntaxError(f"At character {self._at + 1}: a group cannot be negated.")
        op: str
        value: str | list[str] | None
        if self._skip("has:"):
            key, op, value = self._key(), "exists", None
        else:
            key = self._key()
            if not self._skip(":"):
                raise self._error("key:value")
            op, value = self._test()
        if not negated:
            return Term(key, op, value)
        if op not in _NEGATED:
            raise FilterSyntaxError(
                f"{key[:64]!r}: this operator cannot be negated; only equality, [lists], *wildcards* and has can."
            )
        return Term(key, _NEGATED[op], value)

    def _key(self) -> str:
        prefix = _ATTRIBUTE if self._skip(_ATTRIBUTE) else ""
        name = self._quoted()
        if name is None:
            name = self._take(self._key_pattern)
        if not name:
            raise self._error("a key")
        return prefix + name

    def _test(self) -> tuple[str, str | list[str] | None]:
        for sign, op in _ORDERS:
            if self._skip(sign):
                return op, self._value()
        if self._skip("["):
            return "in", self._list()
        quoted = self._quoted()
        return ("eq", quoted) if quoted is not None else _wildcard(self._take(self._bare_pattern))

    def _value(self) -> str:
        quoted = self._quoted()
        return quoted if quoted is not None else self._take(self._bare_pattern)

    def _list(self) -> list[str]:
        items = []
        while True:
            self._take(_SPACE)
            quoted = self._quoted()
            items.append(quoted if quoted is not None else self._take(_LIST_ITEM))
            self._take(_SPACE)
            if self._skip("]"):
                return items
            if not self._skip(","):
                raise self._error("',' or ']'")

    def _quoted(self) -> str | None:
        if not self._text.startswith('"', self._at):
            return None
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            raise self._error("a closing quote")
        self._at = match.end()
        return _ESCAPE.sub(r"\1", match[1])

    def _skip(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _error(self, expected: str) -> FilterSyntaxError:
        return FilterSyntaxError(f"At character {self._at + 1}: expected {expected}.")


def _wildcard(text: str) -> tuple[str, str | None]:
    """Interpret an unquoted value; a `*` at either end, or at both, matches any text."""
    if text == "*":
        return "exists", None
    if len(text) > 2 and text.startswith("*") and text.endswith("*"):
        return "contains", text[1:-1]
    if len(text) > 1 and text.endswith("*"):
        return "starts_with", text[:-1]
    if len(text) > 1 and text.startswith("*"):
        return "ends_with", text[1:]
    return "eq", text
