"""Formats and vocabulary of identity: tokens, project keys, DSNs, slugs, roles and scopes.

All functions are pure. Callers pass random bytes, which `chassis.auth.tables` generates. Secrets have high entropy, so
their plain SHA-256 is stored and looked up.
"""

import hashlib
import re
import zlib
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

TOKEN_PREFIX: Final = "pat_"  # noqa: S105  # the prefix of every token is public
INVITATION_PREFIX: Final = "inv_"
REFRESH_PREFIX: Final = "ref_"
EMAIL_VERIFICATION_PREFIX: Final = "emv_"
SCIM_PREFIX: Final = "scim_"
TOKEN_ENTROPY_BYTES: Final = 32
MAX_ACT_CHAIN: Final = 16  # specification 2.8: links of an act chain
PROJECT_KEY_ENTROPY_BYTES: Final = 16
MAX_PROJECT_ID: Final = 2**53 - 1  # the largest integer that all JSON readers represent exactly
MAX_SLUG_LENGTH: Final = 64
MAX_NAME_LENGTH: Final = 200
MAX_EMAIL_LENGTH: Final = 254  # RFC 5321, 4.5.3.1.3
MAX_LOCALE_LENGTH: Final = 35  # RFC 5646, 4.4.1
MAX_URL_LENGTH: Final = 2_048
MAX_MONTHLY_ITEMS: Final = 10**15  # exact in every counter, including JSON and Lua
MAX_EXEMPT_KEY_BYTES: Final = 256  # of UTF-8; longer keys of attributes are truncated by default
MAX_KEY_RATE: Final = 10_000_000  # requests per second

# Characters that are not displayed as themselves: control characters (C0, C1), line breaks, and characters that reverse
# the direction of the following text (Unicode TR 36, 2.3), so that it looks like another text.
UNPRINTABLE: Final = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
# Characters without width: format characters (Cf), default-ignorable characters (Unicode 16, DerivedCoreProperties),
# and the blank Braille pattern. Two texts that differ only in such characters look the same. Characters beyond U+FFFF
# are not escaped, because no escape for them is valid in both Python and JSON Schema.
ZERO_WIDTH: Final = (
    r"\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The look-ahead is needed because `$` alone accepts a trailing newline. Both are also valid in JSON Schema.
SLUG_PATTERN: Final = r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?!\n)$"
SENSITIVE_WORD_PATTERN: Final = r"^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?(?!\n)$"
EXEMPT_KEY_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f]+(?!\n)$"  # any characters except control characters
NAME_PATTERN: Final = rf"^(?!\s)[^{UNPRINTABLE}]+(?<!\s)(?!\n)$"
VISIBLE_PATTERN: Final = (
    rf"^(?!\s)[^{UNPRINTABLE}{ZERO_WIDTH}]+(?<!\s)(?!\n)$"  # for texts that users recognize by their appearance
)

# The addresses that browsers accept (HTML, 4.10.5.1.5): ASCII, with a domain name of one or more labels.
EMAIL_PATTERN: Final = (
    r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*(?!\n)$"
)
LOCALE_PATTERN: Final = r"^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*(?!\n)$"  # the shape of a language tag (RFC 5646)

_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN_BODY_LENGTH: Final = 43  # ceil(256 / log2(62))
_CHECKSUM_LENGTH: Final = 6  # ceil(32 / log2(62))
_SECRET: Final = re.compile(rf"[a-z]{{3,4}}_[0-9A-Za-z]{{{_TOKEN_BODY_LENGTH + _CHECKSUM_LENGTH}}}")
_PROJECT_KEY: Final = re.compile(r"[0-9a-f]{32}")
_SLUG: Final = re.compile(SLUG_PATTERN)
_DSN: Final = re.compile(
    r"(https?)://([0-9a-zA-Z_-]{1,128})@([^\s@/?#]{1,255}(?:/[^\s@?#]{1,255})?)/([1-9][0-9]{0,15})"
)


class PrincipalKind(StrEnum):
    """The kind of a principal. Agents and services have an owner."""

    USER = "user"
    AGENT = "agent"
    SERVICE = "service"


class Role(StrEnum):
    """The role of a principal in one organization, from least to most privileged."""

    VIEWER = "VIEWER"
    BILLING = "BILLING"
    MEMBER = "MEMBER"
    ADMIN = "ADMIN"
    OWNER = "OWNER"


class Scope(StrEnum):
    """A permission on one kind of resource. A token may have a subset of the permissions of its holder."""

    EXPLORE_READ = "explore:read"
    APPROVALS_READ = "approvals:read"
    APPROVALS_WRITE = "approvals:write"
    APPROVALS_DECIDE = "approvals:decide"
    POLICIES_READ = "policies:read"
    POLICIES_WRITE = "policies:write"
    CHANNELS_READ = "channels:read"
    CHANNELS_WRITE = "channels:write"
    SINKS_READ = "sinks:read"
    SINKS_WRITE = "sinks:write"
    SINKS_EXPORT = "sinks:export"
    SSO_READ = "sso:read"
    SSO_WRITE = "sso:write"
    PROJECTS_READ = "projects:read"
    PROJECTS_WRITE = "projects:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    MEMBERS_READ = "members:read"
    MEMBERS_WRITE = "members:write"
    TOKENS_WRITE = "tokens:write"
    PROOFS_READ = "proofs:read"
    PROOFS_WRITE = "proofs:write"
    INTEGRATIONS_READ = "integrations:read"
    INTEGRATIONS_WRITE = "integrations:write"
    AUDIT_READ = "audit:read"
    ISSUES_READ = "issues:read"
    ISSUES_WRITE = "issues:write"
    RELEASES_READ = "releases:read"
    RELEASES_WRITE = "releases:write"
    VIEWS_WRITE = "views:write"


_VIEWER: Final = frozenset(
    {
        Scope.EXPLORE_READ,
        Scope.APPROVALS_READ,
        Scope.CHANNELS_READ,
        Scope.PROJECTS_READ,
        Scope.PROOFS_READ,
        Scope.ISSUES_READ,
        Scope.RELEASES_READ,
        Scope.VIEWS_WRITE,  # saved views are personal bookmarks
    }
)
_MEMBER: Final = _VIEWER | {
    Scope.APPROVALS_WRITE,
    Scope.APPROVALS_DECIDE,
    Scope.CHANNELS_WRITE,
    Scope.PROOFS_WRITE,
    Scope.TOKENS_WRITE,
    Scope.ISSUES_WRITE,
    Scope.RELEASES_WRITE,
}
# ADMIN and OWNER have the same scopes. That only an OWNER can grant OWNER is a rule of its own, not a scope.
ROLE_SCOPES: Final[Mapping[Role, frozenset[Scope]]] = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.BILLING: frozenset({Scope.PROJECTS_READ}),
        Role.MEMBER: _MEMBER,
        Role.ADMIN: frozenset(Scope),
        Role.OWNER: frozenset(Scope),
    }
)


class Dsn(NamedTuple):
    """A DSN: `{scheme}://{key}@{host}/{projectId}`. `host` includes the port and, behind a proxy, a path prefix."""

    scheme: str
    key: str
    host: str
    project_id: int


def parse_dsn(text: str) -> Dsn:
    """Parse a DSN. Raises ValueError, whose message does not quote the text, because the text contains a secret."""
    match = _DSN.fullmatch(text)
    if match is None or int(match[4]) > MAX_PROJECT_ID:
        raise ValueError("not a DSN of the form {scheme}://{key}@{host}/{projectId}")
    return Dsn(match[1], match[2], match[3], int(match[4]))


def format_dsn(base_url: str, key: str, project_id: int) -> str:
    """The DSN `http://key@127.0.0.1:4318/42` for the base URL `http://127.0.0.1:4318` and the project 42. Raises
    ValueError if the base URL is not http(s).
    """
    scheme, separator, host = base_url.partition("://")
    text = f"{scheme}://{key}@{host.rstrip('/')}/{project_id}"
    if not separator or _DSN.fullmatch(text) is None:
        raise ValueError(f"not an http(s) base URL: {base_url}")
    return text


def hash_secret(secret: str) -> bytes:
    """The SHA-256 of the secret, 32 bytes. A slow hash is only needed for passwords, because these secrets have at
    least 128 bits of entropy.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def secret_hint(secret: str) -> str:
    """The last four characters, by which users recognize their secrets in a list."""
    return secret[-4:]


def encode_token(entropy: bytes, prefix: str = TOKEN_PREFIX) -> str:
    """A token made of 32 random bytes: `pat_`, 43 base62 digits, and a checksum of 6 digits. Secret scanners can verify
    a match by the checksum.

    Other secrets (invitations, refresh tokens, e-mail verifications, tokens of directories) have the same form with
    their own prefixes. Raises ValueError for another number of bytes.
    """
    if len(entropy) != TOKEN_ENTROPY_BYTES:
        raise ValueError(f"a personal access token requires {TOKEN_ENTROPY_BYTES} random bytes")
    text = prefix + _base62(int.from_bytes(entropy, "big"), _TOKEN_BODY_LENGTH)
    return text + _checksum(text)


def is_token(text: str, prefix: str = TOKEN_PREFIX) -> bool:
    """Whether the text has the form and the checksum of a personal access token, or of another secret with `prefix`."""
    if not text.startswith(prefix) or _SECRET.fullmatch(text) is None:
        return False
    return text[-_CHECKSUM_LENGTH:] == _checksum(text[:-_CHECKSUM_LENGTH])


def normalize_email(text: str) -> str:
    """The address in lower case, in which it is stored and compared, because addresses that differ only in case belong
    to the same mailbox.
    """
    return text.lower()


def encode_project_key(entropy: bytes) -> str:
    """A project key made of 16 random bytes: 32 lower-case hex digits, which are valid in a URL, a header and the user
    part of a DSN. Raises ValueError for another number of bytes.
    """
    if len(entropy) != PROJECT_KEY_ENTROPY_BYTES:
        raise ValueError(f"a project key requires {PROJECT_KEY_ENTROPY_BYTES} random bytes")
    return entropy.hex()


def is_project_key(text: str) -> bool:
    """Whether the text has the form of a project key. Other texts need no look-up."""
    return _PROJECT_KEY.fullmatch(text) is not None


def is_slug(text: str) -> bool:
    """Whether the text is 1 to 64 lower-case letters, digits and inner dashes."""
    return len(text) <= MAX_SLUG_LENGTH and _SLUG.search(text) is not None


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits))


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode("ascii")), _CHECKSUM_LENGTH)
