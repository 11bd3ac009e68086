"""Make JSON text that is not well-formed Unicode readable, and keep the positions of the errors.

A string with an ill-formed byte sequence or half a surrogate pair must not affect other strings. `repair` replaces each
such error with two marker characters, and escapes text that could be mistaken for a marker. `restore` turns each marker
into a byte that never occurs in UTF-8, so that the decoder repairs and counts the error as in protobuf. Outside of
strings, neither the errors nor the markers are valid JSON.
"""

import re
from typing import Final

_DELETE: Final = b"\x7f"  # begins each marker: the only control character that JSON allows in a string
_LITERAL_DELETE: Final = _DELETE + b"0"  # DEL was in the body
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
    """`body` with a marker for each maximal ill-formed UTF-8 subpart and each escape of half a surrogate pair."""
    text, out, done = _mark_ill_formed(body), bytearray(), 0
    for escape in _ESCAPE.finditer(text):  # re.sub would keep one piece per match in memory
        if escape["half"] or escape["delete"]:
            out += memoryview(text)[done : escape.start()]
            out += _ILL_FORMED if escape["half"] else _LITERAL_DELETE
            done = escape.end()
    if not done:
        return text
    out += memoryview(text)[done:]
    return bytes(out)


def _mark_ill_formed(body: bytes) -> bytes:
    """`body` with a marker for each ill-formed subpart, without regard to escapes. Works in steps, because a single
    step would take several times the memory of the body.
    """
    out = bytearray()
    at = 0
    while at < len(body):
        end = at + _STEP
        # Each step ends before a byte that is not a continuation byte. A character has at most three continuation
        # bytes.
        while end < min(at + _STEP + 3, len(body)) and body[end] & 0xC0 == 0x80:
            end += 1
        escaped = body[at:end].replace(_DELETE, _LITERAL_DELETE).replace(_UFFFD, _LITERAL_REPLACEMENT)
        out += escaped.decode(errors="replace").encode().replace(_UFFFD, _ILL_FORMED)
        at = end
    return bytes(out)


def restore(text: bytes) -> bytes:
    """The text of a string in a repaired body, with each marker replaced with a byte that never occurs in UTF-8."""
    return (
        text.replace(_ILL_FORMED, _NEVER_UTF8).replace(_LITERAL_REPLACEMENT, _UFFFD).replace(_LITERAL_DELETE, _DELETE)
    )
