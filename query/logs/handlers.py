"""The log endpoints that count: each is a list of steps from the request to one response."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from query.analysis import attribute_values
from query.analysis.attribute_values import values_of
from query.analysis.attributes import plan as plan_window
from query.logs import attributes, counts
from query.logs.counts import LogKeys
from query.query_key import JsonResult, QueryKey
from query.read_store import ReadStores
from query.request.parameters import FILTERS_PATH, read_body
from query.routing import FILTERS_OF_LOGS, LOG_TAG, TIME, analysis, explore, get_project_id
from query.rows import LOGS
from query.scheduler import QueryScheduler, requester_of
from query.send_buffer import TRUNCATED_HEADER
from query.settings import QuerySettings


class LogHandlers:
    """The endpoints over each principal's read store. JSON is encoded off the event loop, as everywhere in explore."""

    def __init__(
        self, stores: ReadStores, scheduler: QueryScheduler, settings: QuerySettings, clock: Callable[[], int]
    ) -> None:
        self._stores = stores
        self._scheduler = scheduler
        self._settings = settings
        self._clock = clock

    @explore(
        LOG_TAG,
        "/logs/attributes",
        LogKeys,
        *TIME,
        headers={TRUNCATED_HEADER: "`keys` if there are more keys than were listed."},
    )
    async def list_log_attributes(self, request: web.Request) -> web.StreamResponse:
        """List the keys of log records.

        Built-in fields and attributes, named as in filters and groups, of the newest records of the window. The count
        of a key is the number of records that `exists` finds with it.
        """
        project_id, window = get_project_id(request), plan_window(request.query, self._clock())

        async def make() -> JsonResult:
            async with self._stores.session(requester_of(request)) as store:
                return await attributes.read(store, self._settings, project_id, window)

        key = QueryKey.of("log attributes", project_id, window, to_ns=window.to_ns)
        return await self._scheduler.respond(request, key, make)

    @explore(
        LOG_TAG, "/logs/attributes/values", attribute_values.AttributeValues, *values_of(FILTERS_OF_LOGS, "serviceName")
    )
    async def list_log_attribute_values(self, request: web.Request) -> web.StreamResponse:
        """List the values of a key of log records, the most frequent first.

        Of the newest million records of the window; `complete` tells whether that was all.
        """
        project_id, planned = get_project_id(request), attribute_values.plan(request.query, self._clock(), LOGS)

        async def make() -> JsonResult:
            async with self._stores.session(requester_of(request)) as store:
                await store.validate_regexes(planned.filters, FILTERS_PATH)
                return JsonResult(await attribute_values.read(store, project_id, planned))

        key = QueryKey.of("log attribute values", project_id, planned, to_ns=planned.window.to_ns)
        return await self._scheduler.respond(request, key, make)

    @analysis(
        LOG_TAG,
        "/logs/aggregate",
        counts.LogCountsRequest,
        counts.LogCounts,
        "Without `groupBy` all records are one group.",
        {
            "groupBy": "severityNumber",
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
            "hours": 3,
            "limit": 25,
            "intervalSeconds": 300,
        },
    )
    async def aggregate_logs(self, request: web.Request) -> web.StreamResponse:
        """Count log records by group, over time.

        Counts are exact for the part of the window that `range` shows; the response has the groups of most records.
        """
        project_id = get_project_id(request)
        planned = counts.plan(await read_body(request, self._settings.timeout_s), self._clock())

        async def make() -> JsonResult:
            async with self._stores.session(requester_of(request)) as store:
                await store.validate_regexes(planned.filters, counts.FILTERS_PATH)
                result = await counts.read(store, self._settings, project_id, planned)
            return JsonResult(await asyncio.to_thread(counts.encode_response, planned, result, self._settings))

        key = QueryKey.of("log counts", project_id, planned, to_ns=planned.window.to_ns)
        return await self._scheduler.respond(request, key, make)
