"""Accounting of acknowledged items: accepted + recovered = stored + pending + quarantined + lost, at every moment."""

from gateway.metrics import SIGNALS, Metrics
from proto.otlp.policy import Signal


class ItemAccounting:
    """Counts items from their acceptance to their final state; in between they are pending."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
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
        self._metrics.recovered_items.labels(signal).inc(items)
        self._pending += items

    def redecoded(self, acknowledged: int, decoded: int) -> None:
        """Compare the items of a request decoded again: another release may find more or fewer than acknowledged."""
        if acknowledged != decoded:
            self._metrics.redecoded_differences.inc(abs(acknowledged - decoded))

    def stored(self, signal: Signal, items: int) -> None:
        """Count items that are rows in ClickHouse."""
        self._stored[signal].inc(items)
        self._pending -= items

    def quarantined(self, signal: Signal, items: int) -> None:
        """Count items of a request that was quarantined."""
        self._metrics.quarantined_items.labels(signal).inc(items)
        self._pending -= items

    def lost(self, signal: Signal, items: int, reason: str) -> None:
        """Count items that were given up, by reason."""
        self._metrics.lost_items.labels(signal, reason).inc(items)
        self._pending -= items
