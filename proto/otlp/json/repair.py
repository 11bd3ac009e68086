"""JSON text that is not well-formed Unicode, made readable without losing where it was not.

A string that holds an ill-formed byte sequence or half a surrogate pair must not cost its neighbours. Both are replaced
by a mark, a noncharacter that the body does not use otherwise; the encoder writes a byte for it that is never UTF-8, so
that the decoder repairs and counts it as it does for protobuf.
"""

import re
from typing import Final, NamedTuple

_REPLACEMENT: Final = "\ufffd"
_NONCHARACTERS: Final = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_USED: Final = re.compile(rb"\xef\xb7[\x90-\xaf]|\\u[fF][dD][dDeE][0-9a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


class Repaired(NamedTuple):
    """A body that is well-formed, and the mark that stands in it for what was not (None: U+FFFD does)."""

    body: bytes
    mark: str | None


def repair(body: bytes) -> Repaired:
    """`body` with a mark for each maximal ill-formed UTF-8 subpart and each escape of half a surrogate pair."""
    free = _free_noncharacters(body)
    mark, own = free or (_REPLACEMENT, _REPLACEMENT)
    # Real replacement characters step aside while decoding writes its own.
    aside = body.replace(_REPLACEMENT.encode(), own.encode())
    text = aside.decode(errors="replace").replace(_REPLACEMENT, mark).replace(own, _REPLACEMENT)
    encoded_mark = mark.encode()
    halves = _ESCAPE.sub(lambda escape: encoded_mark if escape["half"] else escape[0], text.encode())
    return Repaired(halves, mark if free else None)


def _free_noncharacters(body: bytes) -> tuple[str, str] | None:
    used = {found.lower() for found in _USED.findall(body)}  # lower() leaves bytes that are not ASCII alone
    free = [
        character
        for character in _NONCHARACTERS
        if character.encode() not in used and rf"\u{ord(character):x}".encode() not in used
    ]
    return (free[0], free[1]) if len(free) > 1 else None
