"""The composition root: builds services from settings, and one application from services.

`compose_app` creates the shared parts (Redis, `AuthGuards`), calls `_add_gateway`, `_add_query` or `_add_control` for
each named service, and passes the collected routes, resources and readiness checks to `build_app`. Each `_add_*`
imports its service when it is called, so a single service starts without the packages of the others.
"""

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import ClickHouse, StoreMisconfigured, StoreUnavailable
from chassis.clickhouse.migrations import VerifiedClickHouse
from chassis.clickhouse.stored_time import StoredTimeFloor
from chassis.db.database import Database
from chassis.erasures.repository import StoredErasure
from chassis.http.access import Guards
from chassis.http.cursor import load_cursor_signer
from chassis.http.validation import Issues
from chassis.http.web import CleanupContext, Route, Service, build_app
from chassis.limits.limiter import LocalLimiter
from chassis.limits.redis import RedisLimiter
from chassis.redis import Redis, open_redis
from chassis.runtime.health import Dependency, OptionalDependency
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.source_maps.resolver import SourceMaps
from sluice import __version__, interface
from sluice.settings_sources import SettingsSources

if TYPE_CHECKING:  # a service starts without the packages of the others
    from control.governance.erasures.api import CheckFilters
    from gateway.erasure.worker import CompileFilters
    from gateway.ingest.snapshots import IngestSnapshots

AfterOpen = Callable[[VerifiedClickHouse], Awaitable[object]]

ALL_SERVICES: Final = ("gateway", "query", "control")
PAGE: Final = "web"  # needs no store; control serves it, and it can have a process of its own
SPARE_HANDLES: Final = 3  # of the gateway, in addition to the inserts of batches: for derived rows, probes and erasures
INGEST_QUEUE: Final = 64  # waiting calls; the gateway itself bounds its memory, in bytes
CONTROL_HANDLES: Final = 2  # for the follower of issues, and for requests about issues
CONTROL_QUEUE: Final = 16  # waiting calls
EXPLORE_QUEUE: Final = 64  # waiting calls: probes, and reads behind cancelled reads; other reads wait for a slot

log = structlog.get_logger(__name__)


@dataclass
class _AppBuilder:
    """Collects the parts of an application."""

    options: SettingsSources
    chassis: ChassisSettings
    telemetry: Telemetry
    guards: AuthGuards
    redis: Redis | None
    after_open: AfterOpen
    source_maps: SourceMaps
    gateway: "_Gateway | None" = None
    routes: list[Route] = field(default_factory=list)
    resources: list[CleanupContext] = field(default_factory=list)
    readiness: list[Dependency] = field(default_factory=list)

    def add(self, service: Service) -> None:
        """Add the parts of a service. A dependency that an earlier service has too is probed once, and the earlier
        service decides whether it is required. The gateway is added first, so that a dependency that only reads require
        does not make the process unready for exports.
        """
        self.routes += service.routes
        self.resources += service.cleanup_contexts
        known = {dependency.name for dependency in self.readiness}
        self.readiness += [dependency for dependency in service.readiness if dependency.name not in known]


class _Gateway(NamedTuple):
    """The parts of the gateway that a backup needs: its ClickHouse, and snapshots of its acknowledged requests."""

    clickhouse: VerifiedClickHouse
    snapshots: "IngestSnapshots"


async def verify_clickhouse(clickhouse: VerifiedClickHouse) -> None:
    """Refuse to start with tables of another release (ClickHouseSchemaError) or wrong credentials (StoreMisconfigured).

    An unavailable server does not prevent the start: the schema is verified when the server is available. Until then
    the service is not ready, and serves requests that do not need ClickHouse. Raises StoreUnavailable for the embedded
    engine.
    """
    try:
        await clickhouse.verify_schema()
    except StoreMisconfigured:
        raise
    except StoreUnavailable as error:
        if clickhouse.embedded:
            raise
        log.warning("clickhouse unavailable, starting without it", address=clickhouse.address, detail=str(error))


def compose_app(
    names: Sequence[str],
    sources: SettingsSources,
    chassis: ChassisSettings,
    telemetry: Telemetry,
    after_open: AfterOpen = verify_clickhouse,
) -> web.Application:
    """The named services in one application. `after_open` runs once, after ClickHouse is opened and before its use."""
    telemetry.set_build_info(__version__, _decoder(names))
    redis = redis_from_settings(chassis, telemetry.registry)
    guards = AuthGuards.create(Database.from_settings(chassis), telemetry.registry, redis)
    source_maps = SourceMaps(guards.database, telemetry.registry)
    builder = _AppBuilder(sources, chassis, telemetry, guards, redis, after_open, source_maps)
    if tuple(names) != (PAGE,):
        builder.resources += [guards.running, source_maps.running]
        # A gateway alone continues with the keys that it has cached.
        builder.readiness.append(OptionalDependency(guards.database) if names == ("gateway",) else guards.database)
    if redis is not None:
        builder.resources.append(redis.running)
        if guards.broadcast is not None:
            builder.resources.append(guards.broadcast.running)
        builder.readiness.append(OptionalDependency(redis))
    for name in (*names, PAGE) if "control" in names else names:
        _ADD[name](builder)
    _add_backups(builder)
    return build_app(
        builder.routes,
        service=names[0] if len(names) == 1 else "sluice",
        settings=chassis,
        telemetry=telemetry,
        cleanup_contexts=builder.resources,
        guards=Guards.over(guards),
        readiness=builder.readiness,
        full_document=interface.load_document if len(names) == 1 else None,
        limiter=None if redis is None else RedisLimiter(redis, LocalLimiter(), telemetry.registry),
    )


def redis_from_settings(chassis: ChassisSettings, registry: CollectorRegistry | None = None) -> Redis | None:
    """The Redis client of the settings, not started; None without a URL. Raises StartupError for an invalid URL."""
    return open_redis(chassis.redis_url, chassis.redis_timeout_s, registry) if chassis.redis_url else None


def _decoder(names: Sequence[str]) -> str:
    """The decoder that the gateway uses, as a metric label: `kernel`, `reference`, or `none` without a gateway."""
    if "gateway" not in names:
        return "none"
    from proto.otlp.codec import KERNEL

    return "kernel" if KERNEL else "reference"


def open_clickhouse(
    chassis: ChassisSettings, *, handles: int = 1, max_waiting: int = 4, timeout_s: float | None = None
) -> ClickHouse:
    """A client of the configured ClickHouse, not started. `timeout_s` replaces the configured timeout for long work."""
    return ClickHouse(
        chassis.effective_clickhouse_url,
        handles=handles,
        max_waiting=max_waiting,
        timeout_s=chassis.clickhouse_timeout_s if timeout_s is None else timeout_s,
        scratch=_scratch(chassis),
        memory_bytes=chassis.clickhouse_memory_bytes,
        stored_time_floor=StoredTimeFloor(),
    )


def _verified_clickhouse(chassis: ChassisSettings, *, handles: int, max_waiting: int) -> VerifiedClickHouse:
    return VerifiedClickHouse(
        chassis.effective_clickhouse_url,
        handles=handles,
        max_waiting=max_waiting,
        timeout_s=chassis.clickhouse_timeout_s,
        scratch=_scratch(chassis),
        memory_bytes=chassis.clickhouse_memory_bytes,
    )


def _scratch(chassis: ChassisSettings) -> Path | None:
    return chassis.data_dir / "tmp" if chassis.uses_embedded_clickhouse else None


def _add_gateway(builder: _AppBuilder) -> None:
    from gateway.app import service
    from gateway.settings import GatewaySettings

    settings = builder.options.load(GatewaySettings)
    handles = settings.max_batches + settings.slow_batches + settings.recovery_batches + SPARE_HANDLES
    clickhouse = _verified_clickhouse(builder.chassis, handles=handles, max_waiting=INGEST_QUEUE)
    builder.resources.append(_open_and_run(clickhouse, _run_once(builder)))
    gateway = service(
        builder.chassis,
        settings,
        clickhouse,
        builder.telemetry,
        database=builder.guards.database,
        project_keys=builder.guards.project_keys,
        redis=builder.redis,
        erasure_clickhouse=clickhouse,
        compile_filters=_filter_compiler(),
        source_maps=builder.source_maps,
    )
    builder.add(gateway)
    builder.gateway = _Gateway(clickhouse, gateway.snapshots)


def _add_query(builder: _AppBuilder) -> None:
    from query.app import service
    from query.settings import QuerySettings

    settings = builder.options.load(QuerySettings)
    clickhouse = _verified_clickhouse(builder.chassis, handles=settings.effective_handles, max_waiting=EXPLORE_QUEUE)
    signer = load_cursor_signer(settings.cursor_key, builder.chassis.data_dir / "cursor.key")
    builder.add(
        service(
            settings,
            clickhouse=clickhouse,
            database=builder.guards.database,
            signer=signer,
            registry=builder.telemetry.registry,
            send_min_rate=builder.chassis.send_min_rate,
            source_maps=builder.source_maps,
        )
    )
    builder.resources.append(_run_after_open(clickhouse, _run_once(builder)))


def _add_control(builder: _AppBuilder) -> None:
    from control.app import service
    from control.settings import ControlSettings

    settings = builder.options.load(ControlSettings)
    clickhouse = _control_clickhouse(builder)
    builder.add(
        service(
            settings,
            builder.chassis,
            builder.guards,
            builder.telemetry.registry,
            filter_check(),
            clickhouse=clickhouse,
            source_maps=builder.source_maps,
        )
    )


def _add_web(builder: _AppBuilder) -> None:
    from web.app import service

    page = service()
    own = {(route.method, route.path): route for route in page.routes}
    for at, plain in enumerate(builder.routes):
        # The path at the end of a sign-on, which control serves without the page. It keeps its description, so that the
        # interface is the same in a checkout without a built page.
        if (shown := own.pop((plain.method, plain.path), None)) is not None:
            builder.routes[at] = replace(shown, operation=plain.operation)
    builder.add(replace(page, routes=list(own.values())))


def _control_clickhouse(builder: _AppBuilder) -> VerifiedClickHouse | None:
    """The ClickHouse from which control reads errors. None if it is the embedded engine and this process does not run
    the services that write to it, because only one process can use its directory.
    """
    chassis = builder.chassis
    if chassis.uses_embedded_clickhouse and builder.gateway is None:
        log.warning("issues are off, because control has no ClickHouse", fix="set SLUICE_CLICKHOUSE_URL to a server")
        return None
    clickhouse = _verified_clickhouse(chassis, handles=CONTROL_HANDLES, max_waiting=CONTROL_QUEUE)
    builder.resources.append(_open_and_run(clickhouse, _run_once(builder)))
    return clickhouse


def filter_check() -> "CheckFilters | None":
    """The check of filters of the query service; None if the query service is not installed. Its modules are imported
    at the first call.
    """
    if not _has_query():
        return None

    def check(filters: Sequence[Mapping[str, Any]], now: datetime, path: str, issues: Issues) -> list[dict[str, Any]]:
        from sluice.erasure_filters import check_filters

        return check_filters(filters, now, path, issues)

    return check


def _filter_compiler() -> "CompileFilters | None":
    """The function that compiles filters to SQL; None if the query service is not installed. Its modules are imported
    at the first call."""
    if not _has_query():
        return None

    def compile_filters(erasure: StoredErasure) -> tuple[str, str, Mapping[str, object]]:
        from sluice.erasure_filters import compile_filters

        return compile_filters(erasure)

    return compile_filters


def _has_query() -> bool:
    try:
        return importlib.util.find_spec("query") is not None
    except ModuleNotFoundError:
        return False


def _add_backups(builder: _AppBuilder) -> None:
    """Serve `sluice backup` if both stores are embedded. Added last, so that it closes before the stores that it
    copies."""
    chassis = builder.chassis
    if builder.gateway is None or not chassis.uses_embedded_clickhouse or not chassis.uses_sqlite:
        return
    from sluice.backup.server import BackupServer, SnapshotTaker

    taker = SnapshotTaker(chassis, builder.gateway.clickhouse, builder.gateway.snapshots)
    builder.resources.append(BackupServer(chassis.data_dir, taker, builder.telemetry.registry).running)


_ADD: Final[Mapping[str, Callable[[_AppBuilder], None]]] = {
    "gateway": _add_gateway,
    "query": _add_query,
    "control": _add_control,
    "web": _add_web,
}


def _run_once(builder: _AppBuilder) -> AfterOpen:
    """`after_open` for the first service that opens ClickHouse; does nothing for later services."""
    step, builder.after_open = builder.after_open, _nothing
    return step


async def _nothing(_clickhouse: VerifiedClickHouse) -> None:
    """Does nothing: another service has already verified the store."""


def _open_and_run(clickhouse: VerifiedClickHouse, step: AfterOpen) -> CleanupContext:
    async def open_and_run(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        await step(clickhouse)
        yield
        await clickhouse.close()

    return open_and_run


def _run_after_open(clickhouse: VerifiedClickHouse, step: AfterOpen) -> CleanupContext:
    """Run `step` after a service has opened ClickHouse."""

    async def run_step(_app: web.Application) -> AsyncIterator[None]:
        await step(clickhouse)
        yield

    return run_step
