"""Builds the query service as a value: its routes, the resources it opens and the dependency it requires."""

import time
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.http.cors import RATE_HEADERS, Cors
from chassis.http.cursor import CursorSigner
from chassis.http.route import cross_origin
from chassis.http.web import Service
from chassis.runtime.memory import available_bytes
from chassis.source_maps.resolver import SourceMaps
from query.change_events import ChangeHandlers
from query.error_groups.groups import IssueStates
from query.error_groups.handlers import ErrorHandlers
from query.handlers import ExploreHandlers
from query.live import LiveHandlers
from query.logs.handlers import LogHandlers
from query.metrics import QueryMetrics
from query.read_store import ReadStores
from query.routing import explore_routes
from query.scheduler import QueryScheduler
from query.send_buffer import TRUNCATED_HEADER
from query.settings import QuerySettings
from query.values import ceil_to_second


def service(
    settings: QuerySettings,
    *,
    clickhouse: ClickHouse,
    database: Database,
    signer: CursorSigner,
    clock: Callable[[], int] = time.time_ns,
    registry: CollectorRegistry | None = None,
    send_min_rate: int = 0,
    source_maps: SourceMaps | None = None,
) -> Service:
    """Build the service over `clickhouse`, which it starts and closes. `clock` returns nanoseconds since 1970,
    `registry` receives its metrics, `send_min_rate` is the chassis's minimum send rate in bytes per second.

    `database` is the relational database, which the caller starts and closes. Explore reads change events and states of
    issues from it. `source_maps`, which the caller runs, resolve stack traces for display.

    `clickhouse` is used by explore only and has `settings.effective_handles` handles, so that ingest never waits for a
    read.
    """
    settings = settings.within(available_bytes())
    query_metrics = QueryMetrics(registry)
    stores = ReadStores(clickhouse, settings, query_metrics)
    scheduler = QueryScheduler(settings, query_metrics, clock, send_min_rate)

    def now() -> int:
        """The `now` of a request, rounded up to a second: equal requests within a second are equal, and all rows up to
        now are included."""
        return ceil_to_second(clock())

    shared = (stores, scheduler, signer, settings, now, source_maps)
    handlers = (
        ExploreHandlers(*shared),
        LogHandlers(*shared),
        LiveHandlers(*shared),
        ErrorHandlers(*shared, issues=IssueStates(database, clock)),
        ChangeHandlers(database, signer, now),
    )
    routes = [each for one in handlers for each in explore_routes(one)]

    async def open_store(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        yield
        await clickhouse.close()

    return Service("query", cross_origin(routes, _cors(settings)), [open_store], [stores])


def _cors(settings: QuerySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("GET", "POST"),
        headers=("authorization", "content-type", "x-request-id"),
        exposed=("retry-after", "x-request-id", TRUNCATED_HEADER.lower(), *RATE_HEADERS),
    )
