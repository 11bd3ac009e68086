"""Builds the query service as a value: its routes, the resources it opens and the dependency it requires."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.http.access import bearer
from chassis.http.cors import RATE_HEADERS, Cors
from chassis.http.cursor import CursorSigner
from chassis.http.route import Route, cross_origin
from chassis.http.web import Service
from chassis.limits.limiter import LimitClass
from chassis.runtime.memory import available_bytes
from chassis.source_maps.resolver import SourceMaps
from query import openapi
from query.change_events import ChangeHandlers
from query.error_groups.handlers import ErrorHandlers
from query.error_groups.issue_states import IssueStates
from query.handlers import ExploreHandlers
from query.live import LiveHandlers
from query.logs.handlers import LogHandlers
from query.metrics import QueryMetrics
from query.read_store import ReadStores
from query.scheduler import QueryScheduler
from query.send_buffer import TRUNCATED_HEADER
from query.settings import QuerySettings
from query.timestamps import ceil_to_second

SCOPE: Final = "explore:read"
EXPLORE_PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/explore"
ERROR_PATH: Final = f"{EXPLORE_PATH}/errors/{{fingerprint}}"


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

    `database` is the relational one, which the caller starts and closes; explore reads change events and the states of
    issues from it. `source_maps`, which the caller runs, resolve stack traces for display.

    `clickhouse` is used by explore only and has `settings.effective_handles` handles, so that ingest never waits for a
    read.
    """
    settings = settings.within(available_bytes())
    query_metrics = QueryMetrics(registry)
    stores = ReadStores(clickhouse, settings, query_metrics)
    scheduler = QueryScheduler(settings, query_metrics, clock, send_min_rate)

    def now() -> int:
        """`now` of a request: equal requests within one second are equal, and nothing up to now is left out."""
        return ceil_to_second(clock())

    explore = ExploreHandlers(stores, scheduler, signer, settings, now, source_maps)
    errors = ErrorHandlers(stores, scheduler, signer, IssueStates(database, clock), now, source_maps)
    logs = LogHandlers(stores, scheduler, settings, now)
    live = LiveHandlers(stores, scheduler, now)
    changes = ChangeHandlers(database, signer, now)

    async def open_store(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        yield
        await clickhouse.close()

    return Service(
        "query", cross_origin(_routes(explore, errors, logs, live, changes), _cors(settings)), [open_store], [stores]
    )


def _cors(settings: QuerySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("GET", "POST"),
        headers=("authorization", "content-type", "x-request-id"),
        exposed=("retry-after", "x-request-id", TRUNCATED_HEADER.lower(), *RATE_HEADERS),
    )


def _routes(
    explore: ExploreHandlers, errors: ErrorHandlers, logs: LogHandlers, live: LiveHandlers, changes: ChangeHandlers
) -> list[Route]:
    read = bearer(SCOPE)
    return [
        Route("GET", f"{EXPLORE_PATH}/attributes", explore.attributes, read, operation=openapi.LIST_ATTRIBUTES),
        Route(
            "GET",
            f"{EXPLORE_PATH}/attributes/values",
            explore.attribute_values,
            read,
            operation=openapi.LIST_ATTRIBUTE_VALUES,
        ),
        Route("GET", f"{EXPLORE_PATH}/spans", explore.spans, read, operation=openapi.LIST_SPANS),
        Route("GET", f"{EXPLORE_PATH}/spans/live", live.spans, read, operation=openapi.TAIL_SPANS, answers_head=False),
        Route("GET", f"{EXPLORE_PATH}/logs", explore.logs, read, operation=openapi.LIST_LOGS),
        Route("GET", f"{EXPLORE_PATH}/logs/live", live.logs, read, operation=openapi.TAIL_LOGS, answers_head=False),
        Route("GET", f"{EXPLORE_PATH}/logs/attributes", logs.attributes, read, operation=openapi.LIST_LOG_ATTRIBUTES),
        Route(
            "GET",
            f"{EXPLORE_PATH}/logs/attributes/values",
            logs.attribute_values,
            read,
            operation=openapi.LIST_LOG_ATTRIBUTE_VALUES,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/logs/aggregate",
            logs.aggregate,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=openapi.AGGREGATE_LOGS,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/aggregate",
            explore.aggregate,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=openapi.AGGREGATE_SPANS,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/figures",
            explore.figures,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=openapi.SPAN_FIGURES,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/heatmap",
            explore.heatmap,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=openapi.SPAN_HEATMAP,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/compare",
            explore.compare,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=openapi.COMPARE_SPANS,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/services/map",
            explore.service_map,
            read,
            limit=LimitClass.ANALYSIS,
            operation=openapi.SHOW_SERVICE_MAP,
        ),
        Route("GET", f"{EXPLORE_PATH}/traces", explore.traces, read, operation=openapi.LIST_TRACES),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/rows",
            explore.trace_rows,
            read,
            operation=openapi.SHOW_TRACE_ROWS,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/waterfall",
            explore.waterfall,
            read,
            operation=openapi.SHOW_WATERFALL,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/logs",
            explore.trace_logs,
            read,
            operation=openapi.LIST_TRACE_LOGS,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/spans/{{spanId}}",
            explore.span,
            read,
            operation=openapi.SHOW_SPAN,
        ),
        Route("GET", f"{EXPLORE_PATH}/errors", errors.groups, read, operation=openapi.LIST_ERRORS),
        Route("GET", ERROR_PATH, errors.group, read, operation=openapi.SHOW_ERROR),
        Route("GET", f"{ERROR_PATH}/occurrences", errors.occurrences, read, operation=openapi.LIST_OCCURRENCES),
        Route(
            "GET",
            f"{ERROR_PATH}/occurrences/{{occurrenceId}}",
            errors.occurrence,
            read,
            operation=openapi.SHOW_OCCURRENCE,
        ),
        Route("GET", f"{EXPLORE_PATH}/changes", changes.changes, read, operation=openapi.LIST_CHANGE_EVENTS),
    ]
