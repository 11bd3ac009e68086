"""Metrics of issues."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from control.issues.counting import Counted


class IssueMetrics:
    """Counters of what became of occurrences, and how far the follower is behind."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._occurrences: Final = Counter(
            "sluice_issue_occurrences",
            "Error occurrences read, by result: counted in an issue, untracked (the project has too many new errors).",
            ("result",),
            registry=registry,
        )
        self._transitions: Final = Counter(
            "sluice_issue_transitions",
            "Issues that were created, or regressed; that an upgrade of the rules of grouping has split or merged.",
            ("kind",),
            registry=registry,
        )
        self._withheld: Final = Counter(
            "sluice_issue_notifications_withheld",
            "New issues and regressions that were not announced one by one, because a project had too many.",
            registry=registry,
        )
        for result in ("counted", "untracked"):
            self._occurrences.labels(result)
        for kind in ("created", "regressed", "split", "merged"):
            self._transitions.labels(kind)
        lag: Final = Gauge(
            "sluice_issues_lag_seconds",
            "Time since all stored error occurrences were counted; 0 in a process that leaves this to another one.",
            registry=registry,
        )
        self._caught_up_at: float | None = None
        lag.set_function(self._lag)

    def record(self, counted: Counted) -> None:
        """A page was counted."""
        self._occurrences.labels("counted").inc(counted.occurrences - counted.untracked)
        self._occurrences.labels("untracked").inc(counted.untracked)
        self._transitions.labels("created").inc(counted.created)
        self._transitions.labels("regressed").inc(counted.regressed)
        self._transitions.labels("split").inc(counted.split)
        self._transitions.labels("merged").inc(counted.merged)
        self._withheld.inc(counted.withheld)

    def caught_up(self, at: float) -> None:
        """Everything that was settled at this time (`time.monotonic`) is counted."""
        self._caught_up_at = at

    def left_to_another(self) -> None:
        """Another process counts."""
        self._caught_up_at = None

    def _lag(self) -> float:
        return 0.0 if self._caught_up_at is None else max(0.0, time.monotonic() - self._caught_up_at)
