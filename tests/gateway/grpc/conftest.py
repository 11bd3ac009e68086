"""The gateway's gRPC port, and grpcio's client in front of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from grpc import aio

from gateway.ingest.wiring import TelemetryStore
from tests.gateway.conftest import Gateway, StartGateway
from tests.ports import free_port

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
HEALTH = "/grpc.health.v1.Health/Check"
DEADLINE_S = 20.0

Metadata = Sequence[tuple[str, str]]


@dataclass
class Ended:
    """How a call ended: the response, or the status with its details."""

    code: grpc.StatusCode
    message: str = ""
    response: bytes = b""
    status: Status | None = None
    trailing: Mapping[str, Any] | None = None

    @property
    def retry_s(self) -> int | None:
        """Seconds of the RetryInfo; None without one."""
        return next((each.retry_delay.seconds for each in self._details(RetryInfo)), None)

    @property
    def violations(self) -> list[tuple[str, str]]:
        """Wrong fields."""
        return [(v.field, v.description) for each in self._details(BadRequest) for v in each.field_violations]

    def _details(self, kind: Any) -> list[Any]:
        found = []
        for detail in self.status.details if self.status is not None else ():
            message = kind()
            if detail.Unpack(message):
                found.append(message)
        return found


@dataclass
class Client:
    """A channel to the gateway."""

    gateway: Gateway
    port: int
    channel: aio.Channel

    def key(self, project: int = 0) -> Metadata:
        """The metadata that carries a project key."""
        return (("x-legacy-auth", f"Legacy legacy_key={self.gateway.projects[project].key}"),)

    async def call(
        self,
        path: str,
        message: bytes,
        metadata: Metadata | None = None,
        compression: grpc.Compression | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> Ended:
        """A unary call; by default with the key of the first project."""
        given = self.key() if metadata is None else metadata
        method: aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        try:
            response = await method(message, metadata=tuple(given), compression=compression, timeout=deadline_s)
        except aio.AioRpcError as error:
            return ended(error)
        return Ended(grpc.StatusCode.OK, response=response)

    async def stream(self, path: str, messages: AsyncIterator[bytes], deadline_s: float = DEADLINE_S) -> Ended:
        """The same for a client that sends any number of messages."""
        method: aio.StreamUnaryMultiCallable[bytes, bytes] = self.channel.stream_unary(path)
        try:
            return Ended(grpc.StatusCode.OK, response=await method(messages, metadata=self.key(), timeout=deadline_s))
        except aio.AioRpcError as error:
            return ended(error)


def ended(error: aio.AioRpcError) -> Ended:
    """How a failed call ended; code and message of the details must be those of the status itself."""
    trailing = dict(error.trailing_metadata() or ())
    packed = trailing.get("grpc-status-details-bin")
    status = None if packed is None else Status.FromString(packed)
    if status is not None:
        assert (status.code, status.message) == (error.code().value[0], error.details())
    return Ended(error.code(), error.details() or "", status=status, trailing=trailing)


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect(start_gateway: StartGateway) -> AsyncIterator[Connect]:
    """Start a gateway over a store, with OTLP/gRPC, and connect to it; options as for `start_gateway`."""
    async with AsyncExitStack() as stack:

        async def connected(store: TelemetryStore, **options: Any) -> Client:
            port = free_port()
            gateway = await start_gateway(store, grpc_port=port, **options)
            channel = aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
            await stack.enter_async_context(channel)
            return Client(gateway, port, channel)

        yield connected


@pytest.fixture
async def open_wire() -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Connect to the port of a client (`wires.Wire`); `preface`: what is sent first. Closed when the test ends."""
    from tests.gateway.grpc.wires import PREFIX, Wire  # noqa: PLC0415 (it imports this module)

    async with AsyncExitStack() as stack:

        async def opened(client: Client, preface: bytes = PREFIX) -> Wire:
            wire = Wire(*await asyncio.open_connection("127.0.0.1", client.port))
            stack.push_async_callback(wire.close)
            wire.writer.write(preface)
            return wire

        yield opened
