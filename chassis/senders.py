"""Whose a request is, as told by the project key that it carries, before anything is checked.

The key is looked for where authentication looks (`chassis.identity.project_keys`) and in the same order, so that
nothing else in a head makes a sender of its own: neither further parameters and the host of a DSN, which anyone may
vary, nor an `Authorization` of another scheme, which a proxy may add for everybody. Who has no key of the right shape
is refused in any case; all of those are one sender.
"""

import re
from typing import Final
from urllib.parse import unquote

NOBODY: Final = b""
MAX_FIELD: Final = 8_190  # characters of a header's value; a longer one the parser refuses

# A request that authentication lets in has one parameter of this name, so the first that may be it is it.
_LEGACY: Final = re.compile(r"\s*+(?i:legacy) (?:[^,]*+,)*?\s*+legacy_key\s*+=\s*+([0-9a-f]{32})\s*+(?:,|\Z)")
_DSN: Final = re.compile(r"https?://([0-9a-f]{32})@")


def _percent_encoded(letter: str) -> str:
    """A pattern for the letter, encoded or not, with the digits of its code in either case."""
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(letter):x}")
    return f"(?:{letter}|%{code})"


_PARAMETER: Final = re.compile(
    f"&{''.join(map(_percent_encoded, 'legacy_key'))}=((?:[0-9a-f]|%3[0-9]|%6[1-6]){{32}})(?:[&#]|\\Z)"
)


def sender_in(legacy_auth: str | None, authorization: str | None, query: str) -> bytes:
    """The 32 characters of the key: of the header X-Legacy-Auth, else of a DSN in the header Authorization, else of the
    query as it came, without its question mark. NOBODY when the first of these that is there has none.
    """
    if legacy_auth is not None:
        found = _LEGACY.match(legacy_auth, 0, MAX_FIELD)
    elif authorization is not None and authorization[:4].lower() == "dsn ":
        found = _DSN.match(authorization[4:].strip())
    else:
        found = _PARAMETER.search("&" + query) if query else None
    return NOBODY if found is None else unquote(found[1]).encode()
