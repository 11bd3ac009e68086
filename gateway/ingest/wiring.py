"""Builds the path of decoded requests into ClickHouse, by durability mode. Also recovers orphaned journals: a worker
was killed, or there were more workers before.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import structlog

from chassis.runtime.health import Dependency, NotReady
from chassis.runtime.periodic import PeriodicTask, cancel_tasks
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.source_maps.resolver import SourceMaps
from gateway.ingest.journaled import JournaledIngest
from gateway.ingest.lanes import Ingest
from gateway.ingest.recovery import Recovery
from gateway.ingest.snapshots import IngestSnapshots
from gateway.ingest.synchronous import SynchronousIngest
from gateway.inserts.batch_writer import BatchWriter
from gateway.inserts.blocks import BlockBuilder, Gate, Inserter
from gateway.inserts.derived import BlockRetryQueue, DerivedCoalescer, OutcomeFlusher
from gateway.inserts.pending_requests import EntryDecoder, JournalReader
from gateway.inserts.retries import RetryingInserter
from gateway.inserts.store_state import (
    InsertBreaker,
    InsertStore,
    PartMonitor,
    RestartDetector,
    StoredBlockChecker,
    TelemetryReader,
)
from gateway.journal import (
    Journal,
    JournalLike,
    JournalLimits,
    JournalLocked,
    JournalMetrics,
    NullJournal,
    find_orphans,
)
from gateway.metrics import ItemAccounting, Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.codec import new_named_keys

JOURNAL_NEARLY_FULL: Final = "has less free space than a segment needs"


class JournalHealth:
    """A readiness check that fails while the journal has no room for any project: requests should then go to another
    gateway."""

    name = "journal"

    def __init__(self, journal: Journal, min_free_bytes: int) -> None:
        """`min_free_bytes`: bytes that the journal must have left to be ready."""
        self._journal = journal
        self._min_free_bytes = min_free_bytes

    async def probe(self) -> None:
        """Raises NotReady while the journal has less room than `min_free_bytes`: before it is full, so that clients can
        switch to another gateway before a request is refused."""
        if self._journal.max_project_room_bytes < self._min_free_bytes:
            raise NotReady(JOURNAL_NEARLY_FULL)


SCAN_INTERVAL_S: Final = 10.0
POLL_INTERVAL_S: Final = 1.0
MAX_CONCURRENT: Final = 2  # journals that are stored at the same time; each needs memory of its own


class OrphanRecovery:
    """Scans for orphaned journals, stores their requests, and removes the journals when their hold period is over."""

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
        await cancel_tasks(*self._recovering)

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


DRAIN_DERIVED_S: Final = 3.0
DRAIN_RETRY_QUEUE_S: Final = 5.0


class TelemetryStore(InsertStore, TelemetryReader, Protocol):
    """The ClickHouse operations that the gateway uses."""


class StoragePipeline:
    """The components that every mode uses to store requests; also builds the ingest of each mode from them, and stores
    the counts of refused requests, which are in no journal.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        clickhouse: TelemetryStore,
        metrics: Metrics,
        outcomes: OutcomeCounters,
        deleted_projects: Container[int],
        source_maps: SourceMaps | None,
        log: structlog.stdlib.BoundLogger,
        threads: Executor,
        clock: Callable[[], int],
        *,
        retention_days: int,
    ) -> None:
        self.settings = settings
        self.log = log
        self.clock = clock
        self.batch_gate = Gate()
        self.breaker = InsertBreaker(clickhouse, metrics, log)
        self.inserter = Inserter(clickhouse, self.breaker, metrics)
        self._metrics = metrics
        self._outcomes = outcomes
        self._deleted_projects = deleted_projects
        self._retention_days = retention_days
        self._accounting = ItemAccounting(metrics)
        self._block_checker = StoredBlockChecker(clickhouse)
        named_keys = new_named_keys(settings.keys_per_batch, settings.keys_per_day)
        self._builder = BlockBuilder(threads, named_keys, source_maps, metrics.fingerprint_failures)
        self._decoder = EntryDecoder(threads)
        self._retry_queue = BlockRetryQueue(self.inserter, self.breaker, metrics, log, settings.max_background_bytes)
        self._coalescer = DerivedCoalescer(self._retry_queue, settings.derived_linger_s, log)
        self._part_monitor = PartMonitor(clickhouse, self.breaker, metrics, log)
        self._restart_detector = RestartDetector(clickhouse, self.breaker, log)
        self._flusher = OutcomeFlusher(outcomes, self._coalescer, self.breaker, settings.outcomes_flush_s, clock, log)

    def start(self) -> None:
        """Start the background tasks."""
        self._restart_detector.task.start()
        self._retry_queue.start()
        self._coalescer.start()
        self._flusher.task.start()
        self._part_monitor.task.start()

    async def store_derived(self) -> None:
        """Store the rows that wait in memory because no journal has them; returns when ClickHouse has taken them."""
        self._flusher.flush()
        await self._coalescer.flush()
        await self._retry_queue.wait_until_empty()

    async def close(self) -> None:
        """Stop each component after the components that pass blocks to it."""
        await self._part_monitor.task.close()
        await self._flusher.close()
        await self._coalescer.close(DRAIN_DERIVED_S)
        await self._retry_queue.close(DRAIN_RETRY_QUEUE_S)
        await self._restart_detector.task.close()
        await self.breaker.close()
        self._builder.close()

    def journaled(self, journal: JournalLike) -> JournaledIngest:
        """The ingest through a journal, including the recovery of its requests."""
        reader, writer = self._reader_and_writer(journal)
        recovery = Recovery(
            journal,
            reader,
            writer,
            self._block_checker,
            self.breaker,
            self._deleted_projects,
            self._metrics.recovery_batches,
            self.clock,
            self.log,
            retention_days=self._retention_days,
            max_concurrent=self.settings.recovery_batches,
        )
        parts = journal, reader, writer, recovery
        return JournaledIngest(
            *parts, self.breaker, self._accounting, self._outcomes, self.settings, self.clock, self.log
        )

    def synchronous(self) -> SynchronousIngest:
        """The ingest of the mode `store`."""
        _, writer = self._reader_and_writer(NullJournal(self.log))
        return SynchronousIngest(
            writer, self.breaker, self._metrics, self._outcomes, self.settings, self.clock, self.log
        )

    def _reader_and_writer(self, journal: JournalLike) -> tuple[JournalReader, BatchWriter]:
        reader = JournalReader(journal, self._decoder, self._accounting, self.log)
        inserter = RetryingInserter(self.inserter, self.breaker, self._block_checker, self.log)
        derived, gate = self._coalescer, self.batch_gate
        return reader, BatchWriter(
            journal, reader, self._builder, inserter, derived, self._accounting, gate, self.clock, self.log
        )


class IngestParts(NamedTuple):
    """An ingest, and the snapshots of its acknowledged requests. `orphan_recovery` stores the acknowledged requests
    that a gateway in the mode `journal` left, in every mode. `/readyz` probes `dependencies`.
    """

    ingest: Ingest
    orphan_recovery: OrphanRecovery
    snapshots: IngestSnapshots
    dependencies: Sequence[Dependency]


def build_ingest(pipeline: StoragePipeline, chassis: ChassisSettings, telemetry: Telemetry) -> IngestParts:
    """The ingest of the configured durability mode."""
    settings, log, clock = pipeline.settings, pipeline.log, pipeline.clock
    metrics = JournalMetrics(telemetry.registry)
    directory = settings.journal_directory(chassis.data_dir)
    journals: WeakSet[Journal] = WeakSet()

    def journal_at(path: Path, *, is_orphan: bool = False) -> Journal:
        journal = Journal(path, _journal_limits(settings), metrics, log, clock=clock, is_orphan=is_orphan)
        journals.add(journal)
        return journal

    own: Journal | None = None
    ingest: Ingest
    dependencies: list[Dependency] = []
    if chassis.durability == "store":
        ingest = pipeline.synchronous()
    elif chassis.durability == "memory":
        log.warning("durability is memory: acknowledged items are lost if the process ends before they are stored")
        ingest = pipeline.journaled(NullJournal(log))
    else:
        own = journal_at(directory)
        ingest = pipeline.journaled(own)
        dependencies.append(_journal_health(own, settings))
    orphan_recovery = OrphanRecovery(directory, partial(journal_at, is_orphan=True), pipeline.journaled, log)
    gates = pipeline.batch_gate, pipeline.inserter.gate
    snapshots = IngestSnapshots(directory, own, journals, *gates, pipeline.store_derived, clock, log)
    return IngestParts(ingest, orphan_recovery, snapshots, [*dependencies, *ingest.dependencies()])


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
