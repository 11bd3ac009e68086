"""Messages of errors without what differs between occurrences: ids, times, addresses, paths, hashes, numbers."""

import re
from typing import Final

MAX_MESSAGE_CHARS: Final = 1_024

# Parts of a message that differ between occurrences of one error, the more specific first.
_VARIABLE: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>)]+"), "<url>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"), "<email>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<n>"),
    (re.compile(r"(?<![\w/\\])(?:[A-Za-z]:)?(?:[/\\][\w.@~+-]+){2,}[/\\]?"), "<path>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<hash>"),
    (re.compile(r"\bv?\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?"), "<version>"),
    (re.compile(r"\d+"), "<n>"),
)
_SPACES: Final = re.compile(r"\s+")


def normalize_message(text: str) -> str:
    """The first line of a message, with ids, times, addresses, paths, hashes, versions and numbers replaced."""
    line = text.strip()[:MAX_MESSAGE_CHARS].split("\n", 1)[0]
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    return _SPACES.sub(" ", line).strip()
