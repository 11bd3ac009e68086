"""What all gRPC connections of a process share: their limits, settings, metrics, and the way to the core."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Final

from chassis.http.connections.registry import ConnectionRegistry, TrackedConnection
from chassis.limits.client_request import TrustedProxies
from chassis.runtime.settings import ChassisSettings
from gateway.grpc.core_socket import CoreSocket
from gateway.grpc.metrics import GrpcMetrics

CONNECT_TRIES: Final = 100  # of a connection to the core, which accepts in a thread of its own
CONNECT_RETRY_S: Final = 0.02
CLOSE_ROUNDS: Final = 100  # at the end, until every connection is closed
CLOSE_POLL_S: Final = 0.01
DESCRIPTORS_PER_CONNECTION: Final = 3  # the socket of the client, and both ends of the one to the core


class Connections:
    """The limits are those of HTTP, counted for gRPC alone."""

    def __init__(
        self, settings: ChassisSettings, metrics: GrpcMetrics, core: CoreSocket, *, max_connections: int
    ) -> None:
        self.settings = settings
        self._metrics = metrics
        self._core = core
        self._connecting: set[asyncio.Task[None]] = set()
        self._registry = ConnectionRegistry(
            max_connections, settings.max_connections_per_address, TrustedProxies(settings.trusted_proxies)
        )
        metrics.connections.set_function(lambda: len(self._registry))

    def add(self, connection: TrackedConnection, peer: str) -> bool:
        """Whether there is room for another."""
        return self._registry.add(connection, peer)

    def remove(self, connection: TrackedConnection) -> None:
        """The connection has ended."""
        self._registry.remove(connection)

    def mark(self, connection: TrackedConnection, *, is_busy: bool) -> None:
        """Whether the connection may be closed in favour of a new one."""
        if is_busy:
            self._registry.mark_busy(connection)
        else:
            self._registry.mark_idle(connection)

    def count_closed(self, reason: str) -> None:
        """Count a connection that is closed for what its client does, or for want of room."""
        self._metrics.connections_closed.labels(reason).inc()

    def start(self, connecting: Coroutine[None, None, None]) -> None:
        """Run what connects to the core; `close` waits for it."""
        task = asyncio.get_running_loop().create_task(connecting)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def connect(self, peer: str) -> socket.socket:
        """A connection to the core. Raises OSError."""
        for _ in range(CONNECT_TRIES):
            try:
                return self._core.connect(peer)
            except BlockingIOError:
                await asyncio.sleep(CONNECT_RETRY_S)
        raise TimeoutError("the core does not accept")

    async def close(self) -> None:
        """Close what is left once the core has stopped."""
        await asyncio.gather(*self._connecting)
        for connection in self._registry.connections():
            connection.evict()
        for _ in range(CLOSE_ROUNDS):
            if not len(self._registry):
                return
            await asyncio.sleep(CLOSE_POLL_S)
