"""The gRPC server: starts with the gateway, and drains with HTTP.

Clients connect to a socket of ours, which passes on what it has checked (`gateway.grpc.connection`) to the core.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import grpc
from grpc import aio

from chassis.errors import StartupError
from chassis.http.connections.acceptor import Acceptor
from chassis.http.serve import bind
from chassis.runtime.telemetry import Telemetry
from gateway.grpc.connection import ClientConnection
from gateway.grpc.connections import Connections
from gateway.grpc.core_socket import CoreSocket
from gateway.grpc.health import CHECK, WATCH, HealthService
from gateway.grpc.options import Options
from gateway.grpc.service import ExportService, Handler
from gateway.grpc.status import Context

# In the kernel, for each connection: twice what a client may send before the core has read it. Responses are short.
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
        """`drain_timeout_s`: how long calls in flight may take to finish once it stops accepting."""
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
        """Begin to drain: refuse connections and calls, and let those in flight finish. Clients connect elsewhere."""
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
    """The socket that clients connect to. Of all addresses, it is one for IPv6 that takes IPv4 as well, where there is
    IPv6. Workers share the port. Raises StartupError.
    """
    try:
        listener = bind("::" if host == "0.0.0.0" else host, port, reuse_port=True, option="--grpc-port")  # noqa: S104
    except StartupError:
        if host != "0.0.0.0":  # noqa: S104 (the operator's choice)
            raise
        listener = bind(host, port, reuse_port=True, option="--grpc-port")
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # of accepted connections
        listener.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    return listener


class _Methods(grpc.GenericRpcHandler):
    """Finds the handler of a path. Messages are bytes; each method may receive a stream, see `gateway.grpc`."""

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
