"""Prometheus metrics of quotas."""

from prometheus_client import CollectorRegistry, Counter


class QuotaMetrics:
    """Failures of synchronization and their effect; without labels of organizations."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.failures = Counter(
            "sluice_gateway_quota_failures",
            "Exchanges of quota counts that failed, by store; exports go on by what is known.",
            ("store",),
            registry=registry,
        )
        self.deferred_to_recount = Counter(
            "sluice_gateway_quota_left_items",
            "Items the record of quotas could not be told in time: they count once ClickHouse has been asked.",
            registry=registry,
        )
        for store in ("database", "redis", "clickhouse"):
            self.failures.labels(store)
