"""Parses the text encoding of filters, for URLs: terms separated by spaces, all of which must match.

    key:value   -key:value      equals, does not equal
    key:>100  key:>=1  key:<5  key:<=5
    key:[a,b]   -key:[a,b]      one of, none of
    key:abc*  key:*abc          starts, ends with
    key:*abc*   -key:*abc*      contains, does not contain
    has:key     !has:key        has, lacks the key (also key:* and -key:*)
    (key:a or key:b)            one of these terms matches
    key:"a b"   "a key":value   inside quotes, spaces and signs are literal; \\" and \\\\ are the only escapes
    key:*"a b"*                 contains the phrase; "a b"* starts, *"a b" ends with it

`attr:key:value` means the attribute if a built-in field has the same name. A key that contains a colon or begins with a
parenthesis must be quoted. Within a group, parentheses in keys and values must be quoted.
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
# Words that are not terms: they contain no colon, quote or parenthesis.
_WORDS: Final = re.compile(r'[^\s:"()]++(?=\s|\Z)(?:\s++[^\s:"()]++(?=\s|\Z))*')
_GROUPED_WORDS: Final = re.compile(r'[^\s:"()]++(?=[\s)]|\Z)(?:\s++(?!(?i:or)\s)[^\s:"()]++(?=[\s)]|\Z))*')
_OR: Final = re.compile(r"(?i:or)(?=\s)")
_LIST_ITEM: Final = re.compile(r'[^\s",\[\]]*')
_SPACE: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_WRONG_ESCAPE: Final = re.compile(r'(?:[^\\]|\\["\\])*+\\', re.DOTALL)
_ORDERS: Final = ((">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt"))
_NEGATED: Final = {"eq": "neq", "in": "not_in", "contains": "not_contains", "exists": "not_exists"}
_WILDCARDS: Final = {  # by whether there is a star before the text, and after it
    (False, False): "eq",
    (False, True): "starts_with",
    (True, False): "ends_with",
    (True, True): "contains",
}
_PLACEHOLDER: Final = "environment"  # a key that every signal has
_MAX_SPELLING: Final = 200  # characters


class FilterSyntaxError(ValueError):
    """The text is not a list of terms. `faults`: messages for the client, with the position of each error. `terms`: the
    terms that could be read. A placeholder replaces each term that could not be read, so that later terms keep their
    index.
    """

    def __init__(self, faults: "list[str]", terms: "list[Term | list[Term]]") -> None:
        super().__init__(" ".join(faults))
        self.faults = faults
        self.terms = terms


@dataclass(frozen=True, slots=True)
class Term:
    """One term; `op` has its name in the JSON encoding."""

    key: str
    op: str
    value: str | list[str] | None = None


def parse(text: str) -> list[Term | list[Term]]:
    """Parse `text` into terms, and groups of terms. Raises FilterSyntaxError for a text that is not in the module's
    grammar.
    """
    parser = _Parser(text)
    terms = parser.terms()
    if parser.faults:
        raise FilterSyntaxError(parser.faults, terms)
    return terms


def quoted(text: str) -> str:
    """The text as a quoted key or value, in which every character is literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Fault(Exception):
    """A term cannot be read. The message is meant for the client."""


class _Parser:
    """Parses terms from left to right. `faults`: messages about terms that could not be read."""

    def __init__(self, text: str) -> None:
        self.faults = list[str]()
        self._text = text
        self._at = 0
        self._key_pattern, self._bare_pattern = _KEY, _BARE
        # Unquoted values by the start of the term and of the value: the last value, and the last value with only a star
        # before it.
        self._last: tuple[int, int] | None = None
        self._open: tuple[int, int] | None = None

    def terms(self) -> list[Term | list[Term]]:
        terms = list[Term | list[Term]]()
        self._take(_SPACE)
        while self._at < len(self._text):
            begin = self._at
            try:
                terms.append(self._group() if self._skip("(") else self._term())
                if self._at < len(self._text) and not self._text[self._at].isspace():
                    raise self._error("a space", 'Quote the whole value: key:"two words", key:*"two words"*.')
            except _Fault as fault:
                self.faults.append(str(fault))
                self._at = begin
                if not self._take(_WORDS):
                    break  # the start of the next term is unknown
                if self._last is None:
                    terms.append(Term(_PLACEHOLDER, "exists"))
            self._take(_SPACE)
        return terms

    def _group(self) -> list[Term]:
        """The terms after an opening parenthesis, up to the closing one."""
        self._key_pattern, self._bare_pattern = _GROUPED_KEY, _GROUPED_BARE
        members = list[Term]()
        while True:
            self._last = self._open = None
            self._take(_SPACE)
            members.append(self._term())
            before = self._at
            self._take(_SPACE)
            if self._skip(")"):
                self._key_pattern, self._bare_pattern = _KEY, _BARE
                self._last = self._open = None
                return members
            if self._at == before or not self._take(_OR):
                raise self._error("'or' or ')'", self._spelling(_GROUPED_WORDS))

    def _term(self) -> Term:
        begin = self._at
        negated = self._skip("-") or self._skip("!")
        if negated and self._text.startswith("(", self._at):
            raise _Fault(
                f"At character {self._at + 1}: a group cannot be negated. Negate its terms instead: -a:1 -b:2."
            )
        op: str
        value: str | list[str] | None
        if self._skip("has:"):
            key, op, value = self._key(), "exists", None
            self._last = None
        else:
            key = self._key()
            if not self._skip(":"):
                self._at = begin
                raise self._error("key:value", self._spelling(_WORDS))
            op, value = self._test(begin)
        if not negated:
            return Term(key, op, value)
        if op not in _NEGATED:
            self.faults.append(
                f"At character {begin + 1}: {key[:64]!r}: this operator cannot be negated. Only equality, [lists], "
                "*wildcards* and has: can be negated."
            )
            return Term(_PLACEHOLDER, "exists")
        return Term(key, _NEGATED[op], value)

    def _key(self) -> str:
        prefix = _ATTRIBUTE if self._skip(_ATTRIBUTE) else ""
        name = self._quoted()
        if name is None:
            name = self._take(self._key_pattern)
        if not name:
            raise self._error("a key")
        return prefix + name

    def _test(self, begin: int) -> tuple[str, str | list[str] | None]:
        """Operator and value of the term that begins at `begin`."""
        self._last = None
        for sign, op in _ORDERS:
            if self._skip(sign):
                return op, self._value()
        if self._skip("["):
            return "in", self._list()
        value_begin = self._at
        has_star = self._text.startswith('*"', self._at) and self._skip("*")
        phrase = self._quoted()
        if phrase is not None:
            return _WILDCARDS[has_star, self._skip("*")], phrase
        text = self._take(self._bare_pattern)
        self._last = begin, value_begin
        if text.startswith("**") or text.endswith("**"):
            self._refuse_stars(text, begin, value_begin)
        if text.startswith("*") or text.endswith("*"):
            self._open = None if text.endswith("*") else self._last
        return _wildcard(text)

    def _value(self) -> str:
        text = self._quoted()
        return text if text is not None else self._take(self._bare_pattern)

    def _list(self) -> list[str]:
        items = []
        while True:
            self._take(_SPACE)
            text = self._quoted()
            items.append(text if text is not None else self._take(_LIST_ITEM))
            self._take(_SPACE)
            if self._skip("]"):
                return items
            if not self._skip(","):
                raise self._error("',' or ']'", 'Quote an item with spaces: ["a b",c].')

    def _quoted(self) -> str | None:
        if not self._text.startswith('"', self._at):
            return None
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            raise self._error("a closing quote", r'Write a quote in a quoted value as \": "5\" disk".')
        wrong = _WRONG_ESCAPE.match(match[1])
        if wrong is not None:
            spelling = f'"{_ESCAPE.sub(_corrected, match[1])}"'
            example = spelling if len(spelling) <= _MAX_SPELLING else r'"C:\\temp"'
            at = match.start(1) + wrong.end()
            self.faults.append(f"At character {at}: write a backslash within quotes as \\\\: {example}.")
        self._at = match.end()
        return _ESCAPE.sub(r"\1", match[1])

    def _refuse_stars(self, text: str, begin: int, value_begin: int) -> None:
        """Record an error for stars beside a wildcard: they are neither part of the wildcard nor text."""
        term = self._text[begin:value_begin]
        core = text.strip("*")
        core = quoted(core) if core.startswith('"') else core
        before, after = _stars(term, before=text.startswith("*"), after=text.endswith("*"))
        one, literal = f"{term}{before}{core}{after}" if core else f"{term}*", term + quoted(text)
        if len(literal) > _MAX_SPELLING:
            one, literal = "key:*text*", 'key:"**text**"'
        self.faults.append(
            f"At character {value_begin + 1}: a wildcard is one star: {one}. Quote stars that are text: {literal}."
        )

    def _spelling(self, words: re.Pattern[str]) -> str:
        """A hint for words that are not terms: most likely they are the rest of the value before them."""
        match = words.match(self._text, self._at)
        end = match.end() if match else self._at
        begins = self._open if self._open and self._text.endswith("*", 0, end) else self._last
        if match is None or begins is None:
            return 'For example: serviceName:cart or name:*"two words"*.'
        if self._open is None and _OR.match(self._text, self._at):
            return 'Put terms joined by "or" in parentheses: (a:1 or b:2).'
        phrase = self._text[begins[1] : end]
        has_before, has_after = phrase.startswith("*"), phrase.endswith("*") and len(phrase) > 1
        piece = phrase[has_before : len(phrase) - has_after]
        term = self._text[begins[0] : begins[1]]
        before, after = _stars(term, before=has_before, after=has_after)
        spelling = f"{term}{before}{quoted(piece)}{after}"
        example = spelling if len(spelling) <= _MAX_SPELLING else 'key:*"two words"*'
        return f"Quote a value with spaces: {example}."

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

    def _error(self, expected: str, hint: str = "") -> _Fault:
        return _Fault(f"At character {self._at + 1}: expected {expected}.{' ' * bool(hint)}{hint}")


def _stars(term: str, *, before: bool, after: bool) -> tuple[str, str]:
    """The stars around a value in a hint. `term` is the text before the value. A negated term gets both stars or none,
    because only `contains` can be negated.
    """
    if term.startswith(("-", "!")):
        before = after = before or after
    return "*" * before, "*" * after


def _corrected(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] in '"\\' else "\\" + escape[0]


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
