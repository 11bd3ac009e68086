"""Metrics of the gRPC server. Requests and items are counted with those over HTTP (`gateway.metrics`)."""

from prometheus_client import CollectorRegistry, Counter, Gauge


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
