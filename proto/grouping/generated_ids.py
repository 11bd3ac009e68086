"""Which parts of a message are generated (ids, hashes), and which are words."""

import re
from typing import Final

from proto.grouping.known_words import KNOWN_WORD_OR_DIGITS

_HASH: Final = re.compile(r"(?=[a-fA-F]*+[0-9])(?=[0-9]*+[a-fA-F])[0-9a-fA-F]{7,}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}")
_SUFFIX: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")  # the alphabet of Kubernetes
_RUN: Final = re.compile(r"[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[A-Z]|\d++|[^A-Za-z\d]++")
_VOWEL: Final = re.compile(r"[aeiouyAEIOUY]")

MIN_GENERATED_CHARS: Final = 8
MIN_SHORT_CHARS: Final = 5
NANOID_CHARS: Final = 21
# The mean length of the runs of letters of a word and of digits: camel-case words have three and more.
RUN_CHARS: Final = 2.5
SHORT_RUN_CHARS: Final = 1.25


def is_generated_id(piece: str) -> bool:
    """Whether letters and digits are mixed as in ids and hashes; a word with a number (`sha256sum`) is not."""
    if len(piece) < MIN_SHORT_CHARS or piece.isdigit():
        return False
    if _HASH.fullmatch(piece) or _ULID.fullmatch(piece):
        return True
    return _has_short_runs(piece) and _has_short_runs(
        KNOWN_WORD_OR_DIGITS.sub(lambda match: "" if match[1] else match[0], piece)
    )


def _has_short_runs(text: str) -> bool:
    size, runs = len(text), len(_RUN.findall(text))
    if size < MIN_GENERATED_CHARS:
        return MIN_SHORT_CHARS <= size <= SHORT_RUN_CHARS * runs
    return size < RUN_CHARS * runs


def is_nanoid(token: str) -> bool:
    """Whether a word with its hyphens and underscores has the length of a nanoid, and cases and digits mixed."""
    return len(token) == NANOID_CHARS and not (token.islower() or token.isupper()) and is_generated_id(token)


def is_generated_suffix(piece: str, after_generated: bool) -> bool:
    """Whether it is the five characters at the end of a pod's name; without digits only behind a generated part."""
    return bool(_SUFFIX.fullmatch(piece)) and (after_generated or not (piece.isalpha() or piece.isdigit()))


def is_prefixed_id(letters: str) -> bool:
    """Whether the letters behind a prefix (`usr_bXkQmZ`) are generated, by their case: camel-case words have vowels."""
    if letters.islower() or letters.isupper():
        return False
    runs = _RUN.findall(letters)
    return any(len(run) == 1 or not (run.isupper() or _VOWEL.search(run)) for run in runs)
