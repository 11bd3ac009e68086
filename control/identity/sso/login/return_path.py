"""The address at the end of a login: a path of this origin, as browsers resolve it (URL Standard, url.spec.whatwg.org).

A browser may go to another address than the text says. It removes tabs and line feeds, reads a backslash as a slash,
and drops dot segments, including `%2e`. For example, `/.//evil.example` becomes `//evil.example`, and a page that
navigates to this path leaves for another host.
"""

import re
import string
from typing import Final
from urllib.parse import quote

_C0_CONTROL_OR_SPACE: Final = "".join(map(chr, range(0x21)))
_REMOVED: Final = str.maketrans("", "", "\t\n\r")
_SLASH: Final = re.compile(r"[/\\]")
_PRINTABLE: Final = frozenset(string.ascii_letters + string.digits + string.punctuation)
# Characters that are not percent-encoded (URL Standard, 1.3). A percent sign is never encoded.
_IN_FRAGMENT: Final = "".join(_PRINTABLE - set('"<>`'))
_IN_QUERY: Final = "".join(_PRINTABLE - set("\"#<>'"))
_IN_PATH: Final = "".join(_PRINTABLE - set('"#<>`?^{}'))


def resolve(text: str) -> str | None:
    """Path, query and fragment that a browser goes to, percent-encoded. None unless they are of the same origin, and
    begin with one slash. A text with a host is refused, even if it is the host of Sluice.
    """
    if not text.startswith("/"):
        return None
    text = text.strip(_C0_CONTROL_OR_SPACE).translate(_REMOVED)
    rest, hash_mark, fragment = text.partition("#")
    path, question_mark, query = rest.partition("?")
    if path[1:2] in ("/", "\\"):
        return None
    resolved = _resolve_segments(_SLASH.split(path[1:]))
    if resolved.startswith("//"):
        return None
    query, fragment = quote(query, _IN_QUERY, errors="replace"), quote(fragment, _IN_FRAGMENT, errors="replace")
    return resolved + (question_mark if query else "") + query + (hash_mark if fragment else "") + fragment


def resolve_stored(text: str | None) -> str | None:
    """A stored path, resolved again before it is sent on: an earlier release may have stored it unresolved."""
    return None if text is None else resolve(text)


def _resolve_segments(segments: list[str]) -> str:
    """The path of the segments, without `.` and `..` (URL Standard, 4.4, path state)."""
    kept: list[str] = []
    for segment in segments:
        dots = _decode_dots(segment)
        if dots == "..":
            del kept[-1:]
        elif dots != ".":
            kept.append(quote(segment, _IN_PATH, errors="replace"))
    if _decode_dots(segments[-1]) in (".", ".."):  # the last segment stands for a folder
        kept.append("")
    return "/" + "/".join(kept)


def _decode_dots(segment: str) -> str:
    return segment.lower().replace("%2e", ".")
