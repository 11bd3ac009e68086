"""The way of decoded requests into ClickHouse, by the mode of durability."""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import structlog

from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from gateway.ingest.interface import Ingest
from gateway.ingest.journal_health import JournalHealth
from gateway.ingest.journaled import JournaledIngest
from gateway.ingest.orphans import OrphanRecovery, WithOrphanRecovery
from gateway.ingest.synchronous import SynchronousIngest
from gateway.inserts import clickhouse_health
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.derived_retry_queue import BlockRetryQueue
from gateway.inserts.insert_block import Inserter
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.item_accounting import ItemAccounting
from gateway.inserts.lane_router import LaneRouter
from gateway.inserts.outcome_flusher import OutcomeFlusher
from gateway.inserts.part_monitor import PartMonitor
from gateway.inserts.restart_detector import RestartDetector
from gateway.inserts.stored_block_checker import StoredBlockChecker, TelemetryReader
from gateway.inserts.sync_batch_writer import SyncBatchWriter
from gateway.journal import Journal, JournalLike, JournalLimits, JournalMetrics, NullJournal
from gateway.outcomes import Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.codec import new_named_keys

DRAIN_DERIVED_S: Final = 3.0
DRAIN_RETRY_QUEUE_S: Final = 5.0


class TelemetryStore(clickhouse_health.InsertStore, TelemetryReader, Protocol):
    """What the gateway needs of ClickHouse."""


class StoragePipeline:
    """What every mode stores through; it also stores the counts of refused requests, which wait in no journal."""

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
        self.availability = Availability(clickhouse, metrics, log)
        self.inserter = Inserter(clickhouse, self.availability, metrics)
        self.retry_queue = BlockRetryQueue(
            self.inserter, self.availability, metrics, log, settings.max_background_bytes
        )
        self.named_keys = new_named_keys(settings.keys_per_batch, settings.keys_per_day)
        self.block_executor = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self.coalescer = DerivedCoalescer(self.retry_queue, settings.derived_linger_s)
        self._part_monitor = PartMonitor(clickhouse, self.availability, metrics, log)
        self._restart_detector = RestartDetector(clickhouse, self.availability, log)
        self._flusher = OutcomeFlusher(
            outcomes, self.coalescer, self.availability, settings.outcomes_flush_s, clock, log
        )

    def start(self) -> None:
        """Begin to work."""
        self._restart_detector.start()
        self.retry_queue.start()
        self.coalescer.start()
        self._flusher.start()
        self._part_monitor.start()

    async def close(self) -> None:
        """Stop each after those that hand something over to it."""
        await self._part_monitor.close()
        await self._flusher.close()
        await self.coalescer.close(DRAIN_DERIVED_S)
        await self.retry_queue.close(DRAIN_RETRY_QUEUE_S)
        await self._restart_detector.close()
        await self.availability.close()
        self.block_executor.shutdown(wait=True)


def build_ingest(pipeline: StoragePipeline, chassis: ChassisSettings, telemetry: Telemetry) -> Ingest:
    """What a request is taken by, in the configured mode."""
    sink = InsertContext(
        pipeline.inserter,
        pipeline.availability,
        StoredBlockChecker(pipeline.clickhouse),
        ItemAccounting(pipeline.metrics),
        pipeline.metrics,
        pipeline.log,
        pipeline.threads,
        pipeline.clock,
        pipeline.named_keys,
        pipeline.block_executor,
    )
    metrics = JournalMetrics(telemetry.registry)
    directory = pipeline.settings.journal_directory(chassis.data_dir)

    def convey(journal: JournalLike) -> JournaledIngest:
        return JournaledIngest(journal, sink, pipeline.outcomes, pipeline.settings, chassis.retention_days)

    def journal_at(place: Path) -> Journal:
        return Journal(place, _journal_limits(pipeline.settings), metrics, pipeline.log, clock=pipeline.clock)

    adoption = OrphanRecovery(directory, journal_at, convey, pipeline.log)
    if chassis.durability == "store":
        return WithOrphanRecovery(_build_synchronous(pipeline), adoption)
    if chassis.durability == "memory":
        pipeline.log.warning("durability is memory: what is acknowledged and not stored yet is lost with the process")
        return WithOrphanRecovery(convey(NullJournal(pipeline.log)), adoption)
    journal = journal_at(directory)
    return WithOrphanRecovery(convey(journal), adoption, [_journal_health(journal, pipeline.settings)])


def _build_synchronous(storing: StoragePipeline) -> SynchronousIngest:
    writer = SyncBatchWriter(
        storing.inserter,
        storing.availability,
        storing.retry_queue,
        storing.coalescer,
        storing.metrics,
        storing.log,
        storing.threads,
        storing.clock,
        storing.named_keys,
        storing.block_executor,
    )
    batcher = LaneRouter(writer, storing.settings, storing.metrics, storing.log, storing.clock)
    return SynchronousIngest(storing.availability, batcher, storing.outcomes, storing.metrics)


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
