"""Prometheus metrics of quotas."""

from prometheus_client import CollectorRegistry, Counter


class QuotaMetrics:
    """Failures of synchronization and their effect; without labels of organizations."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.failures = Counter(
            "sluice_gateway_quota_failures",
            "Failed synchronizations of quota usage, by store; meanwhile the last known usage applies.",
            ("store",),
            registry=registry,
        )
        self.deferred_to_recount = Counter(
            "sluice_gateway_quota_left_items",
            "Items that were not written to the quota record in time; they count after the next recount in ClickHouse.",
            registry=registry,
        )
        for store in ("database", "redis", "clickhouse"):
            self.failures.labels(store)
