"""JSON text that is not well-formed Unicode, made readable without losing where it was not.

A string that holds an ill-formed byte sequence or half a surrogate pair must not cost its neighbours. `repair` writes
two characters for each, and likewise for what these could be mistaken for; `restore` makes of them a byte that is never
UTF-8, so that the decoder repairs and counts it as it does for protobuf. Outside of strings none of it is JSON, before
or after.
"""

import re
from typing import Final

_DELETE: Final = b"\x7f"  # begins each pair: the one control character that JSON allows in a string
_OWN: Final = _DELETE + b"0"  # was itself in the body
_FAULT: Final = _DELETE + b"1"
_REPLACEMENT: Final = _DELETE + b"2"  # U+FFFD was in the body
_UFFFD: Final = "\ufffd".encode()
_NEVER_UTF8: Final = b"\xff"
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|(?P<delete>\\u007[fF])"
    rb"|\\.",
    re.DOTALL,
)


def repair(body: bytes) -> bytes:
    """`body` with a pair for each maximal ill-formed UTF-8 subpart and each escape of half a surrogate pair."""
    aside = body.replace(_DELETE, _OWN).replace(_UFFFD, _REPLACEMENT)
    text = aside.decode(errors="replace").encode().replace(_UFFFD, _FAULT)
    return _ESCAPE.sub(lambda escape: _FAULT if escape["half"] else _OWN if escape["delete"] else escape[0], text)


def restore(text: bytes) -> bytes:
    """The text of a string in a repaired body, with a byte that is never UTF-8 for each fault."""
    return text.replace(_FAULT, _NEVER_UTF8).replace(_REPLACEMENT, _UFFFD).replace(_OWN, _DELETE)
