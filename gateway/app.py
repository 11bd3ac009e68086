"""The gateway's routes and resources, built in the order in which they depend on each other."""

import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

import structlog
from aiohttp import web

from chassis.access import project_key, public
from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry
from chassis.web import Route, Service
from gateway import operations
from gateway.answers import Answers
from gateway.batches.availability import Availability, Store
from gateway.batches.background import Background
from gateway.batches.batcher import Batcher
from gateway.batches.flushing import OutcomeFlusher
from gateway.batches.gathering import Gatherer
from gateway.batches.insert import Inserter
from gateway.batches.writer import Writer
from gateway.budget import Budget
from gateway.handlers import Exporter
from gateway.outcomes import Ledger, Metrics
from gateway.settings import GatewaySettings

TRACES: Final = "/v1/traces"
LOGS: Final = "/v1/logs"
DRAIN_DERIVED_S: Final = 3.0
DRAIN_BACKGROUND_S: Final = 5.0
MAX_THREADS: Final = 4


def service(
    chassis: ChassisSettings,
    settings: GatewaySettings,
    clickhouse: Store,
    telemetry: Telemetry,
    *,
    clock: Callable[[], int] = time.time_ns,
) -> Service:
    """The gateway over a started `clickhouse` whose tables are migrated. `clock` gives nanoseconds since 1970.

    Its routes need the project-key guard.
    """
    log: structlog.stdlib.BoundLogger = structlog.get_logger("gateway")
    metrics = Metrics(telemetry.registry)
    ledger = Ledger(metrics)
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="gateway")
    storing = _storing(settings, clickhouse, metrics, ledger, log, threads, clock)
    answers = Answers(ledger, settings.cors_origins)
    exporter = Exporter(
        settings,
        retention_days=chassis.retention_days,
        body_timeout_s=chassis.body_timeout_s,
        answers=answers,
        ledger=ledger,
        budget=Budget(settings.max_inflight_bytes, settings.max_inflight_items, metrics),
        availability=storing.availability,
        batcher=storing.batcher,
        threads=threads,
        clock=clock,
    )

    async def run(_app: web.Application) -> AsyncIterator[None]:
        storing.start()
        yield
        await storing.close()
        threads.shutdown(wait=True)

    return Service("gateway", _routes(exporter, answers, settings), resources=(run,), readiness=(storing.availability,))


class _Storing(NamedTuple):
    """The way of a decoded request into ClickHouse."""

    availability: Availability
    batcher: Batcher
    flusher: OutcomeFlusher
    gatherer: Gatherer
    background: Background

    def start(self) -> None:
        for worker in (self.background, self.gatherer, self.flusher):
            worker.start()

    async def close(self) -> None:
        """Stop each after those that hand something over to it."""
        await self.batcher.close()
        await self.flusher.close()
        await self.gatherer.close(DRAIN_DERIVED_S)
        await self.background.close(DRAIN_BACKGROUND_S)
        await self.availability.close()


def _storing(
    settings: GatewaySettings,
    clickhouse: Store,
    metrics: Metrics,
    ledger: Ledger,
    log: structlog.stdlib.BoundLogger,
    threads: Executor,
    clock: Callable[[], int],
) -> _Storing:
    availability = Availability(clickhouse, metrics, log)
    inserter = Inserter(clickhouse, availability, metrics)
    background = Background(inserter, availability, metrics, log, settings.max_background_bytes)
    gatherer = Gatherer(background, settings.derived_linger_s)
    flusher = OutcomeFlusher(ledger, gatherer, availability, settings.outcomes_flush_s, clock)
    writer = Writer(inserter, availability, background, gatherer, metrics, log, threads, clock)
    batcher = Batcher(writer, settings, metrics, log, clock)
    return _Storing(availability, batcher, flusher, gatherer, background)


def _routes(exporter: Exporter, answers: Answers, settings: GatewaySettings) -> list[Route]:
    routes = [
        Route("POST", path, handler, project_key(), render_error=answers.refusal, operation=operation)
        for path, handler, operation in (
            (TRACES, exporter.traces, operations.EXPORT_TRACES),
            (LOGS, exporter.logs, operations.EXPORT_LOGS),
        )
    ]
    if settings.cors_origins:
        routes += [
            Route("OPTIONS", path, answers.preflight, public(), render_error=answers.refusal, operation=operation)
            for path, operation in ((TRACES, operations.PREFLIGHT_TRACES), (LOGS, operations.PREFLIGHT_LOGS))
        ]
    return routes
