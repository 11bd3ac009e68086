"""The metrics of the gateway, and the accounting of acknowledged items."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from proto.otlp.policy import Signal
from proto.storage.tables import TABLES

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "logs")
DAMAGED: Final = "damaged"  # in the journal
REFUSED: Final = "refused"  # by ClickHouse, in a mode without a quarantine

_ROW_BUCKETS: Final = (100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
_SECOND_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ACK_SECOND_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """The gateway's counters. At every moment, these hold for items:

    received = accepted + rejected + refused + unanswered
    accepted + recovered = stored + pending + quarantined + lost
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"sluice_gateway_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"sluice_gateway_{name}", text, registry=registry)

        self.requests = counter(
            "requests", "Export requests, by signal, outcome and reason.", "signal", "outcome", "reason"
        )
        self.received = counter("received_items", "Decoded items, by signal.", "signal")
        self.items = counter("items", "Items, by signal, outcome and reason.", "signal", "outcome", "reason")
        self.modified = counter(
            "modified_items", "Accepted items that were modified, by signal and kind of modification.", "signal", "kind"
        )
        self.request_warnings = counter(
            "request_warnings", "Export requests whose response has a warning, by signal and kind.", "signal", "kind"
        )
        self.wire_bytes = counter(
            "wire_bytes",
            "Bytes of request bodies as received; of a refused request, those received before the refusal.",
            "signal",
            "outcome",
        )
        self.exceptions_over_limit = counter(
            "exceptions_over_limit", "Error occurrences not extracted because their request exceeds the limit."
        )
        self.fingerprint_failures = counter(
            "fingerprint_failures",
            "Error occurrences stored by their type and message alone, because computing the fingerprint failed. An "
            "increase is a bug.",
        )
        self.batches = counter("batches", "Batches, by outcome.", "outcome")
        self.slow_items = counter("slow_items", "Items that took the slow lane.")
        self.late_items = counter("late_items", "Items stored after their request was answered 503.")
        self.insert_failures = counter("insert_failures", "Failed inserts, by table and error.", "table", "error")
        self.stored_items = counter("stored_items", "Accepted items stored in ClickHouse, by signal.", "signal")
        self.recovered_items = counter(
            "recovered_items", "Items that an earlier process accepted and did not store, by signal.", "signal"
        )
        self.quarantined_items = counter(
            "quarantined_items",
            "Accepted items that were quarantined because ClickHouse refuses them, by signal.",
            "signal",
        )
        self.lost_items = counter(
            "lost_items", "Accepted items that were lost, by signal and reason.", "signal", "reason"
        )
        self.unanswered_items = gauge("unanswered_items", "Decoded items of requests without a response yet.")
        self.redecoded_differences = counter(
            "redecoded_differences", "Differences in the number of items when a request was decoded again."
        )
        self.overlooked_requests = counter(
            "overlooked_requests",
            "Requests that were in the journal and not queued; they are read again. An increase is a bug.",
        )
        self.pending_items = gauge("pending_items", "Items accepted or recovered, and not stored yet.")
        self.recovery_batches = gauge(
            "recovery_batches", "Batches that an earlier process began and that are not completed yet."
        )
        self.ack_seconds = Histogram(
            "sluice_gateway_ack_seconds",
            "Time from the head of an export request to its 200 response.",
            ("signal",),
            buckets=_ACK_SECOND_BUCKETS,
            registry=registry,
        )
        for signal in SIGNALS:  # from the start, so that the first increase is visible
            for metric in (self.received, self.stored_items, self.recovered_items, self.quarantined_items):
                metric.labels(signal)
            self.lost_items.labels(signal, REFUSED)
        self.lost_rows = counter("lost_rows", "Rows of acknowledged batches that were dropped, by table.", "table")
        for table in TABLES:
            self.lost_rows.labels(table.name)
        self.insert_rows = Histogram(
            "sluice_gateway_insert_rows",
            "Rows of an inserted block.",
            ("table",),
            buckets=_ROW_BUCKETS,
            registry=registry,
        )
        self.insert_seconds = Histogram(
            "sluice_gateway_insert_seconds",
            "Duration of an insert.",
            ("table",),
            buckets=_SECOND_BUCKETS,
            registry=registry,
        )
        self.inflight_bytes = gauge("inflight_bytes", "Memory charged to requests in flight.")
        self.inflight_items = gauge("inflight_items", "Accepted items of requests in flight.")
        self.slot_limit = gauge("places", "Limit on concurrent requests, adapted to their latency.")
        self.slots_in_use = gauge("places_taken", "Requests that count towards the concurrency limit.")
        self.slow_bytes = gauge("slow_bytes", "Memory of requests in the slow lane.")
        self.background_bytes = gauge(
            "background_bytes", "Bytes of blocks of acknowledged batches that wait for a retry."
        )
        self.parts = Gauge(
            "sluice_gateway_parts",
            "Active parts of the day with the most parts, by table.",
            ("table",),
            registry=registry,
        )
        self.store_up = gauge(
            "store_up", "1 while inserts are attempted, 0 from a failed insert until a probe succeeds."
        )
        self.refusing_tables = gauge(
            "refusing_tables", "Tables whose last insert failed, whether or not a probe has succeeded since."
        )


class ItemAccounting:
    """Counts items from their acceptance to their final state; in between they are pending."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._pending = 0
        metrics.pending_items.set_function(lambda: self._pending)
        self._stored = {signal: metrics.stored_items.labels(signal) for signal in SIGNALS}

    @property
    def pending(self) -> int:
        """Items that were accepted or recovered, and are not yet stored, quarantined or lost."""
        return self._pending

    def accepted(self, items: int) -> None:
        """Count a request that is in the journal, and about to be answered 200."""
        self._pending += items

    def recovered(self, signal: Signal, items: int) -> None:
        """Count a request that an earlier process accepted and did not store."""
        self.metrics.recovered_items.labels(signal).inc(items)
        self._pending += items

    def redecoded(self, acknowledged: int, decoded: int) -> None:
        """Compare the items of a request decoded again: another release may find more or fewer than acknowledged."""
        if acknowledged != decoded:
            self.metrics.redecoded_differences.inc(abs(acknowledged - decoded))

    def stored(self, signal: Signal, items: int) -> None:
        """Count items that are rows in ClickHouse."""
        self._stored[signal].inc(items)
        self._pending -= items

    def quarantined(self, signal: Signal, items: int) -> None:
        """Count items of a request that was quarantined."""
        self.metrics.quarantined_items.labels(signal).inc(items)
        self._pending -= items

    def lost(self, signal: Signal, items: int, reason: str) -> None:
        """Count items that were given up, by reason."""
        self.metrics.lost_items.labels(signal, reason).inc(items)
        self._pending -= items
