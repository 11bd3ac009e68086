"""The service of the page: the document, its files, and the headers that limit what scripts can do."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aiohttp import hdrs, web

from chassis.errors import NotFound, ServiceUnavailable
from chassis.http.access import anonymous, public
from chassis.http.compression import GZIP, accepts_gzip
from chassis.http.route import Route
from chassis.http.web import Service
from web.assets import Asset, Assets, PageNotBuilt, load_assets

ROOT: Final = "/ui/"
ASSETS_PATH: Final = f"{ROOT}assets/{{name}}"
SIGN_ON_END: Final = "/sso/complete"  # where a single sign-on ends, with a one-time code in the fragment
# Markup cannot become script (`trusted-types 'none'`), nothing is loaded from other origins, and no other page can show
# this page in a frame. The page sets styles as properties, which needs no permission.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)
_REVALIDATED: Final = "no-cache"
_KEPT: Final = "public, max-age=31536000, immutable"
_NOT_BUILT: Final = "The page was not built. In a checkout, `make setup` builds it. The APIs work without the page."


@dataclass(frozen=True, slots=True)
class WebHandlers:
    """Handlers of the page. `assets` is None if the page was not built."""

    assets: Assets | None

    def routes(self) -> list[Route]:
        """GET and HEAD of every path. The page decides in the browser which view a path shows."""
        handlers = {"/": self.to_page, "/ui": self.to_page, ROOT: self.shell, ASSETS_PATH: self.asset}
        handlers[f"{ROOT}{{path:.+}}"] = self.shell
        routes = [
            Route(method, path, handler, public(), compress=False)
            for path, handler in handlers.items()
            for method in (hdrs.METH_GET, hdrs.METH_HEAD)
        ]
        if self.assets is not None:  # without the page, control serves a plain page itself
            routes.append(Route(hdrs.METH_GET, SIGN_ON_END, self.sign_on_end, anonymous(), compress=False))
        return routes

    async def to_page(self, _request: web.Request) -> web.StreamResponse:
        """Redirect to the page."""
        return web.Response(status=302, headers={hdrs.LOCATION: ROOT, **SECURITY_HEADERS})

    async def shell(self, request: web.Request) -> web.StreamResponse:
        """The document, which is the same for every view."""
        if self.assets is None:
            raise ServiceUnavailable(_NOT_BUILT)
        return _send(request, self.assets.shell, _REVALIDATED)

    async def sign_on_end(self, request: web.Request) -> web.StreamResponse:
        """Show the page on which a single sign-on ends.

        The page exchanges the one-time code in the fragment of its address for a session.
        """
        return await self.shell(request)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        """A file that the document names."""
        asset = None if self.assets is None else self.assets.files.get(request.match_info["name"])
        if asset is None:
            if "." not in request.match_info["name"]:  # a view of an organization with the slug `assets`
                return await self.shell(request)
            raise NotFound
        return _send(request, asset, _KEPT)


def service() -> Service:
    """Build the service. The service requires no stores."""
    try:
        assets: Assets | None = load_assets()
    except PageNotBuilt:
        assets = None
    return Service("web", WebHandlers(assets).routes())


def _send(request: web.Request, asset: Asset, cache: str) -> web.Response:
    headers = {
        **SECURITY_HEADERS,
        hdrs.CACHE_CONTROL: cache,
        hdrs.ETAG: asset.etag,
        hdrs.VARY: hdrs.ACCEPT_ENCODING,
    }
    if request.headers.get(hdrs.IF_NONE_MATCH) == asset.etag:
        return web.Response(status=304, headers=headers)
    body = asset.body
    if asset.compressed is not None and accepts_gzip(request):
        body = asset.compressed
        headers[hdrs.CONTENT_ENCODING] = GZIP
    return web.Response(body=body, headers={**headers, hdrs.CONTENT_TYPE: asset.content_type})
