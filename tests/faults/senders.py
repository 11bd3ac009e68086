"""One attempt to deliver an export, over HTTP or over gRPC: what the answer was, in the terms of HTTP."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import aiohttp
import grpc
from grpc import aio

from tests.faults.records import REFUSED, Body, Signal

TIMEOUT: Final = "timeout"
RESET: Final = "reset"  # the attempt may have come in
GRPC_PATHS: Final[dict[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_CODES: Final = {grpc.StatusCode.UNAVAILABLE: "503", grpc.StatusCode.RESOURCE_EXHAUSTED: "429"}
# A client connects again at once, as those over HTTP here do.
_CHANNEL: Final = [
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    *((f"grpc.{name}_reconnect_backoff_ms", 100) for name in ("initial", "min", "max")),
]


class Sender(Protocol):
    """Sends requests, each once."""

    async def attempt(self, signal: Signal, body: Body) -> tuple[str, bytes]:
        """The status, or how the attempt failed; and the content of the answer."""


class HttpSender:
    """Over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session = session
        self._url = url
        self._key = {"X-Legacy-Auth": f"Legacy legacy_key={key}"}

    async def attempt(self, signal: Signal, body: Body) -> tuple[str, bytes]:
        """The path says the signal."""
        del signal
        headers = {**body.headers, **self._key}
        try:
            async with self._session.post(self._url + body.path, data=body.content, headers=headers) as answer:
                content = await answer.read()
                return str(answer.status), content
        except aiohttp.ClientConnectorError:
            return REFUSED, b""
        except TimeoutError:
            return TIMEOUT, b""
        except (aiohttp.ClientError, OSError):
            return RESET, b""


class GrpcSender:
    """Over gRPC."""

    def __init__(self, channel: aio.Channel, key: str, attempt_s: float) -> None:
        self._channel = channel
        self._key = (("x-legacy-auth", f"Legacy legacy_key={key}"),)
        self._attempt_s = attempt_s

    async def attempt(self, signal: Signal, body: Body) -> tuple[str, bytes]:
        """A gzipped body is compressed by gRPC instead."""
        packed = body.headers.get("Content-Encoding") == "gzip"
        message = gzip.decompress(body.content) if packed else body.content
        compression = grpc.Compression.Gzip if packed else grpc.Compression.NoCompression
        method: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(GRPC_PATHS[signal])
        try:
            content = await method(message, metadata=self._key, timeout=self._attempt_s, compression=compression)
        except aio.AioRpcError as error:
            return _answer_of(error), (error.details() or "").encode()
        return "200", content


def _answer_of(error: aio.AioRpcError) -> str:
    """Statuses of ours have details; others are how the attempt failed."""
    if "grpc-status-details-bin" in dict(error.trailing_metadata() or ()):
        return _CODES.get(error.code(), error.code().name)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TIMEOUT
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return REFUSED if "failed to connect" in (error.details() or "").lower() else RESET
    return error.code().name


@asynccontextmanager
async def http_sender(url: str, key: str, attempt_s: float, *, reconnect: bool) -> AsyncIterator[Sender]:
    """A sender with connections of its own; `reconnect`: one for each attempt."""
    connector = aiohttp.TCPConnector(limit=0, force_close=reconnect)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=attempt_s)) as session:
        yield HttpSender(session, url, key)


@asynccontextmanager
async def grpc_sender(port: int, key: str, attempt_s: float) -> AsyncIterator[Sender]:
    """The same over gRPC."""
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=_CHANNEL) as channel:
        yield GrpcSender(channel, key, attempt_s)
