"""Conservation behind the answer: accepted + recovered = stored + pending + quarantined + lost, at every moment."""

from gateway.outcomes import SIGNALS, Metrics
from proto.otlp.policy import Signal


class ItemAccounting:
    """Counts items from their acceptance to their end; what is in between is pending."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pending = 0
        metrics.pending_items.set_function(lambda: self._pending)
        self._stored = {signal: metrics.stored_items.labels(signal) for signal in SIGNALS}

    @property
    def pending(self) -> int:
        """Items that were accepted or recovered, and have not ended yet."""
        return self._pending

    def accepted(self, items: int) -> None:
        """A request is in the journal, and about to be answered 200."""
        self._pending += items

    def recovered(self, signal: Signal, items: int) -> None:
        """A request that an earlier process had accepted and not stored was found."""
        self._metrics.recovered_items.labels(signal).inc(items)
        self._pending += items

    def redecoded(self, acknowledged: int, decoded: int) -> None:
        """A request was decoded again: by another release it may be more or fewer items than were acknowledged."""
        if acknowledged != decoded:
            self._metrics.redecoded_differences.inc(abs(acknowledged - decoded))

    def stored(self, signal: Signal, items: int) -> None:
        """Its items are rows in ClickHouse."""
        self._stored[signal].inc(items)
        self._pending -= items

    def quarantined(self, signal: Signal, items: int) -> None:
        """It was set aside."""
        self._metrics.quarantined_items.labels(signal).inc(items)
        self._pending -= items

    def lost(self, signal: Signal, items: int, reason: str) -> None:
        """It was given up."""
        self._metrics.lost_items.labels(signal, reason).inc(items)
        self._pending -= items
