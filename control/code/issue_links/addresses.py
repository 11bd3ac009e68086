"""Which system an address is of, and what its id is there; pure."""

import hashlib
import re
from typing import Final, NamedTuple

OTHER: Final = "other"
_DIGEST_LENGTH: Final = 32
_HOST: Final = re.compile(r"https?://([^/?#:]+)(?::\d+)?([^?#]*)", re.IGNORECASE)
_MAX_ID_LENGTH: Final = 200
_GITHUB: Final = re.compile(r"/([^/]+/[^/]+)/(?:issues|pull|pulls)/(\d+)(?:/.*)?")
_GITLAB: Final = re.compile(r"/([^/]+(?:/[^/]+)+?)/(?:-/)?(issues|merge_requests)/(\d+)(?:/.*)?")
_LINEAR: Final = re.compile(r"/([^/]+)/issue/([A-Za-z][A-Za-z0-9]*-\d+)(?:/.*)?")
_JIRA: Final = re.compile(r"(?:/.*)?/browse/([A-Za-z][A-Za-z0-9_]*-\d+)/?")


class ExternalItem(NamedTuple):
    """A system, and the id of an item in it."""

    system: str
    external_id: str


def identify(url: str) -> ExternalItem:
    """By host and path; else `other` with a digest of the address.

    github    `shop/checkout#17` in lower case; pull requests and issues share their numbers
    gitlab    `shop/checkout#17` for an issue, `shop/checkout!17` for a merge request
    linear    `workspace/ENG-12`
    jira      `shop.atlassian.net/SHOP-9`
    """
    match = _HOST.match(url)
    host, path = (match[1].lower(), match[2]) if match else ("", "")
    for system, domain, read in (
        ("github", "github.com", _github),
        ("gitlab", "gitlab.com", _gitlab),
        ("linear", "linear.app", _linear),
        ("jira", "atlassian.net", _jira),
    ):
        found = read(host, path) if host == domain or host.endswith(f".{domain}") else None
        if found is not None and len(found) <= _MAX_ID_LENGTH:
            return ExternalItem(system, found)
    return ExternalItem(OTHER, digest(url))


def identify_named(url: str, system: str | None, external_id: str | None) -> ExternalItem:
    """The item with this address whose system or id in it may be named; else they are taken from the address."""
    found = identify(url)
    if system is None:
        return found if external_id is None else found._replace(external_id=external_id)
    return ExternalItem(system, external_id or (found.external_id if system == found.system else digest(url)))


def identify_again(item: ExternalItem, old_url: str, url: str) -> ExternalItem:
    """The item of a link whose address changes. What was named besides the address stays: system, and id in it."""
    found = identify(url)
    if item == identify(old_url):
        return found
    if item.external_id != digest(old_url):
        return item
    return found if found.system == item.system else item._replace(external_id=digest(url))


def _github(_host: str, path: str) -> str | None:
    found = _GITHUB.fullmatch(path)
    return None if found is None else f"{found[1].lower()}#{found[2]}"


def _gitlab(_host: str, path: str) -> str | None:
    found = _GITLAB.fullmatch(path)
    return None if found is None else f"{found[1]}{'#' if found[2] == 'issues' else '!'}{found[3]}"


def _linear(_host: str, path: str) -> str | None:
    found = _LINEAR.fullmatch(path)
    return None if found is None else f"{found[1].lower()}/{found[2].upper()}"


def _jira(host: str, path: str) -> str | None:
    found = _JIRA.fullmatch(path)
    return None if found is None else f"{host}/{found[1].upper()}"


def digest(url: str) -> str:
    """An id for an item that is known by its address alone."""
    return hashlib.sha256(url.encode()).hexdigest()[:_DIGEST_LENGTH]
