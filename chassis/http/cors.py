"""Cross-origin requests (fetch.spec.whatwg.org, CORS protocol): which browser pages may read what a path answers.

A route has its `Cors` (`chassis.http.route.cross_origin`). All answers of its path are marked, refusals too: a page
whose token has expired is to see that, and not that something failed. Pages send their token themselves, so there are
no cookies and no credentials mode.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from chassis.http.not_found import UNROUTED, resolve_path, route_name
from chassis.runtime.settings_loader import SettingsError

RATE_HEADERS: Final = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
_PREFLIGHT_SECONDS: Final = 600
# As a browser writes it: in lower case, without a path. Anything else would match no page.
_ORIGIN: Final = re.compile(r"\*|[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Cors:
    """What pages of `origins` (`*`: any) may do on a path: which methods and headers they may send, and which headers
    of answers they may read.
    """

    origins: frozenset[str]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    exposed: tuple[str, ...]

    @property
    def varies_by_origin(self) -> bool:
        """Whether answers are other ones for other origins, which caches are to know."""
        return bool(self.origins) and "*" not in self.origins

    async def preflight(self, request: web.Request) -> web.Response:
        """Tell a browser what a page may send."""
        answer = web.Response(status=204)
        if self._allowed_origin(request) is not None:
            answer.headers["Access-Control-Allow-Methods"] = ", ".join(self.methods)
            answer.headers["Access-Control-Allow-Headers"] = ", ".join(self.headers)
            answer.headers["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)
        return answer

    def add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Say on an answer which page may read it."""
        if self.varies_by_origin:
            others = answer.headers.get("Vary")
            answer.headers["Vary"] = "Origin" if others is None else f"{others}, Origin"
        admitted = self._allowed_origin(request)
        if admitted is not None:
            answer.headers["Access-Control-Allow-Origin"] = admitted
            answer.headers["Access-Control-Expose-Headers"] = ", ".join(self.exposed)

    def _allowed_origin(self, request: web.Request) -> str | None:
        origin = request.headers.get("Origin")
        if origin is None or not (origin in self.origins or "*" in self.origins):
            return None
        return origin if self.varies_by_origin else "*"


def check_origins(name: str, origins: Iterable[str]) -> None:
    """Raises SettingsError, under the `name` of the setting, for what no browser sends."""
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise SettingsError(
                f"{name}: {origin!r} is no origin: use *, or scheme://host[:port] in lower case and without a path, as "
                "https://a.example."
            )


def cors_middleware(policies: Mapping[web.AbstractResource, Cors]) -> Middleware:
    """Marks what the paths of `policies` answer, also to methods that they do not take."""

    @web.middleware
    async def mark(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        resource = request.match_info.route.resource
        if route_name(request) == UNROUTED:
            resource, _ = await resolve_path(request, policies)
        if resource is not None and resource in policies:
            policies[resource].add_headers(request, answer)
        return answer

    return mark
