"""A provider that answers anything: an HTTPS server whose responses tests choose."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.control.identity.sso.authority import Authority

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """`answers` by path; `requests`: the method and path of each request, `last`: the headers and the form of the last
    one.
    """

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    last: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def publish(self, path: str, document: object, status: int = 200, **headers: str) -> None:
        """Answer with JSON, or with these bytes."""
        body = document if isinstance(document, bytes) else msgspec.json.encode(document)
        headers = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }

        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=body, headers=headers)

        self.answers[path] = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.last = (dict(request.headers), form)
        return await self.answers[request.path](request)


@asynccontextmanager
async def serving(authority: Authority) -> AsyncIterator[Site]:
    """The site, on 127.0.0.1."""
    app = web.Application()
    server = TestServer(app, scheme="https")
    site = Site("")
    app.router.add_route("*", "/{path:.*}", site.handle)
    await server.start_server(ssl=authority.server_context())
    site.url = f"https://127.0.0.1:{server.port}"
    yield site
    await server.close()


def hanging(released: asyncio.Event) -> Answer:
    """An answer that does not come before it is released."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    return answer


def truncated(body: bytes, length: int) -> Answer:
    """A response that ends before the length that it announces."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(length)})
        await response.prepare(request)
        await response.write(body)
        transport: Any = request.transport
        transport.close()
        return response

    return answer
