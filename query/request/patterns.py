"""Checks of RE2 patterns: whether a pattern may match a short text (never a false no), and the size of a pattern.

A pattern is read once, from left to right. Each element becomes a relation: bit `j` of entry `i` is set if the element
can match from position `i` to position `j` of the text. An element that is not understood matches any one character.

The size of a pattern is measured with its counted repetitions expanded.

RE2 matches in time proportional to text size times program size, and a short pattern can expand to a huge program:
`((a{10}){10}){9}` is nine hundred letters. A bound on the size bounds the cost of a filter per byte.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_EXPANDED_SIZE: Final = 200  # letters after expansion; a pattern may always have as many as it is written with

TOKEN: Final = re.compile(
    r"""
    \\(?:Q.*?(?:\\E|$)|[pP]\{[^}]*\}|x\{[^}]*\}|.)   # an escape, a quotation, a class by name
    |\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]             # a class
    |\{(?P<low>[0-9]+)(?P<comma>,(?P<high>[0-9]*))?\} # a counted repetition
    |.                                                # anything else is one letter
    """,
    re.VERBOSE | re.DOTALL,
)


def is_within_limit(pattern: str) -> bool:
    """Whether this pattern is small enough for a filter."""
    return expanded_size(pattern) <= max(MAX_EXPANDED_SIZE, len(pattern))


def escape_regex(text: str) -> str:
    """A pattern that matches exactly `text`."""
    return "".join(
        each if each.isalnum() or each == "_" else "\\x00" if each == "\0" else f"\\{each}" if each.isascii() else each
        for each in text
    )


def expanded_size(pattern: str) -> int:
    """The number of letters, classes and operators with every `{n,m}` expanded; groups may nest."""
    sums = [0]  # sizes of the open groups, the outermost first
    last = 0  # size of the element that a repetition would repeat
    for token in TOKEN.finditer(pattern):
        text = token.group()
        if text == "(":
            sums.append(0)
            last = 0
        elif text == ")" and len(sums) > 1:
            last = max(sums.pop(), 1)
            sums[-1] += last
        elif token["low"] is not None:
            times = max(int(token["high"] or token["low"]) + (token["comma"] is not None and not token["high"]), 1)
            sums[-1] += last * (times - 1)
            last *= times
        else:
            last = len(text) if text.startswith("\\Q") else 1
            sums[-1] += last
    return sum(sums)


_MAX_WORK: Final = 1280  # elements of a pattern times positions of a text; beyond that the answer is yes
_ELEMENT: Final = re.compile(
    r"\(\?[a-zA-Z-]+\)|\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?|\\(?:x[0-9a-fA-F]{2}|[0-7]{1,3}|[pP][A-Z])|" + TOKEN.pattern,
    TOKEN.flags,
)
# Classes that Python reads differently, or may do so in future.
_UNLIKE_PYTHON: Final = re.compile(r".\[|--|&&|~~|\|\|", re.DOTALL)

_Relation = list[int]


def may_match(pattern: str, text: str) -> bool:
    """Whether `pattern` may match somewhere in `text`, ignoring case and flags."""
    if (len(text) + 1) * len(pattern) > _MAX_WORK:
        return True
    nothing, empty = [0] * (len(text) + 1), [1 << at for at in range(len(text) + 1)]
    groups = [(nothing, empty)]  # of each open group: its closed alternatives, and the open one up to `last`
    last, repeated = empty, False
    for element in _elements(pattern):
        was_repeated, repeated = repeated, False
        alternatives, before = groups[-1]
        if element.startswith("(?") and element.endswith(")"):
            continue  # flags
        if element.startswith("("):
            groups[-1] = alternatives, _then(before, last)
            groups.append((nothing, empty))
            last = empty
        elif element == "|":
            groups[-1] = _either(alternatives, _then(before, last)), empty
            last = empty
        elif element == ")" and len(groups) > 1:
            groups.pop()
            last = _either(alternatives, _then(before, last))
        elif element in ("*", "+", "?") or (element.startswith("{") and len(element) > 1):
            repeated = not (was_repeated and element == "?")  # otherwise it marks a lazy repetition
            last = _repeat(last, element, empty) if repeated else last
        else:
            groups[-1] = alternatives, _then(before, last)
            last = _once(element, text)
    for alternatives, before in reversed(groups):
        last = _either(alternatives, _then(before, last))
    return any(last)


def _elements(pattern: str) -> Iterator[str]:
    for token in _ELEMENT.finditer(pattern):
        element = token.group()
        if element.startswith("\\Q"):
            yield from map(escape_regex, element[2:].removesuffix("\\E"))
        else:
            yield element
        if element == "[":
            return  # RE2 refuses the pattern, and searching for the ends of many such classes is slow


def _once(element: str, text: str) -> _Relation:
    """An anchor or a character. Line feeds count as the beginning and end of the text, as with the flag m."""
    positions = range(len(text) + 1)
    match element:
        case "^" | "\\A":
            return [(at == 0 or text[at - 1] == "\n") << at for at in positions]
        case "$" | "\\z":
            return [(at == len(text) or text[at] == "\n") << at for at in positions]
        case "\\b" | "\\B":
            return [1 << at for at in positions]
    return [*((_is_possible(element, character) << at + 1) for at, character in enumerate(text)), 0]


def _is_possible(element: str, character: str) -> bool:
    if not (element + character).isascii():
        return len(element) > 1 or element == "." or element.casefold() == character.casefold()
    if _UNLIKE_PYTHON.search(element):
        return True
    try:
        return any(re.fullmatch(element, character, re.DOTALL | flag) for flag in (re.NOFLAG, re.IGNORECASE))
    except re.error:
        return True


def _then(first: _Relation, second: _Relation) -> _Relation:
    found = []
    for row in first:
        reached = 0
        rest = row
        while rest:
            at = rest.bit_length() - 1
            reached |= second[at]
            rest ^= 1 << at
        found.append(reached)
    return found


def _either(first: _Relation, second: _Relation) -> _Relation:
    return [one | other for one, other in zip(first, second, strict=True)]


def _repeat(once: _Relation, repetition: str, empty: _Relation) -> _Relation:
    """One or more times; also zero times if the repetition allows it. Counts are ignored."""
    found = list(once)
    if repetition != "?":
        for middle, _ in enumerate(found):
            for at, row in enumerate(found):
                found[at] = row | found[middle] if row >> middle & 1 else row
    return _either(found, empty) if repetition in ("*", "?") or repetition.startswith("{0") else found
