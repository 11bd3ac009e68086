"""Outcomes of every request and item: rows of `ingest_outcomes`, and counters without project labels.

Each item of an answered request is accepted, or rejected for one reason; its counts are a block of its batch. A refused
request (any error response) is counted as one, by its reason. Refused requests, and requests without an accepted item,
have no batch: `OutcomeCounters` sums them up, and `OutcomeFlusher` drains one block of them periodically.
"""

from typing import Final

from aiohttp import web
from prometheus_client import Counter

from gateway.metrics import SIGNALS, Metrics
from proto.otlp.native import write_block
from proto.otlp.policy import Block, DecodedPayload, Signal
from proto.storage.tables import INGEST_OUTCOMES

MILLIS_PER_DAY: Final = 86_400_000
MAX_OUTCOME_KEYS: Final = 20_000  # of projects, signals and reasons; then counts go to project 0
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
    """Counts every request once, and keeps the sums of those that belong to no batch until they are drained."""

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
        """Count a request whose response is 200, once its promise holds. A request without an accepted item is in no
        batch and is added to the pending sums.
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
        """Count one or several `requests` that are answered with an error. `items`: those that were decoded; only the
        metrics have them, not the table.
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
