"""The gRPC server: starts with the gateway, and drains with HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import grpc
from grpc import aio

from gateway.grpc.health import CHECK, WATCH, HealthService
from gateway.grpc.options import Options
from gateway.grpc.service import ExportService, Handler
from gateway.grpc.status import Context

Writer = Callable[[AsyncIterator[bytes], Context], Awaitable[None]]


class GrpcServer:
    """Serves exports and health on one address. Reflection is not offered."""

    def __init__(
        self, exports: ExportService, health: HealthService, options: Options, *, drain_timeout_s: float
    ) -> None:
        """`drain_timeout_s`: how long calls in flight may take to finish once it stops accepting."""
        self._exports, self._health = exports, health
        self._methods = _Methods({**exports.handlers(), CHECK: health.check}, {WATCH: health.watch})
        self._options = options
        self._drain_timeout_s = drain_timeout_s
        self._server: aio.Server | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen. The port is bound already, by a socket that does not listen (`chassis.http.serve.bind`)."""
        self._server = aio.server(options=self._options)
        self._server.add_generic_rpc_handlers((self._methods,))
        self._server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        await self._server.start()

    def stop_accepting(self) -> None:
        """Begin to drain: refuse connections and calls, and let those in flight finish. Clients connect elsewhere."""
        if self._server is not None and self._stopping is None:
            self._health.end_watches()
            self._stopping = asyncio.get_running_loop().create_task(self._server.stop(self._drain_timeout_s))

    async def close(self) -> None:
        """Returns when every call is answered and every accepted request is counted."""
        self.stop_accepting()
        if self._stopping is not None:
            await self._stopping
        await self._exports.finish()


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
