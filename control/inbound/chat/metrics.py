"""Metrics of updates of messages in chats."""

from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from control.identity.chat_links import ChatPlatform


class UpdateOutcome(StrEnum):
    """What became of an update."""

    SENT = "sent"
    FAILED = "failed"  # the platform refused it, or it failed too often
    EXPIRED = "expired"  # the platform takes it no longer


class ChatMetrics:
    """Counts updates by platform and outcome."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._updates: Final = Counter(
            "sluice_chat_updates",
            "Updates of messages in chats by platform and outcome: sent, failed (refused, or too many attempts), "
            "expired.",
            ("platform", "outcome"),
            registry=registry,
        )
        for platform in ChatPlatform:
            for outcome in UpdateOutcome:
                self._updates.labels(platform.value, outcome.value)

    def count(self, platform: ChatPlatform, outcome: UpdateOutcome) -> None:
        """Count one update."""
        self._updates.labels(platform.value, outcome.value).inc()
