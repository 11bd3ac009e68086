"""The error endpoints: each is a list of steps from the request to one response."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.errors import NotFound
from chassis.http.access import authorization_context
from chassis.http.route import Parameter, Tag
from query.error_groups import listing
from query.error_groups.groups import IssueStates, error_issue
from query.error_groups.occurrences import (
    DEFAULT_LOGS,
    MAX_LOGS,
    occurrence_page,
    occurrence_record,
    parse_log_limit,
    parse_occurrence_id,
    read_occurrence,
)
from query.error_groups.schemas import ErrorHistory, ErrorPage, OccurrencePage, OccurrenceRecord
from query.read_store import ReadStore
from query.routing import CURSOR, FILTERS_OF_ERRORS, LIMIT, TIME, Endpoints, explore, get_project_id, parse_path_id
from query.rows import ERRORS, fingerprint_bytes
from query.scheduler import QueryKey, requester_of
from query.search.listing import ListScope, RowPage, fetch, page_query_key, plan
from query.send_buffer import JsonResult
from query.statements import ErrorOrder

MAX_ID: Final = 64
TAG: Final = Tag("errors", "Exceptions, grouped by fingerprint.")
FINGERPRINT_IN_PATH: Final = Parameter(
    "fingerprint",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "Fingerprint of the error: 32 hexadecimal digits. Any other text returns 404.",
)
OCCURRENCE_IN_PATH: Final = Parameter(
    "occurrenceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "The `id` of the occurrence in lists.",
)
SORT: Final = Parameter(
    "sort",
    "query",
    ErrorOrder,
    "The order, always descending: by last occurrence, by number of occurrences, or by first occurrence in the window.",
    default=ErrorOrder.LAST_SEEN,
)
SURROUNDING_LOGS: Final = Parameter(
    "logs",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_LOGS)],
    "Maximum number of log records before the occurrence, and maximum number after it.",
    default=DEFAULT_LOGS,
)
_ERROR: Final = "/errors/{fingerprint}"


@dataclass(frozen=True)
class ErrorHandlers(Endpoints):
    """The endpoints over each principal's read store. `issues`: reads the issues of errors."""

    issues: IssueStates = field(kw_only=True)

    @explore(TAG, "/errors", ErrorPage, *TIME, FILTERS_OF_ERRORS, SORT, LIMIT, CURSOR)
    async def list_errors(self, request: web.Request) -> web.StreamResponse:
        """List errors: occurrences grouped by fingerprint.

        Sorted by the last occurrence, by frequency, or by the first occurrence, always descending. Each error has its
        number of occurrences over the window, the time of its first occurrence ever, and its issue. The issue may be
        some seconds old.
        """
        scope = ListScope(authorization_context(request).org_id, get_project_id(request), ERRORS)
        planned = listing.plan(request.query, scope, self.signer, self.clock())

        async def make() -> JsonResult:
            async with self.stores.session(requester_of(request)) as store:
                page = await listing.fetch(store, self.signer, planned)
            states = await self.issues.read(scope.project_id, [each.fingerprint for each in page.groups])
            return JsonResult(await asyncio.to_thread(lambda: msgspec.json.encode(listing.error_page(page, states))))

        parameters, to_ns = replace(planned, now_ns=0), planned.occurrence_filter.window.to_ns
        key = QueryKey.of("errors", scope.project_id, parameters, to_ns=to_ns)
        return await self.scheduler.respond(request, key, make)

    @explore(TAG, _ERROR, ErrorHistory, FINGERPRINT_IN_PATH, *TIME, FILTERS_OF_ERRORS)
    async def show_error(self, request: web.Request) -> web.StreamResponse:
        """Show one error, and how often it occurred over the window.

        An error that did not occur in the window is shown with a count of zero.
        """
        planned = listing.plan_history(request.query, get_project_id(request), _fingerprint(request), self.clock())

        async def make() -> JsonResult:
            async with self.stores.session(requester_of(request)) as store:
                error_history = await listing.read_history(store, planned)
            if error_history is None:
                raise NotFound
            states = await self.issues.read(planned.occurrence_filter.project_id, [planned.fingerprint])
            error_history.issue = error_issue(states, planned.fingerprint)
            return JsonResult(msgspec.json.encode(error_history))

        occurrence_filter = planned.occurrence_filter
        query_key = QueryKey.of("error", occurrence_filter.project_id, planned, to_ns=occurrence_filter.window.to_ns)
        return await self.scheduler.respond(request, query_key, make)

    @explore(TAG, _ERROR + "/occurrences", OccurrencePage, FINGERPRINT_IN_PATH, *TIME, FILTERS_OF_ERRORS, LIMIT, CURSOR)
    async def list_error_occurrences(self, request: web.Request) -> web.StreamResponse:
        """List the occurrences of an error, newest first.

        Every stored occurrence that matches is listed exactly once, even if times are equal.
        """
        project_id, fingerprint = get_project_id(request), _fingerprint(request)
        scope = ListScope(authorization_context(request).org_id, project_id, ERRORS, fingerprint=fingerprint)
        planned = plan(request.query, scope, self.signer, self.clock())

        async def read(store: ReadStore) -> RowPage:
            page = await fetch(store, self.signer, planned)
            if not page.rows and await listing.find_error_type(store, project_id, fingerprint) is None:
                raise NotFound
            return page

        return await self.respond_with(
            request, page_query_key(planned), read, lambda page: occurrence_page(page, fingerprint)
        )

    @explore(
        TAG,
        _ERROR + "/occurrences/{occurrenceId}",
        OccurrenceRecord,
        FINGERPRINT_IN_PATH,
        OCCURRENCE_IN_PATH,
        SURROUNDING_LOGS,
    )
    async def show_error_occurrence(self, request: web.Request) -> web.StreamResponse:
        """Show one occurrence with its stack trace, its span and the log records around it.

        The log records belong to its trace. If the trace has none, they belong to its service in its environment.
        """
        project_id, fingerprint = get_project_id(request), _fingerprint(request)
        key, log_limit = (
            parse_path_id(request, "occurrenceId", MAX_ID, parse_occurrence_id),
            parse_log_limit(request.query),
        )

        async def make() -> JsonResult:
            async with self.stores.session(requester_of(request)) as store:
                rows = await read_occurrence(store, project_id, fingerprint, key, log_limit)
            if rows is None:
                raise NotFound
            resolved = None
            if self.source_maps is not None:
                resolved = await self.source_maps.resolve(project_id, rows.occurrence.release, rows.stacktrace)
            return JsonResult(await asyncio.to_thread(lambda: msgspec.json.encode(occurrence_record(rows, resolved))))

        query_key = QueryKey.of("occurrence", project_id, fingerprint, key, log_limit)
        return await self.scheduler.respond(request, query_key, make)


def _fingerprint(request: web.Request) -> bytes:
    return parse_path_id(request, "fingerprint", MAX_ID, fingerprint_bytes)
