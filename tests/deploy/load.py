"""Exports without a pause, over HTTP or gRPC, through what stands in front of gateways."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import aiohttp
import grpc
from grpc import aio

from tests.gateway.otlp import PROTOBUF, span, traces

SENDERS: Final = 16
EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

Export = Callable[[bytes], Awaitable[None]]


class Address(Protocol):
    """A proxy, as its clients see it."""

    @property
    def url(self) -> str:
        """Where it listens."""

    def tls(self) -> ssl.SSLContext | None:
        """What a client trusts; None without TLS."""

    def authorities(self) -> bytes | None:
        """The same as PEM."""


class Failed(Exception):
    """An export that was not acknowledged. `again`: by OTLP, its client sends it again."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


@asynccontextmanager
async def over_http(proxy: Address, key: str) -> AsyncIterator[Export]:
    """Connections are kept."""
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={key}", "Content-Type": PROTOBUF}
    connector = aiohttp.TCPConnector(limit=0, ssl=proxy.tls() or True)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def export(body: bytes) -> None:
            try:
                async with session.post(f"{proxy.url}/v1/traces", data=body) as answer:
                    if answer.status != 200:
                        raise Failed(f"{answer.status} {await answer.text()}")
            except aiohttp.ClientError as error:
                raise Failed(repr(error)) from error

        yield export


@asynccontextmanager
async def over_grpc(proxy: Address, key: str) -> AsyncIterator[Export]:
    """One connection, as a client has it. It does not try again by itself."""
    target = proxy.url.partition("://")[2]
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    authorities = proxy.authorities()
    if authorities is None:
        channel = aio.insecure_channel(target, options)
    else:
        channel = aio.secure_channel(target, grpc.ssl_channel_credentials(authorities), options)
    async with channel:
        call: Any = channel.unary_unary(EXPORT)

        async def export(body: bytes) -> None:
            try:
                await call(body, metadata=[("x-legacy-auth", f"Legacy legacy_key={key}")], timeout=30)
            except aio.AioRpcError as error:
                again = error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
                raise Failed(f"{error.code()} {error.details()}", again=again) from error

        yield export


@dataclass
class Load:
    """Senders that wait for each answer. `patient`: they send again what OTLP says, as every SDK does."""

    patient: bool
    acknowledged: list[bytes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _stopping: bool = False

    async def run(self, exports: AbstractAsyncContextManager[Export], work: Callable[[], None]) -> None:
        """Send while `work` runs in a thread, and as long as it does."""
        async with exports as export, asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send(export))
            try:
                await asyncio.to_thread(work)
            finally:
                self._stopping = True

    async def _send(self, export: Export) -> None:
        trace_id = os.urandom(16)
        while not self._stopping:
            try:
                await export(traces(span(trace_id=trace_id)))
                self.acknowledged.append(trace_id)
            except Failed as failure:
                if self.patient and failure.again:
                    continue
                self.failures.append(str(failure))
            trace_id = os.urandom(16)
