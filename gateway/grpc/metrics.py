"""Metrics of the gRPC server. Requests and items are counted with those over HTTP (`gateway.metrics`)."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class GrpcMetrics:
    """Calls, by method and code."""

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
