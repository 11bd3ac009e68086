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
from query.answers import Answers
from query.asking.instant import up_to_second
from query.errors.handlers import Errors
from query.handlers import Explore
from query.metrics import QueryMetrics
from query.sending import TRUNCATED
from query.settings import QuerySettings
from query.store import Stores

SCOPE: Final = "explore:read"
EXPLORE: Final = "/orgs/{orgSlug}/projects/{projectSlug}/explore"
ERROR: Final = f"{EXPLORE}/errors/{{fingerprint}}"


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
    stores = Stores(clickhouse, settings, counted)
    answers = Answers(settings, counted, clock, send_min_rate)

    def now() -> int:
        """What `now` of a request is: whoever asks within the same second asks the same, and nothing up to now is left
        out.
        """
        return up_to_second(clock())

    explore = Explore(stores, answers, signer, settings, now)
    errors = Errors(stores, answers, signer, now)

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
        exposed=("retry-after", "x-request-id", TRUNCATED.lower(), *RATE_HEADERS),
    )


def _routes(explore: Explore, errors: Errors) -> list[Route]:
    read = bearer(SCOPE)
    return [
        Route("GET", f"{EXPLORE}/attributes", explore.attributes, read, operation=operations.LIST_ATTRIBUTES),
        Route("GET", f"{EXPLORE}/spans", explore.spans, read, operation=operations.LIST_SPANS),
        Route("GET", f"{EXPLORE}/logs", explore.logs, read, operation=operations.LIST_LOGS),
        Route(
            "POST",
            f"{EXPLORE}/spans/aggregate",
            explore.aggregate,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=operations.AGGREGATE_SPANS,
        ),
        Route(
            "POST",
            f"{EXPLORE}/spans/compare",
            explore.compare,
            read,
            limit=LimitClass.ANALYSIS,
            cancel_on_disconnect=True,
            operation=operations.COMPARE_SPANS,
        ),
        Route(
            "GET",
            f"{EXPLORE}/traces/{{traceId}}/waterfall",
            explore.waterfall,
            read,
            operation=operations.SHOW_WATERFALL,
        ),
        Route(
            "GET", f"{EXPLORE}/traces/{{traceId}}/logs", explore.trace_logs, read, operation=operations.LIST_TRACE_LOGS
        ),
        Route(
            "GET", f"{EXPLORE}/traces/{{traceId}}/spans/{{spanId}}", explore.span, read, operation=operations.SHOW_SPAN
        ),
        Route("GET", f"{EXPLORE}/errors", errors.groups, read, operation=operations.LIST_ERRORS),
        Route("GET", ERROR, errors.group, read, operation=operations.SHOW_ERROR),
        Route("GET", f"{ERROR}/occurrences", errors.occurrences, read, operation=operations.LIST_OCCURRENCES),
        Route(
            "GET",
            f"{ERROR}/occurrences/{{occurrenceId}}",
            errors.occurrence,
            read,
            operation=operations.SHOW_OCCURRENCE,
        ),
    ]
