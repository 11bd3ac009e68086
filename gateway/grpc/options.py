"""Options of the gRPC server: what bounds a connection before any of our code runs."""

from typing import Final

from chassis.runtime.settings import ChassisSettings
from gateway.settings import GatewaySettings

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
