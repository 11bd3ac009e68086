"""The composition root: settings become services, services become one application.

Each `_add_*` imports its service when it is asked for, so that a service alone starts without the others' folders.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import ClickHouse, StoreMisconfigured, StoreUnavailable
from chassis.clickhouse.migrations import VerifiedClickHouse
from chassis.db.database import Database
from chassis.http.access import Guards
from chassis.http.cursor import load_cursor_signer
from chassis.http.web import CleanupContext, Route, Service, build_app
from chassis.limits.local import LocalLimiter
from chassis.limits.redis import RedisLimiter
from chassis.redis import Redis, open_redis
from chassis.runtime.health import Dependency, OptionalDependency
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from sluice import __version__, interface
from sluice.settings_sources import SettingsSources

AfterOpen = Callable[[VerifiedClickHouse], Awaitable[object]]

ALL_SERVICES: Final = ("gateway", "query", "control")
SPARE_HANDLES: Final = 2  # of the gateway: derived rows and probes, beside the batches being inserted
INGEST_QUEUE: Final = 64  # calls; the gateway bounds its memory itself, in bytes
EXPLORE_QUEUE: Final = 64  # calls: probes, and reads while those before them are being cancelled; others wait in turns

log = structlog.get_logger(__name__)


@dataclass
class _AppBuilder:
    """An application while it is put together."""

    options: SettingsSources
    chassis: ChassisSettings
    telemetry: Telemetry
    guards: AuthGuards
    redis: Redis | None
    after_open: AfterOpen
    routes: list[Route] = field(default_factory=list)
    resources: list[CleanupContext] = field(default_factory=list)
    readiness: list[Dependency] = field(default_factory=list)

    def add(self, service: Service) -> None:
        """What the service brings; a dependency that another one brought already is asked once, as that one sees it.
        The gateway is the first: what it takes exports without is no reason to send them away, though reads need it.
        """
        self.routes += service.routes
        self.resources += service.cleanup_contexts
        known = {dependency.name for dependency in self.readiness}
        self.readiness += [dependency for dependency in service.readiness if dependency.name not in known]


async def verify_clickhouse(clickhouse: VerifiedClickHouse) -> None:
    """Refuse to start with tables of another release or with wrong credentials. A server that is away is no reason:
    it is looked at once it is back, and until then the service is not ready and answers what it can.
    """
    try:
        await clickhouse.verify_schema()
    except StoreMisconfigured:
        raise
    except StoreUnavailable as error:
        if clickhouse.embedded:
            raise
        log.warning("clickhouse is away, starting without it", address=clickhouse.address, detail=str(error))


def compose_app(
    names: Sequence[str],
    options: SettingsSources,
    chassis: ChassisSettings,
    telemetry: Telemetry,
    after_open: AfterOpen = verify_clickhouse,
) -> web.Application:
    """The named services in one application. `after_opening` is done once with ClickHouse, before anything uses it."""
    telemetry.set_build_info(__version__, _decoder(names))
    redis = redis_from_settings(chassis, telemetry.registry)
    checks = AuthGuards.create(Database.from_settings(chassis), telemetry.registry, redis)
    parts = _AppBuilder(options, chassis, telemetry, checks, redis, after_open)
    parts.resources.append(checks.running)
    # A gateway alone goes on with the keys that it knows.
    parts.readiness.append(OptionalDependency(checks.database) if names == ("gateway",) else checks.database)
    if redis is not None:
        parts.resources.append(redis.running)
        if checks.broadcast is not None:
            parts.resources.append(checks.broadcast.running)
        parts.readiness.append(OptionalDependency(redis))
    for name in names:
        _ADD[name](parts)
    return build_app(
        parts.routes,
        service=names[0] if len(names) == 1 else "sluice",
        settings=chassis,
        telemetry=telemetry,
        cleanup_contexts=parts.resources,
        guards=Guards.over(checks),
        readiness=parts.readiness,
        full_document=interface.load_document if len(names) == 1 else None,
        limiter=None if redis is None else RedisLimiter(redis, LocalLimiter(), telemetry.registry),
    )


def redis_from_settings(chassis: ChassisSettings, registry: CollectorRegistry | None = None) -> Redis | None:
    """The one of the settings, not started; None where there is none. Raises StartupError for a URL that is none."""
    return open_redis(chassis.redis_url, chassis.redis_timeout_s, registry) if chassis.redis_url else None


def _decoder(names: Sequence[str]) -> str:
    """Which one the gateway decodes with, for the metrics."""
    if "gateway" not in names:
        return "none"
    from proto.otlp.codec import KERNEL

    return "kernel" if KERNEL else "reference"


def open_clickhouse(
    chassis: ChassisSettings, *, handles: int = 1, max_waiting: int = 4, timeout_s: float | None = None
) -> ClickHouse:
    """A `ClickHouse` of the configured store, not started. `timeout_s`: where the work takes longer than is usual."""
    return ClickHouse(
        chassis.effective_clickhouse_url,
        handles=handles,
        max_waiting=max_waiting,
        timeout_s=chassis.clickhouse_timeout_s if timeout_s is None else timeout_s,
        scratch=_scratch(chassis),
        memory_bytes=chassis.clickhouse_memory_bytes,
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


def _add_gateway(parts: _AppBuilder) -> None:
    from gateway.app import service
    from gateway.settings import GatewaySettings

    settings = parts.options.load(GatewaySettings)
    handles = settings.max_batches + settings.slow_batches + settings.recovery_batches + SPARE_HANDLES
    clickhouse = _verified_clickhouse(parts.chassis, handles=handles, max_waiting=INGEST_QUEUE)
    parts.resources.append(_open_and_run(clickhouse, _run_once(parts)))
    parts.add(
        service(
            parts.chassis,
            settings,
            clickhouse,
            parts.telemetry,
            database=parts.guards.database,
            redis=parts.redis,
        )
    )


def _add_query(parts: _AppBuilder) -> None:
    from query.app import service
    from query.settings import QuerySettings

    settings = parts.options.load(QuerySettings)
    clickhouse = _verified_clickhouse(parts.chassis, handles=settings.effective_handles, max_waiting=EXPLORE_QUEUE)
    signer = load_cursor_signer(settings.cursor_key, parts.chassis.data_dir / "cursor.key")
    parts.add(
        service(
            settings,
            clickhouse=clickhouse,
            signer=signer,
            registry=parts.telemetry.registry,
            send_min_rate=parts.chassis.send_min_rate,
        )
    )
    parts.resources.append(_run_after_open(clickhouse, _run_once(parts)))


def _add_control(parts: _AppBuilder) -> None:
    from control.app import service
    from control.settings import ControlSettings

    parts.add(service(parts.options.load(ControlSettings), parts.chassis, parts.guards, parts.telemetry.registry))


_ADD: Final[Mapping[str, Callable[[_AppBuilder], None]]] = {
    "gateway": _add_gateway,
    "query": _add_query,
    "control": _add_control,
}


def _run_once(parts: _AppBuilder) -> AfterOpen:
    """The step for the first service that opens ClickHouse, nothing for the next."""
    step, parts.after_open = parts.after_open, _nothing
    return step


async def _nothing(_clickhouse: VerifiedClickHouse) -> None:
    """For a store that another service has looked at."""


def _open_and_run(clickhouse: VerifiedClickHouse, step: AfterOpen) -> CleanupContext:
    async def opened(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        await step(clickhouse)
        yield
        await clickhouse.close()

    return opened


def _run_after_open(clickhouse: VerifiedClickHouse, step: AfterOpen) -> CleanupContext:
    """For a service that opens its ClickHouse itself."""

    async def stepped(_app: web.Application) -> AsyncIterator[None]:
        await step(clickhouse)
        yield

    return stepped
