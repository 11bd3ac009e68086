"""The endpoints of the tail: each is a list of steps from the request to one response."""

import asyncio
from collections.abc import Callable

import msgspec
from aiohttp import web

from query.fields import LOGS, SPANS, TelemetryTable
from query.live.tail import TailRows, fetch, log_tail, plan, span_tail
from query.path_params import get_project_id
from query.query_key import JsonResult, QueryKey
from query.read_store import ReadStores
from query.scheduler import QueryScheduler, requester_of


class LiveHandlers:
    """The endpoints over each principal's read store. JSON is encoded off the event loop, as everywhere in explore."""

    def __init__(self, stores: ReadStores, scheduler: QueryScheduler, clock: Callable[[], int]) -> None:
        self._stores = stores
        self._scheduler = scheduler
        self._clock = clock

    async def spans(self, request: web.Request) -> web.StreamResponse:
        """Show the spans that ended since the previous answer.

        To be polled every two seconds. A span is shown once; one that lasted longer than a quarter of an hour, or
        arrived later than a minute after its end, is missed.
        """
        return await self._respond(request, SPANS, span_tail)

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """Show the log records since the previous answer.

        To be polled every two seconds. A record is shown once; one that arrived later than a minute after its time is
        missed.
        """
        return await self._respond(request, LOGS, log_tail)

    async def _respond(
        self, request: web.Request, signal: TelemetryTable, build: Callable[[TailRows], object]
    ) -> web.StreamResponse:
        planned = plan(request.query, get_project_id(request), signal, self._clock())

        async def make() -> JsonResult:
            async with self._stores.session(requester_of(request)) as store:
                tail = await fetch(store, planned)
            return JsonResult(await asyncio.to_thread(lambda: msgspec.json.encode(build(tail))))

        return await self._scheduler.respond(request, QueryKey.of("live", planned.project_id, planned), make)
