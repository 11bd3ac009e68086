"""Which system an address is of, and what its id is there; pure."""

import hashlib
import re
from typing import Final, NamedTuple

OTHER: Final = "other"
_DIGEST_LENGTH: Final = 32
_HOST: Final = re.compile(r"https?://([^/?#:]+)(?::\d+)?([^?#]*)", re.IGNORECASE)
_REPOSITORY_ITEM: Final = re.compile(r"/([^/]+(?:/[^/]+)+?)/(?:-/)?(?:issues|pull|pulls|merge_requests)/(\d+)/?")
_LINEAR: Final = re.compile(r"/[^/]+/issue/([A-Za-z][A-Za-z0-9]*-\d+)(?:/.*)?")
_JIRA: Final = re.compile(r"(?:/.*)?/browse/([A-Za-z][A-Za-z0-9_]*-\d+)/?")


class ExternalItem(NamedTuple):
    """A system, and the id of an item in it."""

    system: str
    external_id: str


def identify(url: str) -> ExternalItem:
    """`github`, `gitlab`, `linear` and `jira` by host and path; else `other` with a digest of the address."""
    match = _HOST.match(url)
    host, path = (match[1].lower(), match[2]) if match else ("", "")
    for system, domain, pattern in (
        ("github", "github.com", _REPOSITORY_ITEM),
        ("gitlab", "gitlab.com", _REPOSITORY_ITEM),
        ("linear", "linear.app", _LINEAR),
        ("jira", "atlassian.net", _JIRA),
    ):
        found = pattern.fullmatch(path) if host == domain or host.endswith(f".{domain}") else None
        if found is not None and len("#".join(found.groups())) <= 200:
            return ExternalItem(system, "#".join(found.groups()))
    return ExternalItem(OTHER, digest(url))


def digest(url: str) -> str:
    """An id for an item that is known by its address alone."""
    return hashlib.sha256(url.encode()).hexdigest()[:_DIGEST_LENGTH]
