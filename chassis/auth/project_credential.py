"""Parse the project key of a request, for admission before HTTP parsing and for authentication after it.

A request names its key in the header X-Legacy-Auth, in a DSN in the header Authorization, or in the query. If a request
names several keys, they must be equal (specification 4.3). Requests with the same key count as the same client.
Other parts of a head do not matter: a client can vary further parameters and the host of a DSN at will, and a proxy may
add an `Authorization` header of another scheme to every request.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from chassis.errors import BadRequest, Issue, Unauthorized
from proto.identity import Dsn, is_project_key, parse_dsn

ANONYMOUS: Final = b""
MAX_CACHED: Final = 1_024  # credentials, keyed by the raw values
MAX_KEY_LENGTH: Final = 128  # specification 4.3
MAX_PROJECT_ID_LENGTH: Final = 64
MAX_REPETITIONS: Final = 8  # of a parameter
MAX_CACHED_LENGTH: Final = 512  # characters of the values together


def _percent_encoded(letter: str) -> str:
    """A pattern for the letter, percent-encoded or not, with hexadecimal digits in either case."""
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(letter):x}")
    return f"(?:{letter}|%{code})"


def _parameter_pattern(name: str) -> re.Pattern[str]:
    """A pattern that finds the raw values of a parameter in a query. The caller prepends an ampersand to the query,
    because a search for a pattern that begins with a literal is fast.
    """
    return re.compile(rf"&{''.join(map(_percent_encoded, name))}(?:=([^&]*+))?+(?=&|\Z)")


_KEYS: Final = _parameter_pattern("legacy_key")
_PROJECTS: Final = _parameter_pattern("project_id")
_LEGACY_KEY: Final = re.compile(r"(?:\A|,)\s*+legacy_key\s*+(?:=([^,]*+))?+(?=,|\Z)")


class QueryCredential(NamedTuple):
    """The key and the project that a query names."""

    legacy_key: str | None = None
    project_id: str | None = None


class ProjectCredential(NamedTuple):
    """A well-formed key, which may not exist, and the projects that the request names."""

    key: str
    project_ids: tuple[str, ...]


def client_key(legacy_auth: str | None, authorization: str | None, query: str) -> bytes:
    """The key of a request, unchecked. `query` is the raw query without its question mark. Requests without a
    well-formed key, or with several different keys, all count as one client, ANONYMOUS. They are refused in any case.
    """
    try:
        named = parse_query(query)
        return parse_credential(legacy_auth, authorization, named.legacy_key, named.project_id).key.encode()
    except (BadRequest, Unauthorized):
        return ANONYMOUS


def parse_query(query: str) -> QueryCredential:
    """Read only the two parameters: a client that is not authenticated must not make the process decode a long query.
    Raises BadRequest for values that are too long and for an empty project, Unauthorized for different values of one
    parameter.
    """
    if not query:
        return QueryCredential()
    query = f"&{query.partition('#')[0]}"
    found = QueryCredential(
        _parameter(_KEYS, query, MAX_KEY_LENGTH), _parameter(_PROJECTS, query, MAX_PROJECT_ID_LENGTH)
    )
    check_bounds(found.legacy_key, found.project_id)
    return found


def _parameter(pattern: re.Pattern[str], query: str, max_length: int) -> str | None:
    """The value of a parameter, or None if the query lacks the parameter. A decoded character takes at most 12 raw
    characters (a percent sign and two digits for each of four bytes), so a raw value that is cut for decoding is still
    too long after decoding.
    """
    values: list[str] = []
    for match in pattern.finditer(query):
        if len(values) == MAX_REPETITIONS:
            raise Unauthorized("A credential is repeated too often. Send it once.")
        values.append(unquote_plus((match[1] or "")[: 12 * max_length + 12]))
    return single_value(values)


def single_value(values: list[str]) -> str | None:
    """The value of a credential; repetitions must be equal, because choosing one of them would be a guess."""
    if len(values) > 1 and len(set(values)) > 1:
        raise Unauthorized("A credential is repeated with different values. Send it once.")
    return values[0] if values else None


def check_bounds(legacy_key: str | None, project_id: str | None) -> None:
    """Raise BadRequest for query values that are too long, and for an empty project. An empty project is a malformed
    request, for example because a deployment left a variable unset.
    """
    issues = []
    for name, value, limit in (
        ("legacy_key", legacy_key, MAX_KEY_LENGTH),
        ("project_id", project_id, MAX_PROJECT_ID_LENGTH),
    ):
        if value is not None and len(value) > limit:
            issues.append(Issue(f"query.{name}", f"Must have at most {limit} characters.", "too_long"))
    if project_id == "":
        issues.append(Issue("query.project_id", "Must have at least 1 character.", "too_short"))
    if issues:
        raise BadRequest("The query is not valid.", issues)


def parse_credential(
    legacy_auth: str | None, authorization: str | None, legacy_key: str | None, project_id: str | None
) -> ProjectCredential:
    """The key that two headers and two query parameters name. Raises Unauthorized, without a lookup for a malformed
    key. A client sends the same values with each of its requests, so the latest results are cached. Results for long
    values are not cached, because the cache is filled before authentication.
    """
    values = (legacy_auth, authorization, legacy_key, project_id)
    parse = _parse_cached if sum(map(len, filter(None, values))) <= MAX_CACHED_LENGTH else _parse
    return parse(*values)


def _parse(
    legacy_auth: str | None, authorization: str | None, legacy_key: str | None, project_id: str | None
) -> ProjectCredential:
    keys = []
    project_ids = [] if project_id is None else [project_id]
    if legacy_auth is not None:
        keys.append(_from_legacy_auth(legacy_auth))
    if authorization is not None and authorization[:4].lower() == "dsn ":
        dsn = _from_dsn(authorization[4:].strip())
        keys.append(dsn.key)
        project_ids.append(str(dsn.project_id))
    if legacy_key is not None:
        keys.append(legacy_key)
    if not keys:
        raise Unauthorized("A project key is required.")
    if keys.count(keys[0]) != len(keys):
        raise Unauthorized("The request contains different project keys. Send one key.")
    if not is_project_key(keys[0]):
        raise Unauthorized("The project key is not valid.")
    return ProjectCredential(keys[0], tuple(project_ids))


_parse_cached: Final = lru_cache(MAX_CACHED)(_parse)


def _from_legacy_auth(header: str) -> str:
    """The key of `Legacy legacy_key=...`. SDKs send further comma-separated parameters, which are ignored."""
    scheme, _, parameters = header.strip().partition(" ")
    if scheme.lower() == "legacy":
        values: list[str] = _LEGACY_KEY.findall(parameters)
        if len(values) == 1:
            return values[0].strip()
    raise Unauthorized("The X-Legacy-Auth header must have the form: Legacy legacy_key=<key>.")


def _from_dsn(text: str) -> Dsn:
    try:
        return parse_dsn(text)
    except ValueError as error:
        raise Unauthorized(
            "The Authorization header must have the form: DSN {scheme}://{key}@{host}/{projectId}."
        ) from error
