"""The query service as a value: its routes, what it opens and what it cannot work without."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.access import bearer
from chassis.clickhouse import ClickHouse
from chassis.cors import RATE_HEADERS, Cors
from chassis.cursor import CursorSigner
from chassis.limits.limiter import LimitClass
from chassis.memory_limit import available_bytes
from chassis.route import Route, cross_origin
from chassis.web import Service
from query import operations
from query.answers import QueryScheduler
from query.asking.instant import ceil_to_second
from query.errors.handlers import ErrorHandlers
from query.handlers import ExploreHandlers
from query.metrics import QueryMetrics
from query.sending import TRUNCATED_HEADER
from query.settings import QuerySettings
from query.store import ReadStores

SCOPE: Final = "explore:read"
EXPLORE_PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/explore"
ERROR_PATH: Final = f"{EXPLORE_PATH}/errors/{{fingerprint}}"


def service(
    settings: QuerySettings,
    *,
    clickhouse: ClickHouse,
    signer: CursorSigner,
    clock: Callable[[], int] = time.time_ns,
    registry: CollectorRegistry | None = None,
    send_min_rate: int = 0,
) -> Service:
    """The service over `clickhouse`, which it starts and closes. `clock` gives nanoseconds since 1970, `registry` takes
    its metrics, `send_min_rate` is the chassis's (bytes a second).

    `clickhouse` is explore's own, with `settings.handles_used` handles, so that ingest never waits behind a read.
    """
    settings = settings.within(available_bytes())
    counted = QueryMetrics(registry)
    stores = ReadStores(clickhouse, settings, counted)
    answers = QueryScheduler(settings, counted, clock, send_min_rate)

    def now() -> int:
        """What `now` of a request is: whoever asks within the same second asks the same, and nothing up to now is left
        out.
        """
        return ceil_to_second(clock())

    explore = ExploreHandlers(stores, answers, signer, settings, now)
    errors = ErrorHandlers(stores, answers, signer, now)

    async def open_store(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        yield
        await clickhouse.close()

    return Service("query", cross_origin(_routes(explore, errors), _cors(settings)), [open_store], [stores])


def _cors(settings: QuerySettings) -> Cors:
    return Cors(
        frozenset(settings.cors_origins),
        methods=("GET", "POST"),
        headers=("authorization", "content-type", "x-request-id"),
        exposed=("retry-after", "x-request-id", TRUNCATED_HEADER.lower(), *RATE_HEADERS),
    )


def _routes(explore: ExploreHandlers, errors: ErrorHandlers) -> list[Route]:
    read = bearer(SCOPE)
    return [
        Route("GET", f"{EXPLORE_PATH}/attributes", explore.attributes, read, operation=operations.LIST_ATTRIBUTES),
        Route("GET", f"{EXPLORE_PATH}/spans", explore.spans, read, operation=operations.LIST_SPANS),
        Route("GET", f"{EXPLORE_PATH}/logs", explore.logs, read, operation=operations.LIST_LOGS),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/aggregate",
            explore.aggregate,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=operations.AGGREGATE_SPANS,
        ),
        Route(
            "POST",
            f"{EXPLORE_PATH}/spans/compare",
            explore.compare,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=operations.COMPARE_SPANS,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/waterfall",
            explore.waterfall,
            read,
            operation=operations.SHOW_WATERFALL,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/logs",
            explore.trace_logs,
            read,
            operation=operations.LIST_TRACE_LOGS,
        ),
        Route(
            "GET",
            f"{EXPLORE_PATH}/traces/{{traceId}}/spans/{{spanId}}",
            explore.span,
            read,
            operation=operations.SHOW_SPAN,
        ),
        Route("GET", f"{EXPLORE_PATH}/errors", errors.groups, read, operation=operations.LIST_ERRORS),
        Route("GET", ERROR_PATH, errors.group, read, operation=operations.SHOW_ERROR),
        Route("GET", f"{ERROR_PATH}/occurrences", errors.occurrences, read, operation=operations.LIST_OCCURRENCES),
        Route(
            "GET",
            f"{ERROR_PATH}/occurrences/{{occurrenceId}}",
            errors.occurrence,
            read,
            operation=operations.SHOW_OCCURRENCE,
        ),
    ]
