"""The interface as it describes itself: `/openapi.json` for programs, `/docs` for people. Needs no internet.

document          routes -> OpenAPI 3.1 (`chassis.http.openapi`), at the first request for either, then kept
page              that document, or the one of the whole product -> one HTML page: no script, its style inside, under a
                  strict policy
  examples        a curl command for each operation
  fields          schemas -> tables of fields, types in words
  markup          text -> HTML, the one place that escapes
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.http.api_docs.page import content_security_policy, render_page
from chassis.http.api_docs.system_routes import HTML_TYPE
from chassis.http.openapi import Endpoint, build_document
from chassis.http.operation import JSON_TYPE

DESCRIPTION: Final = (
    "OpenTelemetry traces and logs in over OTLP/HTTP, and back out through an explore API.\n\n"
    'Every refusal has one shape, `{"error": {"code", "message", "details"?, "requestId"}}`. A missing thing and one '
    "that the credential may not see are the same 404. Lists come in pages: `nextCursor` of one page is `cursor` of "
    "the next. Every authenticated answer tells how its rate limit stands."
)
_HEADERS: Final = {
    "Content-Type": f"{HTML_TYPE}; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class ApiDocs:
    """The two handlers. `endpoints` gives every route of the process once all are known, `whole` the document of the
    product that it is a part of.
    """

    def __init__(
        self,
        title: str,
        endpoints: Callable[[], Iterable[Endpoint]],
        full_document: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._title = title
        self._endpoints = endpoints
        self._full_document = full_document
        self._rendered: asyncio.Future[tuple[bytes, bytes]] | None = None

    async def openapi(self, _request: web.Request) -> web.StreamResponse:
        """The interface of this process as OpenAPI 3.1."""
        described, _ = await self._render_once()
        return web.Response(body=described, headers={"Content-Type": JSON_TYPE})

    async def docs(self, _request: web.Request) -> web.StreamResponse:
        """The interface as a page to read.

        Of all services, also where this process is one of them.
        """
        _, readable = await self._render_once()
        return web.Response(body=readable, headers={**_HEADERS, "Content-Security-Policy": content_security_policy()})

    def document(self) -> dict[str, Any]:
        """The interface of this process."""
        return build_document(self._title, DESCRIPTION, self._endpoints())

    async def _render_once(self) -> tuple[bytes, bytes]:
        """Made once, in a thread: it takes some tens of milliseconds."""
        if self._rendered is None:
            self._rendered = asyncio.ensure_future(asyncio.to_thread(self._render))
        return await asyncio.shield(self._rendered)

    def _render(self) -> tuple[bytes, bytes]:
        own = self.document()
        shown = (
            render_page(own)
            if self._full_document is None
            else render_page(self._full_document(), own["info"]["title"])
        )
        return msgspec.json.encode(own), shown
