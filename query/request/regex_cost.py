"""The size of a regular expression with its counted repetitions expanded.

RE2 matches in time proportional to text size times program size, and a short pattern can expand to a huge program:
`((a{10}){10}){9}` is nine hundred letters. A bound on the size bounds the cost of a filter per byte.
"""

import re
from typing import Final

MAX_EXPANDED_SIZE: Final = 200  # letters after expansion; a pattern that is longer as written may have its own length

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
    """Whether a filter may use this pattern."""
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
