"""Whose a request is, as told by the project key that it carries, before anything is checked.

The key is looked for where authentication looks (`chassis.auth.project_key_guard`), so that nothing else in a head
makes a sender of its own: neither further parameters and the host of a DSN, which anyone may vary, nor an
`Authorization` of another scheme, which a proxy may add for everybody. Who has no key of the right shape, or several
that differ, is refused in any case; all of those are one sender.
"""

import re
from typing import Final
from urllib.parse import unquote

ANONYMOUS: Final = b""
MAX_HEADER_LENGTH: Final = 8_190  # characters of a header's value; a longer one the parser refuses

_LEGACY: Final = re.compile(r"\s*+(?i:legacy) (?:[^,]*+,)*?\s*+legacy_key\s*+=\s*+([0-9a-f]{32})\s*+(?:,|\Z)")
_DSN: Final = re.compile(r"https?://([0-9a-f]{32})@")


def _percent_encoded(letter: str) -> str:
    """A pattern for the letter, encoded or not, with the digits of its code in either case."""
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(letter):x}")
    return f"(?:{letter}|%{code})"


def _parameter(name: str) -> re.Pattern[str]:
    """Finds the values that a query, with an ampersand in front, has under the name."""
    return re.compile(f"&{''.join(map(_percent_encoded, name))}(?:=([^&]*+))?(?=&|\\Z)")


_KEY: Final = re.compile(r"[0-9a-f]{32}")
_KEYS: Final = _parameter("legacy_key")
_PROJECTS: Final = _parameter("project_id")


def extract_client_key(legacy_auth: str | None, authorization: str | None, query: str) -> bytes:
    """The 32 characters of the key that is in the header X-Legacy-Auth, in a DSN in the header Authorization and in the
    query as it came, without its question mark. NOBODY when none of these has one, and unless all that are there have
    the same.
    """
    keys = set()
    if legacy_auth is not None:
        keys.add(_from_legacy_auth(legacy_auth[:MAX_HEADER_LENGTH]))
    if authorization is not None and authorization[:4].lower() == "dsn ":
        found = _DSN.match(authorization[4:].strip())
        keys.add(ANONYMOUS if found is None else found[1].encode())
    if query:
        keys.update(map(_from_query, _KEYS.findall(f"&{query.partition('#')[0]}")))
    return keys.pop() if len(keys) == 1 else ANONYMOUS


def has_project_id(query: str) -> bool:
    """Whether the query says which project its key is to be of, which only authentication can compare."""
    return _PROJECTS.search(f"&{query}") is not None


def _from_legacy_auth(header: str) -> bytes:
    found = _LEGACY.match(header)
    if found is None or (header.count("legacy_key") > 1 and _is_repeated(header)):
        return ANONYMOUS
    return found[1].encode()


def _is_repeated(header: str) -> bool:
    """Whether the header has two parameters of the key's name, whatever they are."""
    _, _, parameters = header.strip().partition(" ")
    names = [parameter.partition("=")[0].strip() for parameter in parameters.split(",")]
    return names.count("legacy_key") > 1


def _from_query(value: str) -> bytes:
    key = unquote(value)
    return key.encode() if _KEY.fullmatch(key) else ANONYMOUS
