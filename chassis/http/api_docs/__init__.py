"""API documentation: `/openapi.json` for programs, `/docs` for people. Both work without internet access.

The first request, to `ApiDocs.openapi` or `ApiDocs.docs`, renders both in a thread and caches them:

    ApiDocs.document              routes -> OpenAPI 3.1 (`chassis.http.openapi.build_document`)
    page.render_page              that document, or the document of all services -> one HTML page without scripts, with
                                  inline styles and `page.content_security_policy`
      page.curl_command           a curl command for each operation
      fields.Schemas              schemas -> tables of fields, with types in words
      fields.element              text -> HTML, the only module that escapes

`system_routes` describes the routes that every process has.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.errors import JSON_TYPE
from chassis.http.api_docs.page import content_security_policy, render_page
from chassis.http.api_docs.system_routes import HTML_TYPE
from chassis.http.openapi import Endpoint, build_document

DESCRIPTION: Final = (
    "Ingests OpenTelemetry traces and logs over OTLP/HTTP, and queries them through an explore API.\n\n"
    'Every error response has the body `{"error": {"code", "message", "details"?, "requestId"}}`. A resource that does '
    "not exist and a resource that the credential may not see return the same 404. Lists are paginated: pass "
    "`nextCursor` of a page as `cursor` to get the next page. Responses to authenticated requests report the rate "
    "limit in their headers."
)
_HEADERS: Final = {
    "Content-Type": f"{HTML_TYPE}; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class ApiDocs:
    """The handlers of `/openapi.json` and `/docs`. `endpoints` returns every route of the process, and is called when
    all routes are known. `full_document` returns the document of all services, for a process that runs only one.
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
        """The API of this process as OpenAPI 3.1."""
        document, _ = await self._render_once()
        return web.Response(body=document, headers={"Content-Type": JSON_TYPE, "X-Content-Type-Options": "nosniff"})

    async def docs(self, _request: web.Request) -> web.StreamResponse:
        """The API as an HTML page.

        The page describes all services, also when this process runs only one of them.
        """
        _, page = await self._render_once()
        return web.Response(body=page, headers={**_HEADERS, "Content-Security-Policy": content_security_policy()})

    def document(self) -> dict[str, Any]:
        """The OpenAPI document of this process."""
        return build_document(self._title, DESCRIPTION, self._endpoints())

    async def _render_once(self) -> tuple[bytes, bytes]:
        """Document and page. They are rendered once, in a thread, because rendering takes tens of milliseconds."""
        if self._rendered is None:
            self._rendered = asyncio.ensure_future(asyncio.to_thread(self._render))
        return await asyncio.shield(self._rendered)

    def _render(self) -> tuple[bytes, bytes]:
        own = self.document()
        page = (
            render_page(own)
            if self._full_document is None
            else render_page(self._full_document(), own["info"]["title"])
        )
        return msgspec.json.encode(own), page
