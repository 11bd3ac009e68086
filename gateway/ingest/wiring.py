"""Builds the path of decoded requests into ClickHouse, by durability mode."""

from collections.abc import Callable, Container
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import structlog

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.source_maps.resolver import SourceMaps
from gateway.ingest.interface import Ingest
from gateway.ingest.journal_health import JournalHealth
from gateway.ingest.journaled import JournaledIngest
from gateway.ingest.orphans import OrphanRecovery, WithOrphanRecovery
from gateway.ingest.snapshots import IngestSnapshots
from gateway.ingest.synchronous import SynchronousIngest
from gateway.inserts import insert_breaker
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.derived_retry_queue import BlockRetryQueue
from gateway.inserts.insert_block import Inserter
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.item_accounting import ItemAccounting
from gateway.inserts.outcome_flusher import OutcomeFlusher
from gateway.inserts.part_monitor import PartMonitor
from gateway.inserts.restart_detector import RestartDetector
from gateway.inserts.stored_block_checker import StoredBlockChecker, TelemetryReader
from gateway.journal import Journal, JournalLike, JournalLimits, JournalMetrics, NullJournal
from gateway.metrics import Metrics
from gateway.outcomes import OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.codec import new_named_keys

DRAIN_DERIVED_S: Final = 3.0
DRAIN_RETRY_QUEUE_S: Final = 5.0


class TelemetryStore(insert_breaker.InsertStore, TelemetryReader, Protocol):
    """The ClickHouse operations that the gateway uses."""


class StoragePipeline:
    """The components through which every mode stores; also stores the counts of refused requests, which no journal
    holds.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        clickhouse: TelemetryStore,
        metrics: Metrics,
        outcomes: OutcomeCounters,
        log: structlog.stdlib.BoundLogger,
        threads: Executor,
        clock: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.clickhouse = clickhouse
        self.metrics = metrics
        self.outcomes = outcomes
        self.log = log
        self.threads = threads
        self.clock = clock
        self.breaker = InsertBreaker(clickhouse, metrics, log)
        self.inserter = Inserter(clickhouse, self.breaker, metrics)
        self.retry_queue = BlockRetryQueue(self.inserter, self.breaker, metrics, log, settings.max_background_bytes)
        self.named_keys = new_named_keys(settings.keys_per_batch, settings.keys_per_day)
        self.block_executor = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self.coalescer = DerivedCoalescer(self.retry_queue, settings.derived_linger_s)
        self._part_monitor = PartMonitor(clickhouse, self.breaker, metrics, log)
        self._restart_detector = RestartDetector(clickhouse, self.breaker, log)
        self._flusher = OutcomeFlusher(outcomes, self.coalescer, self.breaker, settings.outcomes_flush_s, clock, log)

    def start(self) -> None:
        """Start the background tasks."""
        self._restart_detector.start()
        self.retry_queue.start()
        self.coalescer.start()
        self._flusher.start()
        self._part_monitor.start()

    async def store_derived(self) -> None:
        """Store the rows that wait in memory because no journal has them; returns when ClickHouse has taken them."""
        self._flusher.flush()
        await self.coalescer.flush()
        await self.retry_queue.wait_until_empty()

    async def close(self) -> None:
        """Stop each component after those that pass blocks to it."""
        await self._part_monitor.close()
        await self._flusher.close()
        await self.coalescer.close(DRAIN_DERIVED_S)
        await self.retry_queue.close(DRAIN_RETRY_QUEUE_S)
        await self._restart_detector.close()
        await self.breaker.close()
        self.block_executor.shutdown(wait=True)


class IngestParts(NamedTuple):
    """An ingest, and the snapshots of what it has acknowledged."""

    ingest: Ingest
    snapshots: IngestSnapshots


def build_ingest(
    pipeline: StoragePipeline,
    chassis: ChassisSettings,
    telemetry: Telemetry,
    deleted_projects: Container[int],
    source_maps: SourceMaps | None = None,
) -> IngestParts:
    """The ingest of the configured durability mode."""
    context = InsertContext(
        pipeline.inserter,
        pipeline.breaker,
        StoredBlockChecker(pipeline.clickhouse),
        pipeline.retry_queue,
        pipeline.coalescer,
        ItemAccounting(pipeline.metrics),
        pipeline.metrics,
        pipeline.log,
        pipeline.threads,
        pipeline.clock,
        pipeline.named_keys,
        pipeline.block_executor,
        deleted_projects,
        source_maps,
    )
    metrics = JournalMetrics(telemetry.registry)
    directory = pipeline.settings.journal_directory(chassis.data_dir)

    def make_journaled(journal: JournalLike) -> JournaledIngest:
        return JournaledIngest(journal, context, pipeline.outcomes, pipeline.settings, chassis.retention_days)

    journals: WeakSet[Journal] = WeakSet()

    def journal_at(path: Path, *, is_orphan: bool = False) -> Journal:
        limits = _journal_limits(pipeline.settings)
        journal = Journal(path, limits, metrics, pipeline.log, clock=pipeline.clock, is_orphan=is_orphan)
        journals.add(journal)
        return journal

    def with_snapshots(ingest: Ingest, own: Journal | None) -> IngestParts:
        gates = context.batch_gate, context.inserter.gate
        snapshots = IngestSnapshots(
            directory, own, journals, *gates, pipeline.store_derived, pipeline.clock, pipeline.log
        )
        return IngestParts(ingest, snapshots)

    orphan_recovery = OrphanRecovery(directory, partial(journal_at, is_orphan=True), make_journaled, pipeline.log)
    if chassis.durability == "store":
        synchronous = SynchronousIngest(context, pipeline.outcomes, pipeline.settings)
        return with_snapshots(WithOrphanRecovery(synchronous, orphan_recovery), None)
    if chassis.durability == "memory":
        pipeline.log.warning(
            "durability is memory: acknowledged items are lost if the process ends before they are stored"
        )
        in_memory = make_journaled(NullJournal(pipeline.log))
        return with_snapshots(WithOrphanRecovery(in_memory, orphan_recovery), None)
    journal = journal_at(directory)
    health = _journal_health(journal, pipeline.settings)
    return with_snapshots(WithOrphanRecovery(make_journaled(journal), orphan_recovery, [health]), journal)


def _journal_limits(settings: GatewaySettings) -> JournalLimits:
    return JournalLimits(
        segment_bytes=settings.journal_segment_bytes,
        max_bytes=settings.journal_max_bytes,
        min_free_bytes=settings.journal_min_free_bytes,
        hold_s=settings.journal_hold_s,
        quarantine_days=settings.quarantine_days,
    )


def _journal_health(journal: Journal, settings: GatewaySettings) -> JournalHealth:
    segment = settings.journal_segment_bytes
    return JournalHealth(journal, min(segment, settings.journal_max_bytes // 8 or segment))
