"""State that all gRPC connections of a process share: options and limits, metrics, and the socket to gRPC's core.

Connections reach the core over a Unix socket that only this process can use (`CoreSocket`). It has a path only while
the core binds it. Afterwards its directory is removed, and `CoreSocket.connect` uses a descriptor. So no other process
can bypass the checks here, and a process that is killed leaves no files. The core names a peer by the name that the
peer's socket is bound to, so this name contains the address of the client.
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
    """Metrics of calls (by method and code) and of connections."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "sluice_grpc_calls",
            "Exports of traces, logs and (refused) metrics, by method and gRPC code.",
            ("method", "code"),
            registry=registry,
        )
        self.in_flight = Gauge("sluice_grpc_calls_in_flight", "Exports in progress.", registry=registry)
        self.connections = Gauge("sluice_grpc_connections", "Open connections of OTLP/gRPC.", registry=registry)
        self.connections_closed = Counter(
            "sluice_grpc_connections_closed",
            "Connections that the server closed, by reason. There were too many connections, and the new connection "
            "(limit) or an idle connection (idle) was closed. Frames were invalid or too many (preface, frame_size, "
            "frame_type, frame_order, header_block, streams, frame_rate). The client sent too slowly (slow) or did not "
            "read (unread). gRPC's core did not accept the connection (core).",
            ("reason",),
            registry=registry,
        )


SEND_BUFFER_BYTES: Final = 64 * 2**10  # in the kernel, for each connection; the core reads at once
_PREFIX: Final = "sluice-grpc/"
_NAME: Final = "core"


class CoreSocket:
    """The listening socket of the core. Needs Linux, for abstract socket names and paths of descriptors."""

    def __init__(self) -> None:
        """Raises StartupError where no directory is writable."""
        try:
            self._directory = tempfile.mkdtemp(prefix="sluice-grpc-")  # mode 0700
        except OSError as error:
            raise StartupError(
                f"OTLP/gRPC needs a writable temporary directory (TMPDIR or /tmp) while it starts: {error.strerror}."
            ) from error
        # The path uses the descriptor of the directory, because the path of a socket is limited to 107 bytes.
        self._descriptor = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        self._path = f"/proc/self/fd/{self._descriptor}/{_NAME}"

    @property
    def address(self) -> str:
        """The address on which the core listens."""
        return f"unix:{self._path}"

    def remove_path(self) -> None:
        """Remove the path of the socket. Call it when the core has bound the socket, or failed to."""
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
        """A connection to the core for a client of this address. Raises BlockingIOError while clients connect faster
        than the core accepts, and OSError when the core has stopped.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            # A random name, which no other process can have taken.
            connection.bind(f"\0{_PREFIX}{secrets.token_hex(8)}/{client}")
            connection.connect(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the socket: no more connections."""
        self.remove_path()
        os.close(self._descriptor)


@lru_cache(1_024)
def peer_address(peer: str) -> str:
    """The client's address, from the core's name of a peer; empty if the name was not given by `CoreSocket.connect`."""
    kind, _, name = unquote(peer).partition(":")
    return name.removeprefix(_PREFIX).partition("/")[2] if kind == "unix-abstract" and name.startswith(_PREFIX) else ""


CONNECT_TRIES: Final = 100  # to connect to the core, which accepts in a thread of its own
CONNECT_RETRY_S: Final = 0.02
CLOSE_ROUNDS: Final = 100  # at shutdown: the most iterations of the event loop until every connection is closed
CLOSE_POLL_S: Final = 0.01
DESCRIPTORS_PER_CONNECTION: Final = 3  # the client's socket, and both ends of the connection to the core


class Connections:
    """The open connections. The limits have the same values as for HTTP, but gRPC connections are counted
    separately."""

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
        """Count a connection that the server closes."""
        self._metrics.connections_closed.labels(reason).inc()

    def start(self, connecting: Coroutine[None, None, None]) -> None:
        """Run `connecting` as a task, which `close` waits for."""
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
        raise TimeoutError("gRPC's core does not accept the connection")

    async def close(self) -> None:
        """Close the remaining connections after the core has stopped."""
        await asyncio.gather(*self._connecting)
        for connection in self.registry.connections():
            connection.evict()
        for _ in range(CLOSE_ROUNDS):
            if not len(self.registry):
                return
            await asyncio.sleep(CLOSE_POLL_S)


MAX_STREAMS: Final = 100  # concurrent calls of a connection; RFC 9113 (6.5.2) recommends at least 100
MAX_METADATA_BYTES: Final = 16 * 2**10  # of a call
# Bytes of a message that are received before the handler reads it: the most that a call without a valid key can make
# the process hold. A compressed request of 512 items fits, so it arrives without a round trip. The core's default grows
# to megabytes.
WINDOW_BYTES: Final = 32 * 2**10
READ_BYTES: Final = 16 * 2**10  # largest read of a connection; the core's default grows to 4 MiB
MAX_PENDING_CALLS: Final = 4_096  # while the event loop is busy; the core cancels more
KEEPALIVE_S: Final = 60  # between pings of the server, which find dead peers
KEEPALIVE_TIMEOUT_S: Final = 20
MIN_PING_S: Final = 10  # between pings of a client; gRPC recommends clients not to ping more often
MAX_PING_STRIKES: Final = 2  # pings that may come sooner; after one more the connection is closed
_IDENTITY_AND_GZIP: Final = 1 << 0 | 1 << 2  # bits by grpc_compression_algorithm

Options = list[tuple[str, int]]


def server_options(chassis: ChassisSettings, settings: GatewaySettings) -> Options:
    """The arguments of the server's channels (grpc/impl/channel_arg_names.h). `gateway.grpc.connections` limits
    connections, because the core would still count a connection that was just closed to make room.
    """
    return [
        # Messages arrive here still compressed, because this package limits decompression and the core does not.
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
        ("grpc.keepalive_permit_without_calls", 1),  # without it, a client that pings between exports is disconnected
        ("grpc.http2.min_ping_interval_without_data_ms", _milliseconds(MIN_PING_S)),
        ("grpc.http2.max_ping_strikes", MAX_PING_STRIKES),
    ]


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1_000)
