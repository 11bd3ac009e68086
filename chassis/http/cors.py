"""Cross-origin requests (fetch.spec.whatwg.org, CORS protocol): which browser pages may read the responses of a path.

`chassis.http.route.cross_origin` gives a route its `Cors`. All responses of the route's path have the CORS headers,
including errors: a page with an expired token must see that error, not a network failure. Pages send their token or key
themselves, and no path with CORS headers reads a cookie. But `navigator.sendBeacon` always uses the credentials mode
`include`, for which browsers do not accept `*`. A path that accepts beacons therefore permits credentials to origins
that are listed by name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from chassis.http.not_found import UNROUTED, resolve_path, route_name
from chassis.runtime.settings_loader import SettingsError

RATE_HEADERS: Final = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
_PREFLIGHT_SECONDS: Final = 600
# An origin as browsers send it: in lower case, without a path. Any other spelling would match no page.
_ORIGIN: Final = re.compile(r"\*|[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
# Names of headers that pages may send, in lower case, as browsers send them in preflight requests. Headers that
# describe the connection, a proxy or the browser itself are excluded.
_REQUESTED_HEADER: Final = re.compile(r"(?!(?:cookie|host)\Z|x-forwarded-|proxy-|sec-)[a-z0-9-]{1,64}")
_MAX_REQUESTED_HEADERS: Final = 30


@dataclass(frozen=True, slots=True)
class Cors:
    """Permissions of pages of `origins` (`*`: any origin) on a path: the methods and headers that the pages may send,
    and the response headers that they may read (`exposed`). `trusts_named_origins`: pages of an origin that is listed
    by name, not by `*`, may also send beacons and custom headers such as `X-Tenant`, which exporters can be configured
    to send.
    """

    origins: frozenset[str]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    exposed: tuple[str, ...]
    trusts_named_origins: bool = False

    @property
    def varies_by_origin(self) -> bool:
        """Whether responses depend on the origin, so that caches must be told (`Vary`)."""
        return bool(self.origins - {"*"})

    async def preflight(self, request: web.Request) -> web.Response:
        """Respond to a preflight request with the methods and headers that a page may send."""
        response = web.Response(status=204)
        allowed_origin = self._allowed_origin(request)
        if allowed_origin is not None:
            headers = dict.fromkeys(self.headers)
            if self._is_trusted(allowed_origin):
                headers |= dict.fromkeys(_requested_headers(request))
            response.headers["Access-Control-Allow-Methods"] = ", ".join(self.methods)
            response.headers["Access-Control-Allow-Headers"] = ", ".join(headers)
            response.headers["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)
        return response

    def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that say which pages may read the response and which of its headers."""
        if self.varies_by_origin:
            vary = response.headers.get("Vary")
            response.headers["Vary"] = "Origin" if vary is None else f"{vary}, Origin"
        allowed_origin = self._allowed_origin(request)
        if allowed_origin is not None:
            response.headers["Access-Control-Allow-Origin"] = allowed_origin
            if self._is_trusted(allowed_origin):
                response.headers["Access-Control-Allow-Credentials"] = "true"
            response.headers["Access-Control-Expose-Headers"] = ", ".join(self.exposed)

    def _allowed_origin(self, request: web.Request) -> str | None:
        origin = request.headers.get("Origin")
        if origin is None or origin in self.origins:
            return origin
        return "*" if "*" in self.origins else None

    def _is_trusted(self, allowed_origin: str) -> bool:
        return self.trusts_named_origins and allowed_origin != "*"


def _requested_headers(request: web.Request) -> list[str]:
    """The headers that a preflight request asks for and a page may send, at most _MAX_REQUESTED_HEADERS."""
    listed = ",".join(request.headers.getall("Access-Control-Request-Headers", ())).lower()
    names = (name.strip(" \t") for name in listed.split(","))
    return list(islice(filter(_REQUESTED_HEADER.fullmatch, names), _MAX_REQUESTED_HEADERS))


def check_origins(name: str, origins: Iterable[str]) -> None:
    """Raise SettingsError, with the `name` of the setting, for an origin that no browser sends."""
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise SettingsError(
                f"{name}: {origin!r} is not an origin. Use *, or scheme://host[:port] in lower case without a path, "
                "for example https://a.example."
            )


def cors_middleware(policies: Mapping[web.AbstractResource, Cors]) -> Middleware:
    """Adds CORS headers to every response of the paths in `policies`, also for methods that the paths do not have."""

    @web.middleware
    async def add_cors_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        resource = request.match_info.route.resource
        if route_name(request) == UNROUTED:
            resource, _ = await resolve_path(request, policies)
        if resource is not None and resource in policies:
            policies[resource].add_headers(request, response)
        return response

    return add_cors_headers
