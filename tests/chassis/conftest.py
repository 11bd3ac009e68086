"""A real server on a real socket, from routes; a store of the tests' own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.http.serve import bind, listening
from chassis.http.web import Route, build_app
from chassis.redis import Redis, open_redis
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

Answer = tuple[int, Mapping[str, str], bytes]  # header names compare without case
DEADLINE_S = 20.0  # for anything that must happen; never a measure of speed
PLAIN = ("Accept-Encoding",)  # what aiohttp would add, and get compressed answers


@dataclass
class Served:
    """A listening application and what a test needs to talk to it."""

    port: int
    app: web.Application
    telemetry: Telemetry
    client: aiohttp.ClientSession
    connections: list[asyncio.StreamWriter] = field(default_factory=list)  # closed with the test

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        async with self.client.request(method, self.url(path), **options) as answer:
            return answer.status, answer.headers, await answer.read()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.connections.append(writer)
        return reader, writer

    def disconnect(self) -> None:
        for writer in self.connections:
            writer.close()

    async def talk(self, sent: bytes) -> bytes:
        """Send bytes and return all that comes until the server closes."""
        reader, writer = await self.connect()
        writer.write(sent)
        try:
            return await read_all(reader)
        finally:
            writer.close()


Serve = Callable[..., Awaitable[Served]]
Connect = Callable[..., Awaitable[Redis]]


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes; a reset after the answer counts as closing."""
    received = bytearray()
    async with asyncio.timeout(DEADLINE_S):
        try:
            while piece := await reader.read(65_536):
                received += piece
        except ConnectionResetError:
            pass
    return bytes(received)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def connect(metrics: CollectorRegistry) -> AsyncIterator[Connect]:
    """A started Redis, closed with the test; the first one has metrics. A machine under load gets more time than
    production gives.
    """
    registries: Iterator[CollectorRegistry | None] = chain([metrics], repeat(None))
    async with AsyncExitStack() as stack:

        async def connected(url: str, timeout_s: float = 10.0) -> Redis:
            made = open_redis(url, timeout_s, next(registries))
            stack.push_async_callback(made.close)
            await made.start()
            return made

        yield connected


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start an application built from routes on a free port; several per test are fine."""
    async with AsyncExitStack() as stack:

        async def start(routes: Sequence[Route], telemetry: Telemetry | None = None, **options: Any) -> Served:
            known = {field.name for field in msgspec.structs.fields(ChassisSettings)}
            chosen = {name: options.pop(name) for name in list(options) if name in known}
            settings = ChassisSettings(**chosen)
            telemetry = telemetry or Telemetry("test")
            app = build_app(routes, service="test", settings=settings, telemetry=telemetry, **options)
            listener = bind("127.0.0.1", 0)
            port = listener.getsockname()[1]
            await stack.enter_async_context(listening(app, listener, settings, telemetry))
            client = await stack.enter_async_context(
                aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=PLAIN)
            )
            served = Served(port, app, telemetry, client)
            stack.callback(served.disconnect)
            return served

        yield start
