"""The metrics of the gateway, the accounting of acknowledged items, and the outcomes of every request and item.

Outcomes are rows of `ingest_outcomes`, and counters without project labels. Each item of an answered request is
accepted, or rejected for one reason; its counts are a block of its batch. A refused request (any error response) is
counted as one, by its reason. Refused requests, and requests without an accepted item, have no batch: `OutcomeCounters`
sums them up, and `OutcomeFlusher` drains one block of them periodically.
"""

from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from proto.otlp.native import write_block
from proto.otlp.policy import Block, DecodedPayload, Signal
from proto.storage.tables import INGEST_OUTCOMES, TABLES

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
            "Bytes of request bodies as received; of a refused request, the bytes received before the refusal.",
            "signal",
            "outcome",
        )
        self.exceptions_over_limit = counter(
            "exceptions_over_limit",
            "Error occurrences that were not extracted because their request exceeds the limit.",
        )
        self.fingerprint_failures = counter(
            "fingerprint_failures",
            "Error occurrences that are grouped only by type and message, because computing the fingerprint failed. An "
            "increase is a bug.",
        )
        self.batches = counter("batches", "Batches, by outcome.", "outcome")
        self.slow_items = counter(
            "slow_items",
            "Items of requests that took the slow lane, the queue for old data and very many distinct keys.",
        )
        self.late_items = counter("late_items", "Items that were stored although their request had been answered 503.")
        self.insert_failures = counter("insert_failures", "Failed inserts, by table and error.", "table", "error")
        self.stored_items = counter("stored_items", "Accepted items stored in ClickHouse, by signal.", "signal")
        self.recovered_items = counter(
            "recovered_items", "Items that an earlier process accepted but did not store, by signal.", "signal"
        )
        self.quarantined_items = counter(
            "quarantined_items",
            "Accepted items that were quarantined because ClickHouse refused them, by signal.",
            "signal",
        )
        self.lost_items = counter(
            "lost_items", "Accepted items that were lost, by signal and reason.", "signal", "reason"
        )
        self.unanswered_items = gauge("unanswered_items", "Decoded items of requests without a response yet.")
        self.redecoded_differences = counter(
            "redecoded_differences",
            "Items that a request had more, or fewer, when it was decoded again than when it was accepted.",
        )
        self.overlooked_requests = counter(
            "overlooked_requests",
            "Requests that were in the journal but not queued. They are read again. An increase is a bug.",
        )
        self.pending_items = gauge("pending_items", "Items that were accepted or recovered, and are not stored yet.")
        self.recovery_batches = gauge(
            "recovery_batches", "Batches that an earlier process began, and that are not completed yet."
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
        self.lost_rows = counter(
            "lost_rows", "Rows that were dropped although their batch was acknowledged, by table.", "table"
        )
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
            "Active parts of the day that has the most parts, by table.",
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
        """Compare the items of a request decoded again: another release may find more or fewer items than were
        acknowledged."""
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


MILLIS_PER_DAY: Final = 86_400_000
MAX_OUTCOME_KEYS: Final = 20_000  # combinations of project, signal and reason; further counts go to project 0
NO_PROJECT: Final = 0


class OutcomeSums:
    """Counts summed over requests by project, signal, outcome and reason."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str, str, str], list[int]] = {}
        self._modified: dict[tuple[int, str], dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, key: tuple[int, str, str, str], items: int, requests: int, wire_bytes: int) -> None:
        """Add to the row of `key`: project, signal, outcome, reason."""
        row = self._sums.setdefault(key, [0, 0, 0])
        row[0] += items
        row[1] += requests
        row[2] += wire_bytes

    def add_answered(self, decoded: DecodedPayload, wire_bytes: int) -> None:
        """Add an answered request: its `accepted` row has the request and its bytes, `rejected` rows only items."""
        project, signal = decoded.project_id, decoded.signal
        self.add((project, signal, "accepted", ""), decoded.accepted, 1, wire_bytes)
        for reason, items in decoded.rejected.items():
            self.add((project, signal, "rejected", reason), items, 0, 0)
        if decoded.modified:
            modified = self._modified.setdefault((project, signal), {})
            for kind, items in decoded.modified.items():
                modified[kind] = modified.get(kind, 0) + items

    def block(self, batch_id: int, now_ms: int) -> Block:
        """The block of `ingest_outcomes` for a batch, with numbered rows, sorted by key; all have the time `now_ms`."""
        rows = []
        for number, (key, counts) in enumerate(sorted(self._sums.items())):
            project_id, signal, outcome, reason = key
            modified = self._modified.get((project_id, signal), {}) if outcome == "accepted" else {}
            rows.append((project_id, now_ms, signal, outcome, reason, *counts, modified, batch_id, number))
        return Block(INGEST_OUTCOMES.name, now_ms // MILLIS_PER_DAY, len(rows), write_block(INGEST_OUTCOMES, rows))


class OutcomeCounters:
    """Counts every request once, and keeps the sums of requests without a batch until they are drained."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pending = OutcomeSums()
        self._unanswered = 0
        metrics.unanswered_items.set_function(lambda: self._unanswered)
        # The metrics of every answered request, with their labels resolved once.
        self._answered: dict[Signal, tuple[Counter, Counter, Counter]] = {
            signal: (
                metrics.requests.labels(signal, "answered", ""),
                metrics.wire_bytes.labels(signal, "answered"),
                metrics.items.labels(signal, "accepted", ""),
            )
            for signal in SIGNALS
        }
        self._received = {signal: metrics.received.labels(signal) for signal in SIGNALS}
        self._ack_seconds = {signal: metrics.ack_seconds.labels(signal) for signal in SIGNALS}

    def received(self, decoded: DecodedPayload) -> None:
        """Count a decoded request; the outcomes of its items are counted when it is answered."""
        items = _items(decoded)
        self._unanswered += items
        self._received[decoded.signal].inc(items)
        if decoded.exceptions_over_limit:
            self._metrics.exceptions_over_limit.inc(decoded.exceptions_over_limit)

    def answered(self, decoded: DecodedPayload, wire_bytes: int) -> None:
        """Count a request when its response is 200. A request without an accepted item is in no batch and is added to
        the pending sums.
        """
        metrics, signal = self._metrics, decoded.signal
        requests, sent, accepted = self._answered[signal]
        self._unanswered -= _items(decoded)
        requests.inc()
        sent.inc(wire_bytes)
        accepted.inc(decoded.accepted)
        for reason, items in decoded.rejected.items():
            metrics.items.labels(signal, "rejected", reason).inc(items)
        for kind, items in decoded.modified.items():
            metrics.modified.labels(signal, kind).inc(items)
        for warning in decoded.warnings:
            metrics.request_warnings.labels(signal, warning).inc()
        if not decoded.accepted:
            self._pending.add_answered(decoded, wire_bytes)

    def observe_latency(self, signal: Signal, seconds: float) -> None:
        """Record the time from the head of a request to its 200."""
        self._ack_seconds[signal].observe(seconds)

    def refused(
        self, signal: Signal, reason: str, project_id: int, wire_bytes: int, items: int, *, requests: int = 1
    ) -> None:
        """Count one or several `requests` that are answered with an error. `items`: number of decoded items, which only
        the metrics count, not the table.
        """
        metrics = self._metrics
        metrics.requests.labels(signal, "refused", reason).inc(requests)
        metrics.wire_bytes.labels(signal, "refused").inc(wire_bytes)
        if items:
            self._unanswered -= items
            metrics.items.labels(signal, "refused", reason).inc(items)
        project = project_id if len(self._pending) < MAX_OUTCOME_KEYS else NO_PROJECT
        self._pending.add((project, signal, "refused", reason), 0, requests, wire_bytes)

    def drain(self, batch_id: int, now_ms: int) -> Block | None:
        """Take the pending sums as a block; None when there are none."""
        if not len(self._pending):
            return None
        sums, self._pending = self._pending, OutcomeSums()
        return sums.block(batch_id, now_ms)


def _items(decoded: DecodedPayload) -> int:
    return decoded.accepted + sum(decoded.rejected.values())


WIRE_BYTES: Final = web.RequestKey("wire_bytes", int)  # of the body, once it is read
ITEMS: Final = web.RequestKey("items", int)  # spans or log records in it, once it is decoded
