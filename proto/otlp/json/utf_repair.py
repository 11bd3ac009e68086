"""JSON text that is not well-formed Unicode, made readable without losing where it was not.

A string that holds an ill-formed byte sequence or half a surrogate pair must not cost its neighbours. `repair` writes
two characters for each, and likewise for what these could be mistaken for; `restore` makes of them a byte that is never
UTF-8, so that the decoder repairs and counts it as it does for protobuf. Outside of strings none of it is JSON, before
or after.
"""

import re
from typing import Final

_DELETE: Final = b"\x7f"  # begins each pair: the one control character that JSON allows in a string
_LITERAL_DELETE: Final = _DELETE + b"0"  # was itself in the body
_ILL_FORMED: Final = _DELETE + b"1"
_LITERAL_REPLACEMENT: Final = _DELETE + b"2"  # U+FFFD was in the body
_UFFFD: Final = "\ufffd".encode()
_NEVER_UTF8: Final = b"\xff"
_STEP: Final = 2**20
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|(?P<delete>\\u007[fF])"
    rb"|\\.",
    re.DOTALL,
)


def repair(body: bytes) -> bytes:
    """`body` with a pair for each maximal ill-formed UTF-8 subpart and each escape of half a surrogate pair."""
    text, out, done = _mark_ill_formed(body), bytearray(), 0
    for escape in _ESCAPE.finditer(text):  # re.sub would keep a piece for each
        if escape["half"] or escape["delete"]:
            out += memoryview(text)[done : escape.start()]
            out += _ILL_FORMED if escape["half"] else _LITERAL_DELETE
            done = escape.end()
    if not done:
        return text
    out += memoryview(text)[done:]
    return bytes(out)


def _mark_ill_formed(body: bytes) -> bytes:
    """The same without regard to escapes; in steps, for as a whole it would be in memory many times."""
    out = bytearray()
    at = 0
    while at < len(body):
        end = at + _STEP
        # Before what continues no character; a character has at most three bytes that continue it.
        while end < min(at + _STEP + 3, len(body)) and body[end] & 0xC0 == 0x80:
            end += 1
        aside = body[at:end].replace(_DELETE, _LITERAL_DELETE).replace(_UFFFD, _LITERAL_REPLACEMENT)
        out += aside.decode(errors="replace").encode().replace(_UFFFD, _ILL_FORMED)
        at = end
    return bytes(out)


def restore(text: bytes) -> bytes:
    """The text of a string in a repaired body, with a byte that is never UTF-8 for each fault."""
    return (
        text.replace(_ILL_FORMED, _NEVER_UTF8).replace(_LITERAL_REPLACEMENT, _UFFFD).replace(_LITERAL_DELETE, _DELETE)
    )
