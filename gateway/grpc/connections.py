"""What all gRPC connections of a process share: options and limits, metrics, and the way to the core.

The socket between our connections and the core is a Unix socket that nothing but this process can reach (`CoreSocket`).
It has a path only while the core binds it. Afterwards its directory is removed, and we connect by a descriptor. So no
other process can go around what is checked here, and a process that is killed leaves nothing behind. The core calls a
peer by the name that its end of the socket is bound to. Ours has the address of the client in it.
"""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Coroutine
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.errors import StartupError
from chassis.http.connections.registry import ConnectionRegistry
from chassis.limits.rate_limits import TrustedProxies
from chassis.runtime.settings import ChassisSettings
from gateway.settings import GatewaySettings


class GrpcMetrics:
    """Calls, by method and code; connections."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "sluice_grpc_calls",
            "Exports and calls for metrics, by method and gRPC code.",
            ("method", "code"),
            registry=registry,
        )
        self.in_flight = Gauge(
            "sluice_grpc_calls_in_flight", "Exports that were begun and not ended.", registry=registry
        )
        self.connections = Gauge("sluice_grpc_connections", "Open connections of OTLP/gRPC.", registry=registry)
        self.connections_closed = Counter(
            "sluice_grpc_connections_closed",
            "Connections closed at a limit (limit: no room; idle: to make room), for what their clients sent (preface, "
            "frame_size, frame_type, frame_order, header_block, streams, frame_rate), for sending too slowly (slow) or "
            "not reading (unread), or because gRPC did not accept them (core).",
            ("reason",),
            registry=registry,
        )


SEND_BUFFER_BYTES: Final = 64 * 2**10  # in the kernel, for each connection; the core reads at once
_PREFIX: Final = "sluice-grpc/"
_NAME: Final = "core"


class CoreSocket:
    """The listening socket of the core. Linux: names are abstract, and descriptors have paths."""

    def __init__(self) -> None:
        """Raises StartupError where no directory is writable."""
        try:
            self._directory = tempfile.mkdtemp(prefix="sluice-grpc-")  # mode 0700
        except OSError as error:
            raise StartupError(
                f"OTLP/gRPC needs a writable directory for a moment at the start (TMPDIR, or /tmp): {error.strerror}."
            ) from error
        # By way of the descriptor the path is short: that of a socket has 107 bytes at most.
        self._descriptor = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        self._path = f"/proc/self/fd/{self._descriptor}/{_NAME}"

    @property
    def address(self) -> str:
        """What the core listens on."""
        return f"unix:{self._path}"

    def remove_path(self) -> None:
        """Call once the core is bound, or could not be."""
        if not self._directory:
            return
        directory, self._directory = self._directory, ""
        descriptor = self._descriptor
        try:
            self._descriptor = os.open(self._path, os.O_PATH)
            Path(self._path).unlink()
        finally:
            os.close(descriptor)
            Path(directory).rmdir()

    def connect(self, client: str) -> socket.socket:
        """A connection to the core for a client of this address. Raises BlockingIOError while the core accepts more
        slowly than clients come, OSError when it has stopped.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            connection.bind(f"\0{_PREFIX}{secrets.token_hex(8)}/{client}")  # which nobody can have taken before
            connection.connect(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Nothing can connect any more."""
        self.remove_path()
        os.close(self._descriptor)


@lru_cache(1_024)
def peer_address(peer: str) -> str:
    """The address of the client in what the core calls the peer; empty for what is no connection of ours."""
    kind, _, name = unquote(peer).partition(":")
    return name.removeprefix(_PREFIX).partition("/")[2] if kind == "unix-abstract" and name.startswith(_PREFIX) else ""


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
        self.registry = ConnectionRegistry(
            max_connections, settings.max_connections_per_address, TrustedProxies(settings.trusted_proxies)
        )
        metrics.connections.set_function(lambda: len(self.registry))

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
        for connection in self.registry.connections():
            connection.evict()
        for _ in range(CLOSE_ROUNDS):
            if not len(self.registry):
                return
            await asyncio.sleep(CLOSE_POLL_S)


MAX_STREAMS: Final = 100  # concurrent calls of a connection, which RFC 9113 (6.5.2) recommends as the smallest
MAX_METADATA_BYTES: Final = 16 * 2**10  # of a call
# Of a message, before the handler reads it: what a call without a valid key can make the process hold, at most. A
# compressed request of 512 items fits, and arrives without a round trip; the core's default grows to megabytes.
WINDOW_BYTES: Final = 32 * 2**10
READ_BYTES: Final = 16 * 2**10  # of one read of a connection; the core's default grows to 4 MiB
MAX_PENDING_CALLS: Final = 4_096  # while the event loop is busy; the core cancels more
KEEPALIVE_S: Final = 60  # between pings of the server, which find dead peers
KEEPALIVE_TIMEOUT_S: Final = 20
MIN_PING_S: Final = 10  # between pings of a client; gRPC recommends clients not to ping more often
MAX_PING_STRIKES: Final = 2  # pings sooner than that; then the connection is closed
_IDENTITY_AND_GZIP: Final = 1 << 0 | 1 << 2  # bits by grpc_compression_algorithm

Options = list[tuple[str, int]]


def server_options(chassis: ChassisSettings, settings: GatewaySettings) -> Options:
    """The arguments of the server's channels (grpc/impl/channel_arg_names.h). Connections are counted by
    `gateway.grpc.connections`: the core would still count one that has just made room for another.
    """
    return [
        # Messages are passed on as they come: decompressing is bounded here, and the core does not bound it.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        ("grpc.max_receive_message_length", settings.max_wire_bytes),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_CALLS),
        ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),  # it would enlarge the window
        ("grpc.experimental.tcp_read_chunk_size", READ_BYTES),
        ("grpc.experimental.tcp_max_read_chunk_size", READ_BYTES),
        ("grpc.server_handshake_timeout_ms", _milliseconds(chassis.header_timeout_s)),
        ("grpc.http2.settings_timeout", _milliseconds(chassis.header_timeout_s)),
        ("grpc.max_connection_idle_ms", _milliseconds(chassis.keepalive_timeout_s)),
        ("grpc.keepalive_time_ms", _milliseconds(KEEPALIVE_S)),
        ("grpc.keepalive_timeout_ms", _milliseconds(KEEPALIVE_TIMEOUT_S)),
        ("grpc.keepalive_permit_without_calls", 1),  # else a client that pings between its exports is cut off
        ("grpc.http2.min_ping_interval_without_data_ms", _milliseconds(MIN_PING_S)),
        ("grpc.http2.max_ping_strikes", MAX_PING_STRIKES),
    ]


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1_000)
