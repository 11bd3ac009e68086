"""The gRPC server: starts with the gateway, and drains together with HTTP.

Clients connect to a socket of this module, which checks their bytes (`gateway.grpc.connection`) and forwards them to
gRPC's core.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import grpc
import structlog
from aiohttp import web
from grpc import aio

from chassis.errors import StartupError
from chassis.http.serve import Acceptor, bind
from chassis.http.web import RATE_LIMITS
from chassis.runtime import fd_limits
from chassis.runtime.health import HEALTH, OTHER_SERVERS, REUSE_S, Health
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from gateway.export import ExportParts
from gateway.grpc.connection import ClientConnection
from gateway.grpc.connections import (
    DESCRIPTORS_PER_CONNECTION,
    Connections,
    CoreSocket,
    GrpcMetrics,
    Options,
    server_options,
)
from gateway.grpc.service import Context, ExportService, Handler, MessageReceiver
from gateway.settings import GatewaySettings
from proto.otlp.protobuf_writer import varint_field

CHECK: Final = "/grpc.health.v1.Health/Check"
WATCH: Final = "/grpc.health.v1.Health/Watch"
MAX_WATCHES: Final = 64  # at the same time; each keeps an unauthenticated connection open

SERVING: Final = varint_field(1, 1)  # of HealthCheckResponse
NOT_SERVING: Final = varint_field(1, 2)


class HealthService:
    """`Health/Check` and `Health/Watch`: the state of the process, for every service name. The request needs no key,
    and its message is not read.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self._watches = 0
        self._ended = asyncio.Event()

    async def check(self, _messages: AsyncIterator[bytes], _context: Context) -> bytes:
        """Return the state: NOT_SERVING from SIGTERM on, while calls are still accepted."""
        return await self._state()

    async def watch(self, _messages: AsyncIterator[bytes], context: Context) -> None:
        """Write the state, and again after each change, until `end_watches`. More than MAX_WATCHES watches get
        UNIMPLEMENTED: according to the protocol clients then assume that the server is healthy, and do not retry.
        """
        if self._watches >= MAX_WATCHES:
            await context.abort(
                grpc.StatusCode.UNIMPLEMENTED, f"There are already {MAX_WATCHES} health watches, which is the maximum."
            )
        self._watches += 1
        try:
            await self._write_changes(context)
        finally:
            self._watches -= 1

    def end_watches(self) -> None:
        """End all watches: otherwise a server that stops would wait for them."""
        self._ended.set()

    async def _write_changes(self, context: Context) -> None:
        written: bytes | None = None
        while True:
            ending = self._ended.is_set()
            state = await self._state()
            if state != written:
                await context.write(state)
                written = state
            if ending:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(REUSE_S):
                    await self._ended.wait()

    async def _state(self) -> bytes:
        reason = self._health.not_ready_reason(await self._health.probes())
        return SERVING if reason is None else NOT_SERVING


# Socket buffers in the kernel, for each connection: twice as much as a client may send before the core has read it.
# Responses are short.
BUFFER_BYTES: Final = 128 * 2**10

Writer = Callable[[AsyncIterator[bytes], Context], Awaitable[None]]


class GrpcServer:
    """Serves exports and health on one address. Reflection is not offered."""

    def __init__(
        self,
        exports: ExportService,
        health: HealthService,
        options: Options,
        connections: Connections,
        core: CoreSocket,
        telemetry: Telemetry,
        *,
        drain_timeout_s: float,
    ) -> None:
        """`drain_timeout_s`: how long calls in flight may take to finish after the server stops accepting."""
        self._exports, self._health = exports, health
        self._methods = _Methods({**exports.handlers(), CHECK: health.check}, {WATCH: health.watch})
        self._options = options
        self._connections, self._core = connections, core
        self._telemetry = telemetry
        self._drain_timeout_s = drain_timeout_s
        self._server: aio.Server | None = None
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen. The port is bound already, by a socket that does not listen (`sluice.grpc_port`). Raises
        StartupError.
        """
        self._server = aio.server(options=self._options)
        self._server.add_generic_rpc_handlers((self._methods,))
        try:
            self._server.add_insecure_port(self._core.address)
            await self._server.start()
        finally:
            self._core.remove_path()
        self._listener = _bind(host, port)
        self._acceptor = Acceptor(self._listener, lambda: ClientConnection(self._connections), self._telemetry)
        try:
            self._acceptor.start()
        except OSError as error:
            raise StartupError(f"Cannot listen on port {port} of {host}: {error.strerror}.") from error

    def stop_accepting(self) -> None:
        """Begin to drain: refuse connections and calls, and let those in flight finish. Clients connect to another
        process."""
        if self._server is not None and self._stopping is None:
            self._health.end_watches()
            self._stopping = asyncio.get_running_loop().create_task(self._stop(self._server))

    async def close(self) -> None:
        """Returns when every call is answered and every accepted request is counted."""
        self.stop_accepting()
        if self._stopping is not None:
            await self._stopping
        await self._connections.close()
        self._core.close()
        await self._exports.finish()

    async def _stop(self, server: aio.Server) -> None:
        if self._acceptor is not None:
            await self._acceptor.close()
        if self._listener is not None:
            self._listener.close()
        await server.stop(self._drain_timeout_s)


def _bind(host: str, port: int) -> socket.socket:
    """The socket that clients connect to. If it listens on all addresses and the machine has IPv6, it is an IPv6 socket
    that accepts IPv4 as well. Workers share the port. Raises StartupError.
    """
    try:
        listener = bind("::" if host == "0.0.0.0" else host, port, reuse_port=True, option="--grpc-port")  # noqa: S104
    except StartupError:
        if host != "0.0.0.0":  # noqa: S104 (the operator's choice)
            raise
        listener = bind(host, port, reuse_port=True, option="--grpc-port")
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # accepted connections inherit these sizes
        listener.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    return listener


class _Methods(grpc.GenericRpcHandler):
    """Finds the handler of a path. Messages are bytes. Every method receives a stream (`gateway.grpc` explains why)."""

    def __init__(self, handlers: Mapping[str, Handler], writers: Mapping[str, Writer]) -> None:
        """`writers` respond with any number of messages."""
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            path: grpc.stream_unary_rpc_method_handler(handler) for path, handler in handlers.items()
        }
        for path, writer in writers.items():
            self._handlers[path] = grpc.stream_stream_rpc_method_handler(writer)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """None for other paths: UNIMPLEMENTED."""
        return self._handlers.get(handler_call_details.method)


log = structlog.get_logger(__name__)


def serve_grpc(
    port: int, chassis: ChassisSettings, settings: GatewaySettings, telemetry: Telemetry, parts: ExportParts
) -> Callable[[web.Application], AsyncIterator[None]]:
    """The cleanup context that serves on `port`. It must be closed before the components that store exports."""
    metrics = GrpcMetrics(telemetry.registry)

    async def run(app: web.Application) -> AsyncIterator[None]:
        receiver = MessageReceiver(settings.max_wire_bytes, chassis.body_timeout_s)
        exports = ExportService(parts, app[RATE_LIMITS], telemetry, receiver, metrics)
        quarter = fd_limits.connection_budget() // 4  # of the descriptors; HTTP has the rest
        max_connections = min(chassis.max_connections, max(1, quarter // DESCRIPTORS_PER_CONNECTION))
        core = CoreSocket()
        server = GrpcServer(
            exports,
            HealthService(app[HEALTH]),
            server_options(chassis, settings),
            Connections(chassis, metrics, core, max_connections=max_connections),
            core,
            telemetry,
            drain_timeout_s=chassis.drain_timeout_s,
        )
        await server.start(chassis.host, port)
        app[OTHER_SERVERS].descriptors += max_connections * DESCRIPTORS_PER_CONNECTION
        app[OTHER_SERVERS].stop_accepting.append(server.stop_accepting)
        log.info("OTLP/gRPC listens", address=chassis.grpc_address)
        yield
        await server.close()

    return run
