"""The client of a request before authentication: the project key that the request carries, unchecked.

The key is read from the same fields as in authentication (`chassis.auth.project_key_guard`), so that nothing else in a
head makes a separate client: neither further parameters and the host of a DSN, which anyone can vary, nor an
`Authorization` of another scheme, which a proxy may add to every request. Requests without a well-formed key, or with
several different ones, are refused in any case; they all count as one client, `ANONYMOUS`.
"""

import re
from typing import Final
from urllib.parse import unquote

ANONYMOUS: Final = b""
MAX_HEADER_LENGTH: Final = 8_190  # characters of a header's value; the parser refuses longer ones

_LEGACY: Final = re.compile(r"\s*+(?i:legacy) (?:[^,]*+,)*?\s*+legacy_key\s*+=\s*+([0-9a-f]{32})\s*+(?:,|\Z)")
_DSN: Final = re.compile(r"https?://([0-9a-f]{32})@")


def _percent_encoded(letter: str) -> str:
    """A pattern for the letter, percent-encoded or not, with hexadecimal digits in either case."""
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(letter):x}")
    return f"(?:{letter}|%{code})"


def _parameter(name: str) -> re.Pattern[str]:
    """A pattern that finds the values of a parameter in a query string to which an ampersand is prepended."""
    return re.compile(f"&{''.join(map(_percent_encoded, name))}(?:=([^&]*+))?(?=&|\\Z)")


_KEY: Final = re.compile(r"[0-9a-f]{32}")
_KEYS: Final = _parameter("legacy_key")
_PROJECTS: Final = _parameter("project_id")


def extract_client_key(legacy_auth: str | None, authorization: str | None, query: str) -> bytes:
    """The 32 characters of the project key in the header X-Legacy-Auth, in a DSN in the header Authorization and in the
    raw query string (without its question mark). ANONYMOUS when none of them has a key, or when they differ.
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
    """Whether the query names the project of its key (`project_id`), which only authentication can compare."""
    return _PROJECTS.search(f"&{query}") is not None


def _from_legacy_auth(header: str) -> bytes:
    found = _LEGACY.match(header)
    if found is None or (header.count("legacy_key") > 1 and _is_repeated(header)):
        return ANONYMOUS
    return found[1].encode()


def _is_repeated(header: str) -> bool:
    """Whether the header has more than one parameter `legacy_key`, whatever the values."""
    _, _, parameters = header.strip().partition(" ")
    names = [parameter.partition("=")[0].strip() for parameter in parameters.split(",")]
    return names.count("legacy_key") > 1


def _from_query(value: str) -> bytes:
    key = unquote(value)
    return key.encode() if _KEY.fullmatch(key) else ANONYMOUS
