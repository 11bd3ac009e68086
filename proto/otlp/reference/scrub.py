"""Scrubbing: finds keys that indicate a secret, and card and social security numbers in texts (docs/codec.md 4)."""

import itertools
import re
from typing import Final

SCRUBBED: Final = b"[scrubbed]"

_NINE_DIGITS: Final = re.compile(rb"[0-9](?:[ -]?[0-9]){8}")
_MAX_CACHED_KEYS: Final = 1024
_GROUP: Final = re.compile(rb"[0-9]+")
_SSN_GROUPS: Final = (3, 2, 4)
_CARD_DIGITS: Final = range(13, 20)
# First and last issuer prefix, and the possible numbers of digits of such a card number.
_ISSUERS: Final = (
    ("4", "4", (13, 16, 18, 19)),
    ("51", "55", (16,)),
    ("2221", "2720", (16,)),
    ("34", "34", (15,)),
    ("37", "37", (15,)),
    ("36", "36", range(14, 20)),
    ("38", "39", range(14, 20)),
    ("300", "305", range(14, 20)),
    ("6011", "6011", range(16, 20)),
    ("644", "649", range(16, 20)),
    ("65", "65", range(16, 20)),
    ("3528", "3589", range(16, 20)),
    ("62", "62", range(16, 20)),
    ("50", "50", _CARD_DIGITS),
    ("56", "58", _CARD_DIGITS),
    ("67", "67", _CARD_DIGITS),
)


class SensitiveWords:
    """The listed words, prepared for matching against keys."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = frozenset(_normalize(word.encode()) for word in words if word)
        self._cache: dict[bytes, bool] = {}  # result per key, because keys repeat; at most _MAX_CACHED_KEYS
        self._longest = max((word.count(b"_") + 1 for word in self._words), default=0)  # in parts

    def matches_key(self, key: bytes) -> bool:
        """Whether consecutive parts of `key` form a listed word."""
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_CACHED_KEYS:
                self._cache.clear()
            known = self._cache[key] = self._has_word(_normalize(key).split(b"_"))
        return known

    def _has_word(self, parts: list[bytes]) -> bool:
        return any(
            b"_".join(parts[start : start + length]) in self._words
            for start in range(len(parts))
            for length in range(1, min(self._longest, len(parts) - start) + 1)
        )


def _normalize(name: bytes) -> bytes:
    return name.lower().replace(b".", b"_").replace(b"-", b"_")


def scrub(text: bytes) -> bytes:
    """`text` with `[scrubbed]` for each payment card number and US social security number."""
    if not _NINE_DIGITS.search(text):  # neither number is shorter
        return text
    groups = [match.span() for match in _GROUP.finditer(text)]
    out: list[bytes] = []
    done = 0
    first = 0
    while first < len(groups):
        matched = _match_card(text, groups, first) or _match_ssn(text, groups, first)
        if matched:
            out += (text[done : groups[first][0]], SCRUBBED)
            done = groups[first + matched - 1][1]
        first += matched or 1
    return b"".join((*out, text[done:]))


def _match_card(text: bytes, groups: list[tuple[int, int]], first: int) -> int:
    """The number of groups, from `first` on, of the longest card number; 0 if there is none."""
    digits = ""
    matched = 0
    for at in range(first, len(groups)):
        start, end = groups[at]
        if at > first and not _are_joined(text, groups[at - 1], groups[at], b" -"):
            break
        if len(digits) + end - start > _CARD_DIGITS[-1]:
            break
        digits += text[start:end].decode()
        if len(digits) in _CARD_DIGITS and _has_valid_issuer(digits) and _luhn(digits):
            matched = at - first + 1
    return matched


def _match_ssn(text: bytes, groups: list[tuple[int, int]], first: int) -> int:
    three = groups[first : first + 3]
    if tuple(end - start for start, end in three) != _SSN_GROUPS:
        return 0
    if not all(_are_joined(text, left, right, b"-") for left, right in itertools.pairwise(three)):
        return 0
    return 3


def _are_joined(text: bytes, left: tuple[int, int], right: tuple[int, int], by: bytes) -> bool:
    return right[0] - left[1] == 1 and text[left[1]] in by


def _has_valid_issuer(digits: str) -> bool:
    return any(low <= digits[: len(low)] <= high and len(digits) in lengths for low, high, lengths in _ISSUERS)


def _luhn(digits: str) -> bool:
    """Whether the check digit is valid (ISO/IEC 7812-1 annex B)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0
