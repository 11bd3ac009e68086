"""The dependencies of a journal, passed to its parts, and its metrics.

All journals of a process share one `JournalMetrics`. Gauges of bytes are sums over journals, except `room_bytes`, which
is the minimum; `oldest_seconds` is the maximum.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.journal.interface import JournalLimits
from gateway.journal.storage.files import Files

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
FAILURE_KINDS: Final = ("write", "ledger", "remove")
_REQUESTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


class MeasuredJournal(Protocol):
    """The values of a journal that gauges read, without locks and from another thread: they may be stale."""

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of segments that are not stored yet, approximately."""

    @property
    def room_bytes(self) -> float:
        """Bytes that every project may still send, limited by its share, the quota and the disk."""

    @property
    def oldest_seconds(self) -> float:
        """Age in seconds of the oldest request that is not stored yet; 0 if there is none."""


class JournalMetrics:
    """The metrics `sluice_gateway_journal_*`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"sluice_gateway_journal_{name}", text, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"sluice_gateway_journal_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"sluice_gateway_journal_{name}", text, buckets=buckets, registry=registry)

        self._journals: list[MeasuredJournal] = []
        self.bytes = gauge("bytes", "Bytes of the journal on disk.")
        self.bytes.set_function(lambda: sum(journal.nbytes for journal in self._journals))
        self.unfinished_bytes = gauge("unfinished_bytes", "Approximate bytes of requests that are not stored yet.")
        self.unfinished_bytes.set_function(lambda: sum(journal.unfinished_bytes for journal in self._journals))
        self.room_bytes = gauge(
            "room_bytes", "Bytes that every project may still send, limited by its share, the quota and the disk."
        )
        self.room_bytes.set_function(lambda: min((j.room_bytes for j in self._journals), default=math.inf))
        self.oldest_seconds = gauge("oldest_seconds", "Age of the oldest request that is not stored yet, in seconds.")
        self.oldest_seconds.set_function(lambda: max((j.oldest_seconds for j in self._journals), default=0.0))
        self.sync_seconds = histogram("sync_seconds", "Duration of writing and syncing a group of requests.", _SECONDS)
        self.group_requests = histogram(
            "group_requests", "Requests of a group that is written and synced together.", _REQUESTS
        )
        self.failures = counter("failures", "Failed disk operations, by kind.", "kind")
        for kind in FAILURE_KINDS:  # exported from the start, so that rate() sees the first increase
            self.failures.labels(kind)
        self.damaged_frames = counter("damaged_frames", "Damaged or missing requests and records on disk.")
        self.lost_requests = counter("lost_requests", "Acknowledged requests that are damaged or missing on disk.")
        self.uncertain_requests = counter(
            "uncertain_requests",
            "Requests of which the journal cannot tell whether they are lost; the torn end of a journal counts as one.",
        )

    def register(self, journal: MeasuredJournal) -> None:
        """Include a journal in the gauges."""
        self._journals.append(journal)

    def unregister(self, journal: MeasuredJournal) -> None:
        """Remove a journal from the gauges."""
        self._journals.remove(journal)


class JournalContext(NamedTuple):
    """Dependencies of a journal. `clock` returns nanoseconds since 1970, `monotonic` seconds."""

    files: Files
    limits: JournalLimits
    metrics: JournalMetrics
    log: structlog.stdlib.BoundLogger
    clock: Callable[[], int]
    monotonic: Callable[[], float]
