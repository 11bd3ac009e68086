"""`/orgs/{orgSlug}/projects/{projectSlug}/source-maps`: upload, list, delete."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, Issue, NotFound, ServiceUnavailable
from chassis.http.access import authorization_context, bearer
from chassis.http.body import read_body
from chassis.http.media_type import require_media_type
from chassis.http.operation import JSON_TYPE, Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from chassis.issues.tables import MAX_VERSION_LENGTH
from chassis.source_maps.tables import MAX_PATH_LENGTH
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.query_filters import line_filter
from control.http.request_slots import RequestSlots
from control.source_maps import repository
from control.source_maps.parser_process import SourceMapReader
from control.source_maps.places import UploadPlaces
from control.source_maps.repository import NewSourceMap, StoredSourceMap
from control.source_maps.schemas import SourceMapPage, UploadedSourceMap, source_map_body, uploaded_body
from proto.identity import Scope
from proto.source_maps.frame_rewriting import url_path

MAX_MAP_BYTES: Final = 48 * 2**20
MAX_RECEIVING: Final = 2  # at once, of all organizations, one of each: each may hold MAX_MAP_BYTES
MAX_BODY_S: Final = 300.0  # of a body, however steadily it arrives
MAX_WAIT_S: Final = 20.0  # for a place, in the order of arrival
RETRY_AFTER_S: Final = 10
_PATH: Final = re.compile(r"/[!-~]{0,1023}")
_Release = Annotated[str, Meta(min_length=1, max_length=MAX_VERSION_LENGTH)]

TAG: Final = Tag("source-maps", "Source maps, by which frames of minified JavaScript are shown and grouped.")
_RELEASE: Final = Parameter(
    "release", "query", _Release, "The release: `service.version` of its telemetry.", required=True
)
_URL: Final = Parameter(
    "url",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_PATH_LENGTH)],
    "URL or path of the minified file, as stack traces have it. Origin, query and fragment do not count.",
    required=True,
)
_ID: Final = Parameter("sourceMapId", "path", Annotated[str, Meta(min_length=1)], "The source map.")
UPLOAD: Final = Operation(
    "uploadSourceMap",
    TAG,
    (
        ResponseSpec("The source map was stored.", json_content(UploadedSourceMap), 201),
        ResponseSpec("The same source map was stored before.", json_content(UploadedSourceMap)),
    ),
    (_RELEASE, _URL),
    body=Body(
        {JSON_TYPE: dict},
        "A source map of version 3 (ECMA-426), also one with sections; at most 48 MiB. `sourcesContent` is not stored.",
        example={"version": 3, "sources": ["../src/cart.ts"], "names": ["add"], "mappings": "AAAO,SAASA"},
    ),
    error_statuses=(409,),
)
LIST: Final = Operation(
    "listSourceMaps",
    TAG,
    (ResponseSpec("A page.", json_content(SourceMapPage)),),
    (Parameter("release", "query", _Release, "Only those of this release."), *PAGE_PARAMETERS),
)
DELETE: Final = Operation("deleteSourceMap", TAG, (ResponseSpec("The source map was deleted.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class SourceMapHandlers:
    """Handlers of source maps, and their dependencies. `max_bytes`: of a project; 0: no limit. `body_min_rate`: of
    bodies that take longer than others, bytes per second.
    """

    context: HandlerContext
    max_bytes: int
    body_min_rate: int
    reader: SourceMapReader = field(default_factory=SourceMapReader)
    slots: RequestSlots = field(default_factory=lambda: RequestSlots("Too many source maps are uploaded at once.", 1))
    places: UploadPlaces = field(default_factory=lambda: UploadPlaces(MAX_RECEIVING))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, write = "/orgs/{orgSlug}/projects/{projectSlug}/source-maps", bearer(Scope.RELEASES_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.RELEASES_READ), operation=LIST),
            Route("POST", every, self.upload, write, operation=UPLOAD),
            Route("DELETE", every + "/{sourceMapId}", self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the source maps of a project, newest first."""
        project_id, issues = _project_id(authorization_context(request)), Issues()
        release = line_filter(request.query, "release", MAX_VERSION_LENGTH, issues)
        binding = repr(("source maps", project_id, release)).encode()
        page = parse_page_request(request, self.context.cursors, binding, issues)
        async with self.context.database.read() as connection:
            found = await repository.list_maps(connection, project_id, release, page.after, page.limit + 1)
        return json_response(page_body(found, page, source_map_body, lambda one: one.id, self.context.cursors, binding))

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Upload the source map of a minified file of a release.

        It replaces the one of the same release and path. It counts for errors that arrive from five seconds later on,
        and for display. If the project would have too many source maps, the releases whose maps were uploaded first
        lose theirs; 409 if this release alone has too many.
        """
        caller = authorization_context(request)
        require_media_type(request, (JSON_TYPE,))
        async with self._place(caller.org_id):
            raw = await self._receive(request)
            release, path = _target(request)
            digest = hashlib.sha256(raw).digest()
            async with self.context.database.read() as connection:
                known = await repository.find_by_path(connection, _project_id(caller), release, path)
            if known is not None and known.digest == digest:
                return json_response(uploaded_body(known, []))
            read = await self.reader.read(raw)
            del raw
            async with self.context.write_transaction(request) as (connection, caller):
                new = NewSourceMap(
                    caller.org_id,
                    _project_id(caller),
                    caller.principal_id,
                    release,
                    path,
                    read.debug_id,
                    digest,
                    read.content,
                    self.now(),
                )
                stored = await repository.store(connection, new, self.max_bytes)
                removed = {"removedReleases": stored.removed_releases[:100]} if stored.removed_releases else {}
                await _record_audit(connection, request, caller, "source_map.upload", stored.source_map, removed)
        return json_response(uploaded_body(stored.source_map, stored.removed_releases), status=201)

    @asynccontextmanager
    async def _place(self, org_id: str) -> AsyncIterator[None]:
        """One of the places for uploads. Organizations have theirs in the order in which they have come. Raises
        RateLimited and ServiceUnavailable.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(MAX_WAIT_S):
                    await held.enter_async_context(self.slots.taken(org_id))
                    await held.enter_async_context(self.places.taken())
            except TimeoutError as error:
                raise ServiceUnavailable(
                    "Other source maps are being uploaded; retry later.", RETRY_AFTER_S, close=True
                ) from error
            yield

    async def _receive(self, request: web.Request) -> bytes:
        try:
            async with self.places.receiving(MAX_BODY_S) as grow:
                return await read_body(
                    request, MAX_MAP_BYTES, self.context.body_timeout_s, grow, min_rate=self.body_min_rate
                )
        except TimeoutError as error:
            raise ServiceUnavailable("The body was not received in time.", close=True) from error

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a source map. Fingerprints that were computed with it stay."""
        source_map_id = path_id(request, "sourceMapId")
        async with self.context.write_transaction(request) as (connection, caller):
            found = await repository.find(connection, _project_id(caller), source_map_id)
            if found is None:
                raise NotFound
            await repository.delete(connection, _project_id(caller), found.id)
            await _record_audit(connection, request, caller, "source_map.delete", found, {})
        return web.Response(status=204)


def _target(request: web.Request) -> tuple[str, str]:
    """The release and the path of the minified file. Raises BadRequest."""
    issues = Issues()
    release = line_filter(request.query, "release", MAX_VERSION_LENGTH, issues)
    url = line_filter(request.query, "url", MAX_PATH_LENGTH, issues)
    for name in ("release", "url"):
        if name not in request.query:
            issues.add(f"query.{name}", "Is required.", "missing")
    path = url_path((url or "").removeprefix("~"))
    if url is not None and (_PATH.fullmatch(path) is None or path == "/"):
        issues.add("query.url", "Must be the URL or the path of a file, in visible ASCII.", "format")
    elif not {".", ".."}.isdisjoint(path.split("/")):  # browsers resolve them, so no frame has them
        issues.add("query.url", "Must have no segments `.` and `..`.", "format")
    issues.raise_if_any("The query is not valid.")
    if release is None:
        raise BadRequest("The query is not valid.", [Issue("query.release", "Is required.", "missing")])
    return release, path


def _project_id(caller: AuthorizationContext) -> int:
    if caller.project_id is None:
        raise LookupError("the path has no project")
    return caller.project_id


async def _record_audit(
    connection: AsyncConnection,
    request: web.Request,
    caller: AuthorizationContext,
    action: str,
    stored: StoredSourceMap,
    more: Mapping[str, object],
) -> None:
    data = {
        "projectSlug": caller.project_slug,
        "release": stored.release,
        "path": stored.path,
        "digest": stored.digest.hex(),
        **more,
    }
    await record(connection, caller, action, stored.id, data, request_id(request))
