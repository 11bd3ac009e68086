"""Builds the path of decoded requests into ClickHouse, by durability mode; and recovers orphaned journals, of a worker
that was killed, or of more workers than there are now.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import structlog

from chassis.runtime.health import Dependency, NotReady
from chassis.runtime.periodic import PeriodicTask
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.source_maps.resolver import SourceMaps
from gateway.ingest.interface import Ingest
from gateway.ingest.journaled import JournaledIngest
from gateway.ingest.snapshots import IngestSnapshots
from gateway.ingest.synchronous import SynchronousIngest
from gateway.inserts import store_state
from gateway.inserts.derived import BlockRetryQueue, DerivedCoalescer, OutcomeFlusher
from gateway.inserts.insert_block import Inserter
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.store_state import InsertBreaker, PartMonitor, RestartDetector, StoredBlockChecker, TelemetryReader
from gateway.journal import (
    Journal,
    JournalLike,
    JournalLimits,
    JournalLocked,
    JournalMetrics,
    NullJournal,
    find_orphans,
)
from gateway.metrics import ItemAccounting, Metrics
from gateway.outcomes import OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.codec import new_named_keys

JOURNAL_NEARLY_FULL: Final = "has less free space than a segment needs"


class JournalHealth:
    """Fails while the journal has no room for any project: requests are then better sent to another gateway."""

    name = "journal"

    def __init__(self, journal: Journal, min_free_bytes: int) -> None:
        """`min_free_bytes`: bytes that the journal must have left to be ready."""
        self._journal = journal
        self._min_free_bytes = min_free_bytes

    async def probe(self) -> None:
        """Raises NotReady while the journal has less room: before it is full, so that no request is refused here."""
        if self._journal.max_project_room_bytes < self._min_free_bytes:
            raise NotReady(JOURNAL_NEARLY_FULL)


SCAN_INTERVAL_S: Final = 10.0
POLL_INTERVAL_S: Final = 1.0
MAX_CONCURRENT: Final = 2  # journals being stored at once; each has memory of its own for that


class OrphanRecovery:
    """Scans for orphaned journals, stores what they hold, and removes them when their hold period is over."""

    def __init__(
        self,
        directory: Path,
        journal_at: Callable[[Path], Journal],
        make_journaled: Callable[[Journal], JournaledIngest],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._directory = directory
        self._journal_at = journal_at
        self._make_journaled = make_journaled
        self._log = log
        self._periodic_task = PeriodicTask(self._scan, SCAN_INTERVAL_S, log, "scanning for orphaned journals failed")
        self._recovering: set[asyncio.Task[None]] = set()
        self._storing = asyncio.Semaphore(MAX_CONCURRENT)

    def start(self) -> None:
        """Start scanning, every SCAN_INTERVAL_S."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Release the journals that are taken over; the next process continues with them."""
        await self._periodic_task.close()
        for task in self._recovering:
            task.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)

    async def _scan(self) -> None:
        for directory in await asyncio.to_thread(find_orphans, self._directory):
            await self._storing.acquire()
            task = asyncio.get_running_loop().create_task(self._recover(directory))
            self._recovering.add(task)
            task.add_done_callback(self._recovering.discard)

    async def _recover(self, directory: Path) -> None:
        """Store and remove one journal. Raises nothing: other journals continue, and the next scan retries this one."""
        with ExitStack() as until_stored:
            until_stored.callback(self._storing.release)
            try:
                journal = self._journal_at(directory)
                await self._drain(journal, until_stored)
                await asyncio.to_thread(journal.remove)
            except JournalLocked:
                pass  # another worker has it
            except Exception:  # noqa: BLE001 (see the docstring; it is logged)
                self._log.exception("an orphaned journal cannot be recovered", directory=str(directory))

    async def _drain(self, journal: Journal, until_stored: ExitStack) -> None:
        ingest = self._make_journaled(journal)
        try:
            await ingest.start()
            self._log.warning("recovering an orphaned journal", directory=str(journal.directory))
            while not ingest.is_idle:  # noqa: ASYNC110 (of many parts, each idle for reasons of its own)
                await asyncio.sleep(POLL_INTERVAL_S)
            until_stored.close()
            while not (journal.is_empty and ingest.is_idle):  # noqa: ASYNC110 (empty when the hold period is over)
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            await ingest.close()


class WithOrphanRecovery:
    """An ingest of any mode, plus the recovery of journals that a gateway in the mode `journal` left: what they hold is
    acknowledged, whatever the mode is now.
    """

    def __init__(
        self, ingest: Ingest, orphan_recovery: OrphanRecovery, extra_dependencies: Sequence[Dependency] = ()
    ) -> None:
        """`extra_dependencies` are further ones that `/readyz` probes."""
        self._ingest = ingest
        self._orphan_recovery = orphan_recovery
        self._extra_dependencies = extra_dependencies
        self.needs_raw_body = ingest.needs_raw_body
        self.admit = ingest.admit
        self.submit = ingest.submit

    def dependencies(self) -> Sequence[Dependency]:
        """The extra dependencies, and those of the ingest."""
        return [*self._extra_dependencies, *self._ingest.dependencies()]

    async def start(self) -> None:
        """Start the ingest, then the recovery. Raises StartupError."""
        await self._ingest.start()
        self._orphan_recovery.start()

    async def close(self) -> None:
        """Close both; journals that are taken over wait for the next process."""
        await self._orphan_recovery.close()
        await self._ingest.close()


DRAIN_DERIVED_S: Final = 3.0
DRAIN_RETRY_QUEUE_S: Final = 5.0


class TelemetryStore(store_state.InsertStore, TelemetryReader, Protocol):
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
