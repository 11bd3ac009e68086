"""The query service's own metrics; never labelled by project, user or key."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)

# Reasons for refusing a request.
QUEUE_FULL: Final = "queue_full"  # the queue is at its limit
QUEUE_TIMEOUT: Final = "queue_timeout"  # no slot within the time limit
SEND_BUFFER_FULL: Final = "send_buffer_full"  # clients did not read other responses in time
TIMEOUT: Final = "timeout"  # the read exceeded its time limit
TOO_EXPENSIVE: Final = "too_expensive"  # memory or rows; the only reason with status 400
STORE_UNAVAILABLE: Final = "store_unavailable"
REASONS: Final = (QUEUE_FULL, QUEUE_TIMEOUT, SEND_BUFFER_FULL, TIMEOUT, TOO_EXPENSIVE, STORE_UNAVAILABLE)

# Sources of a response.
ENGINE: Final = "engine"
COALESCED: Final = "coalesced"
CACHE: Final = "cache"
SOURCES: Final = (ENGINE, COALESCED, CACHE)


class QueryMetrics:
    """The metrics of one process; without a registry they are not exported."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry
        self._refused = Counter(
            "sluice_query_refused_requests",
            "Refused executions, by reason. Requests that share an execution count once. Reasons: the queue was full "
            "(queue_full), no slot was free in time (queue_timeout), no memory for the response was free in time "
            "(send_buffer_full), reads exceeded the time limit (timeout), a read exceeded the memory or row limit "
            "(too_expensive), ClickHouse was unavailable (store_unavailable).",
            ("reason",),
            registry=registry,
        )
        self._responses = Counter(
            "sluice_query_answers",
            "Responses, by source: computed for the request (engine), shared with an identical concurrent request "
            "(coalesced), or cached (cache).",
            ("source",),
            registry=registry,
        )
        self.queue_seconds = Histogram(
            "sluice_query_queue_seconds",
            "Time a request waited for a slot, including requests that timed out.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.read_seconds = Histogram(
            "sluice_query_clickhouse_read_seconds",
            "Duration of one ClickHouse read.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.slow_clients_closed = Counter(
            "sluice_query_slow_clients_closed",
            "Connections closed because the client read too slowly while other responses waited for send buffer "
            "memory.",
            registry=registry,
        )
        for reason in REASONS:
            self._refused.labels(reason)
        for source in SOURCES:
            self._responses.labels(source)

    def record_refusal(self, reason: str) -> None:
        """Count a refused request; `reason` is one of REASONS."""
        self._refused.labels(reason).inc()

    def record_response(self, source: str) -> None:
        """Count a response; `source` is one of SOURCES."""
        self._responses.labels(source).inc()

    def register_gauge(self, name: str, help_: str, value: Callable[[], float]) -> None:
        """Register `sluice_query_<name>`; `value` is called at every scrape."""
        Gauge(f"sluice_query_{name}", help_, registry=self._registry).set_function(value)
