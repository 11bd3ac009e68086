"""Declarations of the explore endpoints: their paths, access and responses, and the parameters that they share.

Bounds are the constants that validation uses. Each handler parses its own query string and body, because a window,
filters and a cursor depend on each other.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.cursor import CursorSigner
from chassis.http.declaration import Arguments, F, declared_routes, route
from chassis.http.route import Body, Parameter, ResponseSpec, Route, Tag, json_content
from chassis.http.validation import Issues, check_length
from chassis.limits.limiter import LimitClass
from chassis.source_maps.resolver import SourceMaps
from query.read_store import ReadStore, ReadStores
from query.request.filters import MAX_FILTERS, MAX_TEXT
from query.request.parameters import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, MAX_SPAN_ID, MAX_TRACE_ID, SORTS, read_body
from query.rows import ERRORS, LOGS, SPANS, TelemetryTable
from query.scheduler import QueryKey, QueryScheduler, requester_of
from query.send_buffer import JsonResult
from query.settings import QuerySettings
from query.statements import DEFAULT_HOURS, MAX_HOURS, Window
from query.values import TIMESTAMP_PATTERN

T = TypeVar("T")


class Planned(Protocol):
    """A validated request over a window of time."""

    @property
    def window(self) -> Window:
        """The window."""


P = TypeVar("P", bound=Planned)

SCOPE: Final = "explore:read"
EXPLORE_PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/explore"

SPAN_TAG: Final = Tag("spans", "Spans of a project: list, aggregate and compare them.")
LOG_TAG: Final = Tag("logs", "Log records of a project: list and count them.")
TRACE_TAG: Final = Tag("traces", "One trace.")

TimestampText = Annotated[str, Meta(pattern=TIMESTAMP_PATTERN)]

FROM: Final = Parameter(
    "from",
    "query",
    TimestampText,
    "Start of the window, inclusive: RFC 3339, Unix time in seconds to nanoseconds, `now`, or `now-15m` (ms, s, m, "
    f"h, d, w). At most {MAX_HOURS} hours before `to`; by default `hours` before `to`.",
)
TO: Final = Parameter(
    "to",
    "query",
    TimestampText,
    "End of the window, exclusive, in the same formats as `from`; by default now, or `hours` after `from`.",
)
HOURS: Final = Parameter(
    "hours",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_HOURS)],
    "Length of the window. With `from`, the window begins at `from`. With only `to`, the window ends at `to`. With "
    "both, `hours` must be the time between them. With neither, the window ends now, and the default is "
    f"{DEFAULT_HOURS}.",
    example=3,
)
TIME: Final = (FROM, TO, HOURS)


def _filters(signal: TelemetryTable, example: str) -> Parameter:
    """The `filters` parameter of a list; `example` is one that this signal supports."""
    keys = ", ".join(
        f"`{field.name}` ({', '.join(field.names)})" if field.names else f"`{field.name}`"
        for field in signal.fields.values()
    )
    return Parameter(
        "filters",
        "query",
        Annotated[str, Meta(max_length=MAX_TEXT)],
        'Filters. All of them must match: `key:value`, `-key:value`, `key:*piece*`, `key:*"two words"*`, `key:>1`, '
        "`has:key`, or JSON: "
        f'`[{{"key": "key", "op": "eq", "value": "value"}}]`. At most {MAX_FILTERS} filters. Keys: {keys}'
        f"{', or an attribute' if signal.has_attributes else ''}.",
        example=example,
    )


FILTERS_OF_SPANS: Final = _filters(SPANS, "serviceName:shop durationMs:>100")
FILTERS_OF_LOGS: Final = _filters(LOGS, "severityNumber:>=17")
FILTERS_OF_ERRORS: Final = _filters(ERRORS, "environment:production")
LIMIT: Final = Parameter(
    "limit",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
    "Maximum number of rows in a page. A page of large rows may have fewer.",
    default=DEFAULT_LIMIT,
)
CURSOR: Final = Parameter(
    "cursor",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR)],
    "`nextCursor` of the previous page. All other parameters except `limit` must be unchanged.",
)
TRACE: Final = Parameter(
    "traceId",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "Return only rows of this trace: 32 or 16 hexadecimal digits. Without a time window, the time range of the trace "
    "applies.",
)
TRACE_IN_PATH: Final = Parameter(
    "traceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "Trace id: 32 or 16 hexadecimal digits in either case. Any other text returns 404.",
)
SPAN_IN_PATH: Final = Parameter(
    "spanId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_SPAN_ID)],
    "Span id: 16 hexadecimal digits in either case.",
)
SPAN_SORT: Final = Parameter("sort", "query", Literal["time", "duration"], "Newest or longest first.", default=SORTS[0])
SPAN_LIST: Final = (*TIME, TRACE, FILTERS_OF_SPANS, SPAN_SORT, LIMIT, CURSOR)
LOG_LIST: Final = (*TIME, TRACE, FILTERS_OF_LOGS, LIMIT, CURSOR)


def explore(
    tag: Tag,
    path: str,
    result: type[Any],
    *parameters: Parameter,
    headers: Mapping[str, str] = MappingProxyType({}),
    method: str = "GET",
    **options: Any,
) -> Callable[[F], F]:
    """Declare the method as the handler of an explore endpoint. `headers`: additional headers of the response, with
    their descriptions. `options`: as for `route`.
    """
    described = (inspect.getdoc(result) or "").partition("\n\n")[0]
    response = ResponseSpec(described, json_content(result), headers=headers)
    path = EXPLORE_PATH + path
    return route(
        method, path, bearer(SCOPE), tag=tag, responses=(response,), parameters=parameters, checks_query=True, **options
    )


def analysis(
    tag: Tag, path: str, body: type[Any], result: type[Any], description: str, example: Any
) -> Callable[[F], F]:
    """Declare an endpoint that reads many rows for a body: it has a rate limit of its own, and is cancelled when its
    client disconnects."""
    given = Body(json_content(body), description, example=example)
    limit = LimitClass.ANALYSIS
    return explore(tag, path, result, method="POST", body=given, limit=limit, cancel_on_disconnect=True)


async def _no_body(_request: web.Request, type_: type[Any]) -> Any:
    raise TypeError(f"handlers of explore parse their own bodies, not as {type_}")


_ARGUMENTS: Final = Arguments(_no_body, lambda request, name: request.match_info[name])


@dataclass(frozen=True)
class Endpoints:
    """Base of the endpoints: reads the principal's store, once for all identical requests. `clock`: `now` of a request,
    in nanoseconds since 1970. JSON is encoded in a thread, because a response may have many megabytes.
    """

    stores: ReadStores
    scheduler: QueryScheduler
    signer: CursorSigner
    settings: QuerySettings
    clock: Callable[[], int]
    source_maps: SourceMaps | None = None

    async def respond(
        self, request: web.Request, key: QueryKey, read: Callable[[ReadStore], Awaitable[JsonResult | bytes | None]]
    ) -> web.StreamResponse:
        """Respond with the JSON that `read` returns; None: NotFound."""

        async def make() -> JsonResult:
            async with self.stores.session(requester_of(request)) as store:
                found = await read(store)
            if found is None:
                raise NotFound
            return found if isinstance(found, JsonResult) else JsonResult(found)

        return await self.scheduler.respond(request, key, make)

    async def respond_with(
        self,
        request: web.Request,
        key: QueryKey,
        read: Callable[[ReadStore], Awaitable[T]],
        build: Callable[[T], object],
    ) -> web.StreamResponse:
        """Respond with the result that `build` makes of the rows that `read` returns."""

        async def make() -> JsonResult:
            async with self.stores.session(requester_of(request)) as store:
                found = await read(store)
            return JsonResult(await asyncio.to_thread(lambda: msgspec.json.encode(build(found))))

        return await self.scheduler.respond(request, key, make)

    async def analyse(
        self,
        request: web.Request,
        kind: str,
        plan: Callable[[bytes, int], P],
        read: Callable[[ReadStore, QuerySettings, int, P], Awaitable[T]],
        build: Callable[[P, T, QuerySettings], object],
    ) -> web.StreamResponse:
        """Respond to a body, with the three steps of a module of `query.analysis`."""
        project_id = get_project_id(request)
        planned = plan(await read_body(request, self.settings.timeout_s), self.clock())
        return await self.respond_with(
            request,
            QueryKey.of(kind, project_id, planned, to_ns=planned.window.to_ns),
            lambda store: read(store, self.settings, project_id, planned),
            lambda found: build(planned, found, self.settings),
        )


def explore_routes(handlers: object) -> list[Route]:
    """The routes of an object whose methods `explore` and `analysis` declare."""
    return declared_routes(handlers, SPAN_TAG, _ARGUMENTS)


def get_project_id(request: web.Request) -> int:
    """The project's numeric id; every explore path names a project. TypeError if the route has none."""
    project_id = authorization_context(request).project_id
    if project_id is None:
        raise TypeError("explore routes require a project")
    return project_id


def parse_path_id(request: web.Request, name: str, max_length: int, parse: Callable[[str], T | None]) -> T:
    """Parse an id in the path. Raises BadRequest if it is too long, and NotFound if it cannot be a stored id."""
    issues = Issues()
    text = request.match_info[name]
    if not check_length(f"path.{name}", text, 1, max_length, issues):
        issues.raise_if_any()
    value = parse(text)
    if value is None:
        raise NotFound
    return value
