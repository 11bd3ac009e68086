"""A receiver of deliveries on a real socket: keeps what came, answers what it is told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

SECRET = "whsec_" + "c2VjcmV0LW9mLXRlc3RzLXRoYXQtaXMtbG9uZy1lbm91Z2g="


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Receiver:
    """`answers` are given one after the other, the last one again and again."""

    server: TestServer
    received: list[Received] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def url(self, path: str = "/hook") -> str:
        return str(self.server.make_url(path))

    def says(self, *statuses: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Answer with these statuses in turn."""
        self.answers = [_plain(status, headers or {}, body) for status in statuses]

    async def until(self, number: int, timeout_s: float = 10.0) -> list[Received]:
        """Wait until so many requests have come."""
        async with asyncio.timeout(timeout_s):
            while len(self.received) < number:
                await asyncio.sleep(0.01)
        return self.received

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append(Received(request.path, dict(request.headers), await request.read()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def _plain(status: int, headers: dict[str, str], body: bytes) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, body=body)

    return answer


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Started; it answers 204."""
    app = web.Application(client_max_size=2**24)
    made = Receiver(TestServer(app))
    app.router.add_route("*", "/{path:.*}", made.handle)
    await made.server.start_server()
    made.says(204)
    yield made
    await made.server.close()
