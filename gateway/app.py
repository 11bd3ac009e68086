"""The gateway's routes and resources, built in the order in which they depend on each other."""

import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from aiohttp import web

from chassis.db.database import Database
from chassis.http.access import project_key, public
from chassis.http.cors import RATE_HEADERS, Cors
from chassis.http.preparse import PreParseFilter
from chassis.http.route import Route, cross_origin
from chassis.http.web import Service
from chassis.redis import Redis
from chassis.runtime.memory_limit import available_bytes
from chassis.runtime.memory_trim import trim_task
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from gateway.admission.concurrency import ConcurrencyLimiter, target_latency_s
from gateway.admission.large_resources import LargeResourceBudget
from gateway.admission.memory_budget import MemoryBudget
from gateway.admission.quota.service import QuotaService
from gateway.admission.refusal_cache import RefusalCache
from gateway.http import openapi
from gateway.http.decoding import Decoder
from gateway.http.handlers import ExportHandlers, reject_metrics
from gateway.http.responses import OtlpResponses
from gateway.ingest.wiring import StoragePipeline, TelemetryStore, build_ingest
from gateway.outcomes import Metrics, OutcomeCounters
from gateway.settings import GatewaySettings

TRACES: Final = "/v1/traces"
LOGS: Final = "/v1/logs"
METRICS: Final = "/v1/metrics"
MAX_THREADS: Final = 4


def service(
    chassis: ChassisSettings,
    settings: GatewaySettings,
    clickhouse: TelemetryStore,
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
    ledger = OutcomeCounters(metrics)
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="gateway")
    storing = StoragePipeline(settings, clickhouse, metrics, ledger, log, threads, clock)
    intake = build_ingest(storing, chassis, telemetry)
    cors = _cors(settings)
    shedding = _concurrency_limiter(chassis, settings, metrics, ledger, vary=cors.varies_by_origin)
    turnstile = RefusalCache(shedding, ledger, telemetry.rate_limited, time.monotonic_ns, vary=cors.varies_by_origin)
    answers = OtlpResponses(ledger, turnstile.add)
    metering = QuotaService.build(
        database, clickhouse, redis, telemetry.registry, sync_s=settings.quota_sync_s, clock=clock, log=log
    )
    exporter = ExportHandlers(
        settings,
        body_timeout_s=chassis.body_timeout_s,
        body_min_rate=chassis.body_min_rate,
        responses=answers,
        outcomes=ledger,
        quota=metering.quota,
        budget=MemoryBudget(settings.max_inflight_bytes, settings.max_inflight_items, metrics),
        decoder=Decoder(settings, chassis.retention_days, threads),
        ingest=intake,
        large_resources=LargeResourceBudget(settings.large_origins_bytes),
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
    resources = (run, trim_task) if shedding is None else (run, trim_task, shedding.task)
    return Service("gateway", routes, resources, tuple(intake.dependencies()))


def _concurrency_limiter(
    chassis: ChassisSettings, settings: GatewaySettings, metrics: Metrics, ledger: OutcomeCounters, *, vary: bool
) -> ConcurrencyLimiter | None:
    """The gate of the exports."""
    if not settings.target_delay_s:
        return None
    return ConcurrencyLimiter(
        target_latency_s(settings, chassis.durability), metrics, ledger, time.monotonic, vary=vary
    )


def _cors(settings: GatewaySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("POST",),
        headers=("content-type", "content-encoding", "authorization", "x-legacy-auth", "x-request-id"),
        exposed=("retry-after", "x-request-id", *RATE_HEADERS),
    )


def _routes(exporter: ExportHandlers, answers: OtlpResponses, gate: PreParseFilter) -> list[Route]:
    routes = [
        Route(
            "POST", path, handler, project_key(), render_error=answers.error, operation=operation, pre_parse_filter=gate
        )
        for path, handler, operation in (
            (TRACES, exporter.export_traces, openapi.EXPORT_TRACES),
            (LOGS, exporter.export_logs, openapi.EXPORT_LOGS),
        )
    ]
    # No part of the interface, but where exporters send unless they are told otherwise. Nobody's key is looked at.
    routes.append(Route("POST", METRICS, reject_metrics, public(), render_error=answers.status))
    return routes
