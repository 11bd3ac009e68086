"""Metrics of inbound webhooks."""

from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter


class WebhookOutcome(StrEnum):
    """What became of a request."""

    PROCESSED = "processed"
    DUPLICATE = "duplicate"  # answered with the stored result
    INVALID = "invalid"  # signed, but not what the platform documents
    FAILED = "failed"  # a fault of ours; sent again, it is processed again
    UNSIGNED = "unsigned"  # no valid signature, or out of the window
    UNKNOWN = "unknown"  # no such integration


SOURCES: Final = (
    *("github", "gitlab", "bitbucket", "gitea", "forgejo", "linear", "jira", "pagerduty", "generic"),
    *("chat-a", "chat-b", "payments", "unknown"),
)


class WebhookMetrics:
    """Counts requests by source and outcome."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._deliveries: Final = Counter(
            "sluice_webhook_deliveries",
            "Inbound webhook deliveries by source and outcome: processed, duplicate (the stored result was answered), "
            "invalid (signed, but malformed), failed (an error of Sluice), unsigned, unknown (no such integration).",
            ("source", "outcome"),
            registry=registry,
        )
        for source in SOURCES:
            for outcome in WebhookOutcome:
                self._deliveries.labels(source, outcome.value)

    def count(self, source: str, outcome: WebhookOutcome) -> None:
        """Count one request. `source`: one of SOURCES."""
        self._deliveries.labels(source, outcome.value).inc()

    def count_processed(self, source: str, *, duplicate: bool) -> None:
        """Count a request that was answered with what its event has done."""
        self.count(source, WebhookOutcome.DUPLICATE if duplicate else WebhookOutcome.PROCESSED)
