"""Compression of responses for clients that accept gzip (RFC 9110, 8.4.1.3 and 12.5.3).

Responses to GET, and responses of routes with `Route.compress`, are compressed if they are larger than MIN_BYTES.
Responses that may contain a secret are never compressed, because the length of a compressed response could reveal the
secret to an attacker who chooses a part of the response (BREACH).
"""

import asyncio
import zlib
from collections.abc import Collection
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from chassis.http.route import Route

MIN_BYTES: Final = 4 * 2**10
MAX_INLINE_BYTES: Final = 64 * 2**10  # takes about 0.1 ms; larger bodies are compressed beside the event loop
GZIP: Final = "gzip"
SECRET_PATHS: Final = ("/auth", "/sso", "/scim")
_LEVEL: Final = 1
_GZIP_WINDOW: Final = 31  # zlib's value for a header and trailer of gzip
_COMPRESSED_TYPES: Final = ("application/json", "text/")


def _fastest_zlib() -> Any:
    """isal if it is installed, otherwise zlib. isal has zlib's interface and is three times as fast, but has no wheels
    for some platforms.
    """
    try:
        from isal import isal_zlib  # noqa: PLC0415 (it may be missing)
    except ImportError:
        return zlib
    return isal_zlib


_zlib: Final = _fastest_zlib()


def accepts_gzip(request: web.Request) -> bool:
    """Whether the client accepts gzip, by name or by `*`. A weight of 0 forbids gzip."""
    weights = dict(_parse(item) for item in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower().split(","))
    return weights.get(GZIP, weights.get("*", 0.0)) > 0


def _parse(item: str) -> tuple[str, float]:
    """The name and the weight of an item such as `gzip;q=0.5`. The weight of a malformed item is 0."""
    name, *parameters = (part.strip() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 0.0
    return name, 1.0


async def gzip_body(body: bytes) -> bytes:
    """The body, compressed as one gzip member."""
    if len(body) <= MAX_INLINE_BYTES:
        return _gzip(body)
    return await asyncio.to_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    compressed: bytes = _zlib.compress(body, _LEVEL, _GZIP_WINDOW)
    return compressed


def is_compressed(route: Route) -> bool:
    """Whether large responses of a route are compressed."""
    if route.compress is not None:
        return route.compress
    return route.method == hdrs.METH_GET and not route.path.startswith(SECRET_PATHS)


def compression_middleware(compressed: Collection[tuple[web.AbstractResource | None, str]]) -> Middleware:
    """Compresses large responses of these resources and methods. Handlers that stream their response compress it
    themselves.
    """

    @web.middleware
    async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if (request.match_info.route.resource, request.method) in compressed and isinstance(response, web.Response):
            await _compress_body(request, response)
        return response

    return compress


async def _compress_body(request: web.Request, response: web.Response) -> None:
    """Compress a large body if the client accepts gzip. `Vary` tells caches that the response depends on the client."""
    body, headers = response.body, response.headers
    is_compressible = headers.get(hdrs.CONTENT_TYPE, "").startswith(_COMPRESSED_TYPES)
    if not isinstance(body, bytes) or len(body) <= MIN_BYTES or hdrs.CONTENT_ENCODING in headers or not is_compressible:
        return
    vary = headers.get(hdrs.VARY)
    headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING if vary is None else f"{vary}, {hdrs.ACCEPT_ENCODING}"
    if accepts_gzip(request):
        response.body = await gzip_body(body)
        headers[hdrs.CONTENT_ENCODING] = GZIP
