"""What the service counts of its own work; never by project, user or key."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)

# Why a request was refused.
CROWDED: Final = "crowded"  # as many wait as may
WAITED: Final = "waited"  # no place came free in time
NO_ROOM: Final = "no_room"  # clients did not take other answers in time
TOO_LONG: Final = "too_long"  # reading took longer than it may
TOO_EXPENSIVE: Final = "too_expensive"  # memory or rows; the one that is a 400
STORE_AWAY: Final = "store_away"
REASONS: Final = (CROWDED, WAITED, NO_ROOM, TOO_LONG, TOO_EXPENSIVE, STORE_AWAY)

# Where an answer came from.
ENGINE: Final = "engine"
SHARED: Final = "shared"
CACHE: Final = "cache"
SOURCES: Final = (ENGINE, SHARED, CACHE)


class QueryMetrics:
    """The counters of one process; without a registry they count for nobody."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry
        self._refused = Counter(
            "sluice_query_refused_requests",
            "Requests refused: as many wait as may (crowded), no place in time (waited), no room in time among the "
            "answers that are sent (no_room), read for too long (too_long), need too much memory or too many rows "
            "(too_expensive), the store is away (store_away).",
            ("reason",),
            registry=registry,
        )
        self._answers = Counter(
            "sluice_query_answers",
            "Answers by where they came from: made for the request (engine), for another one that asked the same at "
            "the same time (shared), or seconds before (cache).",
            ("source",),
            registry=registry,
        )
        self.wait_seconds = Histogram(
            "sluice_query_wait_seconds",
            "How long a request waited for its place, those included that got none.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.engine_seconds = Histogram(
            "sluice_query_engine_seconds", "Time of one read in ClickHouse.", buckets=_SECONDS, registry=registry
        )
        self.cut_clients = Counter(
            "sluice_query_cut_clients",
            "Connections cut whose client took nothing while other answers waited for its room.",
            registry=registry,
        )
        for reason in REASONS:
            self._refused.labels(reason)
        for source in SOURCES:
            self._answers.labels(source)

    def refused(self, reason: str) -> None:
        """Count a request that was refused; `reason` is one of REASONS."""
        self._refused.labels(reason).inc()

    def answered(self, source: str) -> None:
        """Count an answer; `source` is one of SOURCES."""
        self._answers.labels(source).inc()

    def gauge(self, name: str, help_: str, value: Callable[[], float]) -> None:
        """`sluice_query_<name>` is `value` whenever it is looked at."""
        Gauge(f"sluice_query_{name}", help_, registry=self._registry).set_function(value)
