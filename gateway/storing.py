"""The way of decoded requests into ClickHouse, by the mode of durability."""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import structlog

from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry
from gateway.batches import availability
from gateway.batches.availability import Availability
from gateway.batches.background import Background
from gateway.batches.batcher import Batcher
from gateway.batches.flushing import OutcomeFlusher
from gateway.batches.gathering import Gatherer
from gateway.batches.insert import Inserter
from gateway.batches.stored import StoredIntake
from gateway.batches.writer import Writer
from gateway.conveyor.adoption import Adopting, Adoption
from gateway.conveyor.conveyor import Conveyor
from gateway.conveyor.health import JournalHealth
from gateway.conveyor.presence import Presence, Reader
from gateway.conveyor.restarts import Restarts
from gateway.conveyor.sink import Sink
from gateway.conveyor.tally import Tally
from gateway.intake import Intake
from gateway.journal import Forgetful, Journal, JournalLimits, JournalMetrics, Log
from gateway.outcomes import Ledger, Metrics
from gateway.parts import Parts
from gateway.settings import GatewaySettings
from proto.otlp.codec import named_keys

DRAIN_DERIVED_S: Final = 3.0
DRAIN_BACKGROUND_S: Final = 5.0


class Store(availability.Store, Reader, Protocol):
    """What the gateway needs of ClickHouse."""


class Storing:
    """What every mode stores through; it also stores the counts of refused requests, which wait in no journal."""

    def __init__(
        self,
        settings: GatewaySettings,
        clickhouse: Store,
        metrics: Metrics,
        ledger: Ledger,
        log: structlog.stdlib.BoundLogger,
        threads: Executor,
        clock: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.clickhouse = clickhouse
        self.metrics = metrics
        self.ledger = ledger
        self.log = log
        self.threads = threads
        self.clock = clock
        self.availability = Availability(clickhouse, metrics, log)
        self.inserter = Inserter(clickhouse, self.availability, metrics)
        self.background = Background(self.inserter, self.availability, metrics, log, settings.max_background_bytes)
        self.named = named_keys(settings.keys_per_batch, settings.keys_per_day)
        self.builder = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self.gatherer = Gatherer(self.background, settings.derived_linger_s)
        self._parts = Parts(clickhouse, self.availability, metrics, log)
        self._restarts = Restarts(clickhouse, self.availability, log)
        self._flusher = OutcomeFlusher(ledger, self.gatherer, self.availability, settings.outcomes_flush_s, clock, log)

    def start(self) -> None:
        """Begin to work."""
        self._restarts.start()
        self.background.start()
        self.gatherer.start()
        self._flusher.start()
        self._parts.start()

    async def close(self) -> None:
        """Stop each after those that hand something over to it."""
        await self._parts.close()
        await self._flusher.close()
        await self.gatherer.close(DRAIN_DERIVED_S)
        await self.background.close(DRAIN_BACKGROUND_S)
        await self._restarts.close()
        await self.availability.close()
        self.builder.shutdown(wait=True)


def intake_of(storing: Storing, chassis: ChassisSettings, telemetry: Telemetry) -> Intake:
    """What a request is taken by, in the configured mode."""
    sink = Sink(
        storing.inserter,
        storing.availability,
        Presence(storing.clickhouse),
        Tally(storing.metrics),
        storing.metrics,
        storing.log,
        storing.threads,
        storing.clock,
        storing.named,
        storing.builder,
    )
    metrics = JournalMetrics(telemetry.registry)
    directory = storing.settings.journal_directory(chassis.data_dir)

    def convey(journal: Log) -> Conveyor:
        return Conveyor(journal, sink, storing.ledger, storing.settings, chassis.retention_days)

    def journal_at(place: Path) -> Journal:
        return Journal(place, _limits(storing.settings), metrics, storing.log, clock=storing.clock)

    adoption = Adoption(directory, journal_at, convey, storing.log)
    if chassis.durability == "store":
        return Adopting(_stored(storing), adoption)
    if chassis.durability == "memory":
        storing.log.warning("durability is memory: what is acknowledged and not stored yet is lost with the process")
        return Adopting(convey(Forgetful(storing.log)), adoption)
    journal = journal_at(directory)
    return Adopting(convey(journal), adoption, [_health(journal, storing.settings)])


def _stored(storing: Storing) -> StoredIntake:
    writer = Writer(
        storing.inserter,
        storing.availability,
        storing.background,
        storing.gatherer,
        storing.metrics,
        storing.log,
        storing.threads,
        storing.clock,
        storing.named,
        storing.builder,
    )
    batcher = Batcher(writer, storing.settings, storing.metrics, storing.log, storing.clock)
    return StoredIntake(storing.availability, batcher, storing.ledger, storing.metrics)


def _limits(settings: GatewaySettings) -> JournalLimits:
    return JournalLimits(
        segment_bytes=settings.journal_segment_bytes,
        max_bytes=settings.journal_max_bytes,
        min_free_bytes=settings.journal_min_free_bytes,
        hold_s=settings.journal_hold_s,
        quarantine_days=settings.quarantine_days,
    )


def _health(journal: Journal, settings: GatewaySettings) -> JournalHealth:
    segment = settings.journal_segment_bytes
    return JournalHealth(journal, min(segment, settings.journal_max_bytes // 8 or segment))
