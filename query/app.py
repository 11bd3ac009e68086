"""The query service as a value: its routes, what it opens and what it cannot work without."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from chassis.access import bearer
from chassis.clickhouse import ClickHouse
from chassis.cursor import CursorSigner
from chassis.web import Route, Service
from query.answers import Answers
from query.handlers import Explore
from query.settings import QuerySettings
from query.store import Store

SCOPE: Final = "explore:read"
EXPLORE: Final = "/orgs/{orgSlug}/projects/{projectSlug}/explore"


def service(
    settings: QuerySettings,
    *,
    clickhouse: ClickHouse,
    signer: CursorSigner,
    clock: Callable[[], int] = time.time_ns,
) -> Service:
    """The service over `clickhouse`, which it starts and closes. `clock` gives nanoseconds since 1970.

    `clickhouse` is explore's own, with `settings.handles` handles and `settings.max_waiting` places in its queue, so
    that ingest never waits behind a read.
    """
    store = Store(clickhouse, settings)
    answers = Answers(settings.max_answers, settings.max_waiting, settings.timeout_s)
    explore = Explore(store, answers, signer, settings, clock)

    async def open_store(_app: web.Application) -> AsyncIterator[None]:
        await clickhouse.start()
        yield
        await clickhouse.close()

    read = bearer(SCOPE)
    routes = [
        Route("GET", f"{EXPLORE}/spans", explore.spans, read),
        Route("GET", f"{EXPLORE}/logs", explore.logs, read),
        Route("GET", f"{EXPLORE}/traces/{{traceId}}/waterfall", explore.waterfall, read),
        Route("GET", f"{EXPLORE}/traces/{{traceId}}/logs", explore.trace_logs, read),
        Route("GET", f"{EXPLORE}/traces/{{traceId}}/spans/{{spanId}}", explore.span, read),
    ]
    return Service("query", routes, [open_store], [store])
