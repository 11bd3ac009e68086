"""The names of functions in frames, without those that are others in the next build."""

import re
from collections.abc import Callable
from typing import Final

MAX_SHORT_NAME: Final = 3  # characters of a variable's name that a minifier has made, rather than a programmer
MAX_SHORT_PROPERTY: Final = 2  # of a property's, which minifiers keep unless they are told to

_CALL: Final = re.compile(
    r"(?P<new>new )?(?P<receivers>(?:[\w$]+\.)*)(?P<own>[\w$]+)(?: \[as (?P<alias>[^\[\]]{1,300})\])?"
)
_IDENTIFIER: Final = re.compile(r"(?<![\w$.])[A-Za-z_$][\w$]*")
_RECEIVERS: Final = frozenset(("Object", "Module", "Function", "global", "window", "exports"))  # of any function
_KEYWORDS: Final = frozenset(
    ("new", "as", "get", "set", "async", "static", "Object", "global", "code", "module", "eval")
)


def original_function(minified: str, original: Callable[[str], str | None], *, renames: bool) -> str:
    """The function of a frame by its original name; `original` knows those that the map has. A name that only a
    minifier gives, and that the map does not know, is left out, because the next build gives another. `renames`:
    whether the build has other identifiers than the sources.
    """

    def known(match: re.Match[str]) -> str:
        return match[0] if match[0] in _KEYWORDS else original(match[0]) or match[0]

    if not renames:
        return _IDENTIFIER.sub(known, minified)
    # Firefox names a function after what surrounds it: setup/t/<
    parts = [
        _stable(part, original) if _CALL.fullmatch(part) else _IDENTIFIER.sub(known, part)
        for part in minified.split("/")
    ]
    return "/".join(filter(None, parts)) if any(part.strip("<") for part in parts) else ""


def _stable(part: str, original: Callable[[str], str | None]) -> str:
    """What is the same in each build of a name such as `new t`, `Object.t [as onClick]`; empty if nothing is."""
    call = _CALL.fullmatch(part)
    if call is None:
        raise LookupError(part)
    receivers: list[str] = call["receivers"].split(".")[:-1]
    own: str = call["own"]
    alias: str | None = call["alias"] if len(call["alias"] or "") > MAX_SHORT_PROPERTY else None
    renamed = original(receivers[0] if receivers else own)
    if not receivers and renamed:
        return (call["new"] or "") + renamed
    kept = [one for one in receivers[1 if renamed else 0 :] if len(one) > MAX_SHORT_NAME]
    kept = [renamed, *kept] if renamed else kept
    if len(own) <= (MAX_SHORT_NAME if alias or not receivers else MAX_SHORT_PROPERTY):
        if alias is None:
            return ""
        kept, own, alias = [one for one in kept if one not in _RECEIVERS], alias, None
    return (call["new"] or "") + ".".join([*kept, own]) + (f" [as {alias}]" if alias else "")
