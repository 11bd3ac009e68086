"""The gateway's routes and resources, built in the order of their dependencies."""

import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web

from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.http.access import ProjectKeyCheck
from chassis.http.cors import RATE_HEADERS, Cors
from chassis.http.route import cross_origin
from chassis.http.web import CleanupContext, Service
from chassis.redis import Redis
from chassis.runtime.memory import available_bytes, trim_task
from chassis.runtime.periodic import PeriodicTask
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.source_maps.resolver import SourceMaps
from gateway.admission.budgets import LargeResourceBudget, MemoryBudget
from gateway.admission.concurrency import ConcurrencyLimiter, target_latency_s
from gateway.admission.quota_sync import QuotaService
from gateway.admission.refusal_cache import RefusalCache
from gateway.erasure.journals import JournalErasure
from gateway.erasure.projects import DeletedProjects, ProjectRetention
from gateway.erasure.telemetry import DerivedRows, TelemetryErasure
from gateway.erasure.worker import CompileFilters, ErasureWorker
from gateway.export import Decoder, ExportParts, ExportSteps
from gateway.http import ExportHandlers, OtlpResponses, export_routes
from gateway.ingest.snapshots import IngestSnapshots
from gateway.ingest.wiring import StoragePipeline, TelemetryStore, build_ingest
from gateway.metrics import Metrics, OutcomeCounters
from gateway.settings import GatewaySettings

MAX_THREADS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayService(Service):
    """The service, and the snapshots of its acknowledged requests, for backups."""

    snapshots: IngestSnapshots


def service(
    chassis: ChassisSettings,
    settings: GatewaySettings,
    clickhouse: TelemetryStore,
    telemetry: Telemetry,
    *,
    database: Database,
    project_keys: ProjectKeyCheck | None = None,
    redis: Redis | None = None,
    erasure_clickhouse: ClickHouse | None = None,
    compile_filters: CompileFilters | None = None,
    source_maps: SourceMaps | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> GatewayService:
    """Build the gateway over a started `clickhouse` whose tables are migrated, a relational `database`, and optionally
    a `redis`; the caller starts and closes them. Erasures are executed over `erasure_clickhouse`, if given; without
    `compile_filters`, erasures by filter fail. `source_maps`, which the caller runs, resolve stack traces for
    fingerprints. `clock` gives nanoseconds since 1970.

    Its routes and OTLP/gRPC need the project-key guard. OTLP/gRPC is served if `project_keys` is given and the settings
    have a port for it.
    """
    settings = settings.within(available_bytes())
    log: structlog.stdlib.BoundLogger = structlog.get_logger("gateway")
    metrics = Metrics(telemetry.registry)
    outcomes = OutcomeCounters(metrics)
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="gateway")
    journals = settings.journal_directory(chassis.data_dir)
    deleted_projects = DeletedProjects(journals)
    pipeline = StoragePipeline(
        settings,
        clickhouse,
        metrics,
        outcomes,
        deleted_projects,
        source_maps,
        log,
        threads,
        clock,
        retention_days=chassis.retention_days,
    )
    ingest, orphan_recovery, snapshots, dependencies = build_ingest(pipeline, chassis, telemetry)
    cors = _cors(settings)
    concurrency_limiter = _concurrency_limiter(chassis, settings, metrics, outcomes, vary=cors.varies_by_origin)
    refusal_cache = RefusalCache(
        concurrency_limiter, outcomes, telemetry.rate_limited, time.monotonic_ns, vary=cors.varies_by_origin
    )
    responses = OtlpResponses(outcomes, refusal_cache.add)
    quota_service = QuotaService.build(
        database, clickhouse, redis, telemetry.registry, sync_s=settings.quota_sync_s, clock=clock, log=log
    )
    steps = ExportSteps(
        outcomes=outcomes,
        quota=quota_service.quota,
        budget=MemoryBudget(settings.max_inflight_bytes, settings.max_inflight_items, metrics),
        decoder=Decoder(settings, chassis.retention_days, threads),
        ingest=ingest,
        large_resources=LargeResourceBudget(settings.large_origins_bytes),
        clock=clock,
    )
    handlers = ExportHandlers(
        settings,
        body_timeout_s=chassis.body_timeout_s,
        body_min_rate=chassis.body_min_rate,
        responses=responses,
        steps=steps,
    )

    erasing: list[PeriodicTask] = []
    if erasure_clickhouse is not None:
        telemetry_erasure = TelemetryErasure(erasure_clickhouse)
        worker = ErasureWorker(
            database,
            telemetry_erasure,
            DerivedRows(erasure_clickhouse, telemetry_erasure, settings.keys_per_day),
            JournalErasure(journals, database, clock, time.monotonic),
            deleted_projects,
            compile_filters,
            log,
            clock,
        )
        retention = ProjectRetention(database, telemetry_erasure, deleted_projects, log, clock)
        erasing = [worker.task, retention.task]

    async def run(_app: web.Application) -> AsyncIterator[None]:
        pipeline.start()
        await ingest.start()
        orphan_recovery.start()
        quota_service.start()
        for task in erasing:
            task.start()
        yield
        for task in erasing:
            await task.close()
        await orphan_recovery.close()
        await ingest.close()
        await pipeline.close()
        await quota_service.close()
        threads.shutdown(wait=True)

    routes = cross_origin(export_routes(handlers, responses, refusal_cache), cors)
    resources: list[CleanupContext] = [run, trim_task]
    if concurrency_limiter is not None:
        resources.append(concurrency_limiter.task)
    if chassis.grpc_port is not None and project_keys is not None:
        parts = ExportParts(steps=steps, outcomes=outcomes, refusal_cache=refusal_cache, project_keys=project_keys)
        resources.append(_serve_grpc(chassis.grpc_port, chassis, settings, telemetry, parts))
    return GatewayService(
        name="gateway",
        routes=routes,
        cleanup_contexts=resources,
        readiness=tuple(dependencies),
        snapshots=snapshots,
    )


def _serve_grpc(
    port: int, chassis: ChassisSettings, settings: GatewaySettings, telemetry: Telemetry, parts: ExportParts
) -> CleanupContext:
    """Serve OTLP/gRPC. Only this function imports grpcio, which takes memory and may be missing if no port is set for
    it."""
    # Read on import. Without it, clients can make the core write lines to standard error that are not JSON.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from gateway.grpc.server import serve_grpc  # noqa: PLC0415 (see above)

    return serve_grpc(port, chassis, settings, telemetry, parts)


def _concurrency_limiter(
    chassis: ChassisSettings, settings: GatewaySettings, metrics: Metrics, outcomes: OutcomeCounters, *, vary: bool
) -> ConcurrencyLimiter | None:
    """The pre-parse filter that sheds exports under overload; None when `target_delay_s` is 0."""
    if not settings.target_delay_s:
        return None
    return ConcurrencyLimiter(
        target_latency_s(settings, chassis.durability), metrics, outcomes, time.monotonic, vary=vary
    )


def _cors(settings: GatewaySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("POST",),
        headers=("content-type", "content-encoding", "authorization", "x-legacy-auth", "x-request-id"),
        exposed=("retry-after", "x-request-id", *RATE_HEADERS),
        trusts_named_origins=True,
    )
