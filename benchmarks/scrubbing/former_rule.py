"""The former value rules, for comparison: digits joined by single spaces or dashes, anywhere in a text."""

import re
from typing import Final

from proto.otlp.reference.text import SCRUBBED, has_valid_sum

_GROUP: Final = re.compile(rb"[0-9]+")
_SOCIAL_SECURITY: Final = re.compile(rb"[0-9]{3}-[0-9]{2}-[0-9]{4}(?![0-9])")
_CARD_DIGITS: Final = range(13, 20)
_ISSUERS: Final = (
    *(("4", "4", (13, 16, 18, 19)), ("51", "55", (16,)), ("2221", "2720", (16,)), ("34", "34", (15,))),
    *(("37", "37", (15,)), ("36", "36", range(14, 20)), ("38", "39", range(14, 20)), ("300", "305", range(14, 20))),
    *(("6011", "6011", range(16, 20)), ("644", "649", range(16, 20)), ("65", "65", range(16, 20))),
    *(("3528", "3589", range(16, 20)), ("62", "62", range(16, 20)), ("50", "50", _CARD_DIGITS)),
    *(("56", "58", _CARD_DIGITS), ("67", "67", _CARD_DIGITS)),
)


def scrub(text: bytes) -> bytes:
    """`text` as it was stored by the former rules."""
    groups = [match.span() for match in _GROUP.finditer(text)]
    out: list[bytes] = []
    done = 0
    for start, _ in groups:
        if start < done:
            continue
        social_security = _SOCIAL_SECURITY.match(text, start)
        end = _card_end(text, groups, start) or (social_security.end() if social_security else 0)
        if end:
            out += (text[done:start], SCRUBBED)
            done = end
    return b"".join((*out, text[done:]))


def _card_end(text: bytes, groups: list[tuple[int, int]], first: int) -> int:
    """The end of the longest card number from `first` on, 0 if there is none."""
    digits, before, found = "", first - 1, 0
    for start, end in groups:
        if start < first:
            continue
        if (digits and (start - before != 1 or text[before] not in b" -")) or len(digits) + end - start > 19:
            break
        digits, before = digits + text[start:end].decode(), end
        if len(digits) in _CARD_DIGITS and _is_issued(digits) and has_valid_sum(digits):
            found = end
    return found


def _is_issued(digits: str) -> bool:
    return any(low <= digits[: len(low)] <= high and len(digits) in lengths for low, high, lengths in _ISSUERS)
