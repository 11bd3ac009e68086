"""Finds the system that an address belongs to, and the id of the item in it. Pure functions."""

import hashlib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

OTHER: Final = "other"
_DIGEST_LENGTH: Final = 32
_HOST: Final = re.compile(r"https?://([^/?#:]+)(?::\d+)?([^?#]*)", re.IGNORECASE)
_MAX_ID_LENGTH: Final = 200


class ExternalItem(NamedTuple):
    """A system, and the id of an item in it."""

    system: str
    external_id: str


class _System(NamedTuple):
    name: str
    domain: str
    path: re.Pattern[str]
    read_id: Callable[[str, re.Match[str]], str]  # from the host and the path


_SYSTEMS: Final = (
    _System(
        "github",
        "github.com",
        re.compile(r"/([^/]+/[^/]+)/(?:issues|pull|pulls)/(\d+)(?:/.*)?"),
        lambda _, path: f"{path[1].lower()}#{path[2]}",
    ),
    _System(
        "gitlab",
        "gitlab.com",
        re.compile(r"/([^/]+(?:/[^/]+)+?)/(?:-/)?(issues|merge_requests)/(\d+)(?:/.*)?"),
        lambda _, path: f"{path[1]}{'#' if path[2] == 'issues' else '!'}{path[3]}",
    ),
    _System(
        "linear",
        "linear.app",
        re.compile(r"/([^/]+)/issue/([A-Za-z][A-Za-z0-9]*-\d+)(?:/.*)?"),
        lambda _, path: f"{path[1].lower()}/{path[2].upper()}",
    ),
    _System(
        "jira",
        "atlassian.net",
        re.compile(r"(?:/.*)?/browse/([A-Za-z][A-Za-z0-9_]*-\d+)/?"),
        lambda host, path: f"{host}/{path[1].upper()}",
    ),
)


def identify(url: str) -> ExternalItem:
    """Identify an item by host and path of its address. Other addresses belong to the system `other`, and the id is a
    digest of the address.

    github    `shop/checkout#17` in lower case; pull requests and issues share their numbers
    gitlab    `shop/checkout#17` for an issue, `shop/checkout!17` for a merge request
    linear    `workspace/ENG-12`
    jira      `shop.atlassian.net/SHOP-9`
    """
    match = _HOST.match(url)
    host, path = (match[1].lower(), match[2]) if match else ("", "")
    for system in _SYSTEMS:
        found = system.path.fullmatch(path) if f".{host}".endswith(f".{system.domain}") else None
        external_id = None if found is None else system.read_id(host, found)
        if external_id is not None and len(external_id) <= _MAX_ID_LENGTH:
            return ExternalItem(system.name, external_id)
    return ExternalItem(OTHER, digest(url))


def identify_named(url: str, system: str | None, external_id: str | None) -> ExternalItem:
    """The item with this address. A system or id that the caller names takes precedence over the address."""
    found = identify(url)
    if system is None:
        return found if external_id is None else found._replace(external_id=external_id)
    return ExternalItem(system, external_id or (found.external_id if system == found.system else digest(url)))


def identify_again(item: ExternalItem, old_url: str, url: str) -> ExternalItem:
    """The item of a link whose address changes. A system or id that was named beside the old address is kept."""
    found = identify(url)
    if item == identify(old_url):
        return found
    if item.external_id != digest(old_url):
        return item
    return found if found.system == item.system else item._replace(external_id=digest(url))


def digest(url: str) -> str:
    """An id for an item of which only the address is known."""
    return hashlib.sha256(url.encode()).hexdigest()[:_DIGEST_LENGTH]
