"""The gateway's routes and resources, built in the order in which they depend on each other."""

import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from aiohttp import web

from chassis.access import project_key, public
from chassis.cors import RATE_HEADERS, Cors
from chassis.gate import Gate
from chassis.memory_limit import available_bytes
from chassis.redis import Redis
from chassis.relational import Database
from chassis.route import Route, cross_origin
from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry
from chassis.trimming import trimming
from chassis.web import Service
from gateway import operations
from gateway.answers import Answers
from gateway.budget import Budget
from gateway.decoding import Decoder
from gateway.handlers import Exporter, no_metrics
from gateway.large_origins import LargeOrigins
from gateway.outcomes import Ledger, Metrics
from gateway.quota.metering import Metering
from gateway.settings import GatewaySettings
from gateway.shedding import Shedding, target_of
from gateway.storing import Store, Storing, intake_of
from gateway.turnstile import Turnstile

TRACES: Final = "/v1/traces"
LOGS: Final = "/v1/logs"
METRICS: Final = "/v1/metrics"
MAX_THREADS: Final = 4


def service(
    chassis: ChassisSettings,
    settings: GatewaySettings,
    clickhouse: Store,
    telemetry: Telemetry,
    *,
    database: Database,
    redis: Redis | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Service:
    """The gateway over a started `clickhouse` whose tables are migrated, and over a relational store, and perhaps a
    Redis, that are started and closed by others. `clock` gives nanoseconds since 1970.

    Its routes need the project-key guard.
    """
    settings = settings.within(available_bytes())
    log: structlog.stdlib.BoundLogger = structlog.get_logger("gateway")
    metrics = Metrics(telemetry.registry)
    ledger = Ledger(metrics)
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="gateway")
    storing = Storing(settings, clickhouse, metrics, ledger, log, threads, clock)
    intake = intake_of(storing, chassis, telemetry)
    cors = _cors(settings)
    shedding = _shedding(chassis, settings, metrics, ledger, vary=cors.varies)
    turnstile = Turnstile(shedding, ledger, telemetry.rate_limited, time.monotonic_ns, vary=cors.varies)
    answers = Answers(ledger, turnstile.remember)
    metering = Metering.over(
        database, clickhouse, redis, telemetry.registry, sync_s=settings.quota_sync_s, clock=clock, log=log
    )
    exporter = Exporter(
        settings,
        body_timeout_s=chassis.body_timeout_s,
        body_min_rate=chassis.body_min_rate,
        answers=answers,
        ledger=ledger,
        quota=metering.quota,
        budget=Budget(settings.max_inflight_bytes, settings.max_inflight_items, metrics),
        decoder=Decoder(settings, chassis.retention_days, threads),
        intake=intake,
        large_origins=LargeOrigins(settings.large_origins_bytes),
        clock=clock,
    )

    async def run(_app: web.Application) -> AsyncIterator[None]:
        storing.start()
        await intake.start()
        metering.start()
        yield
        await intake.close()
        await storing.close()
        await metering.close()
        threads.shutdown(wait=True)

    routes = cross_origin(_routes(exporter, answers, turnstile), cors)
    resources = (run, trimming) if shedding is None else (run, trimming, shedding.looking)
    return Service("gateway", routes, resources, tuple(intake.dependencies()))


def _shedding(
    chassis: ChassisSettings, settings: GatewaySettings, metrics: Metrics, ledger: Ledger, *, vary: bool
) -> Shedding | None:
    """The gate of the exports."""
    if not settings.target_delay_s:
        return None
    return Shedding(target_of(settings, chassis.durability), metrics, ledger, time.monotonic, vary=vary)


def _cors(settings: GatewaySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("POST",),
        headers=("content-type", "content-encoding", "authorization", "x-legacy-auth", "x-request-id"),
        exposed=("retry-after", "x-request-id", *RATE_HEADERS),
    )


def _routes(exporter: Exporter, answers: Answers, gate: Gate) -> list[Route]:
    routes = [
        Route("POST", path, handler, project_key(), render_error=answers.refusal, operation=operation, gate=gate)
        for path, handler, operation in (
            (TRACES, exporter.traces, operations.EXPORT_TRACES),
            (LOGS, exporter.logs, operations.EXPORT_LOGS),
        )
    ]
    # No part of the interface, but where exporters send unless they are told otherwise. Nobody's key is looked at.
    routes.append(Route("POST", METRICS, no_metrics, public(), render_error=answers.status))
    return routes
