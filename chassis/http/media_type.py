"""Media types of request bodies: which ones a route takes, with which parameters (RFC 9110 8.3)."""

import re
from collections.abc import Collection
from typing import Final

from aiohttp import web

from chassis.errors import UnsupportedMediaType

_PARAMETER: Final = re.compile(r';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;]*)')
_UTF_8: Final = frozenset({"utf-8", "utf8"})


def require_media_type(request: web.Request, accepted: Collection[str]) -> str:
    """The media type of an uncompressed body. Raises UnsupportedMediaType, which closes the connection, for one that is
    not accepted, for a charset other than UTF-8, and for a compressed body.
    """
    if request.content_type not in accepted:
        raise UnsupportedMediaType(f"The body must be {' or '.join(accepted)}.", close=True)
    if not is_utf_8(request.headers.get("Content-Type", "")):
        raise UnsupportedMediaType("Send UTF-8: omit `charset` in Content-Type or set it to utf-8.", close=True)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("The body must not be compressed.", close=True)
    return request.content_type


def is_utf_8(content_type: str) -> bool:
    """Whether a Content-Type names no charset but UTF-8. Its other parameters are ignored."""
    return ";" not in content_type or all(
        value.strip('"').lower() in _UTF_8
        for name, value in _PARAMETER.findall(content_type)
        if name.lower() == "charset"
    )
