"""Metrics of exports."""

from prometheus_client import CollectorRegistry, Counter

from control.export.model import Run, SinkKind


class WarehouseMetrics:
    """Without `registry` nothing is exposed."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._runs = Counter(
            "sluice_warehouse_runs",
            "Runs of sinks, one for each stream, by kind, stream and status.",
            ["kind", "stream", "status"],
            registry=registry,
        )
        self._rows = Counter(
            "sluice_warehouse_rows", "Rows that sinks have exported, by stream.", ["stream"], registry=registry
        )
        self._bytes = Counter(
            "sluice_warehouse_bytes",
            "Bytes of the files that sinks have exported, by stream.",
            ["stream"],
            registry=registry,
        )

    def record(self, kind: SinkKind, run: Run) -> None:
        """Count a run that has ended."""
        self._runs.labels(kind.value, run.stream.value, run.status.value).inc()
        self._rows.labels(run.stream.value).inc(run.rows)
        self._bytes.labels(run.stream.value).inc(run.bytes)
