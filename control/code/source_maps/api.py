"""`/orgs/{orgSlug}/projects/{projectSlug}/source-maps`: upload, list, delete.

Each upload may need the memory of the largest body, so only a few uploads run at once: each takes a place. A slow
client keeps its place only while no other client waits for one.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.errors import JSON_TYPE, BadRequest, Issue, ServiceUnavailable
from chassis.http.access import bearer
from chassis.http.body import read_body, require_media_type
from chassis.http.declaration import Created, PageOf, route
from chassis.http.route import Body, Parameter, Query, Tag, line
from chassis.http.validation import Issues
from chassis.issues import MAX_VERSION_LENGTH
from chassis.source_maps.store import MAX_PATH_LENGTH, source_maps
from control.code.source_maps import store
from control.code.source_maps.parser_process import SourceMapReader
from control.code.source_maps.store import NewSourceMap
from control.http.context import RequestSlots
from control.http.field_types import Timestamp
from control.http.lists import line_filter
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import PageReader, Resource, ids, in_project, shown_as
from proto.identity import Scope
from proto.source_maps.frame_rewriting import url_path

# While an upload waits for a place, the bodies that are being received must arrive at this rate, in bytes per second,
# and may pause for at most this many seconds.
WANTED_RATE: Final = 2**20
MAX_PAUSE_S: Final = 10.0


class UploadPlaces:
    """`limit` places for uploads, given in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._waiting = 0
        self._bodies: set[_Body] = set()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold one of the places for the time of an upload."""
        self._waiting += 1
        try:
            if self._free.locked():
                for body in self._bodies:
                    body.hurry()
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    @asynccontextmanager
    async def receiving(self, max_s: float) -> AsyncIterator[Callable[[int], None]]:
        """Bound the time in which the body of an upload with a place is received. Call the yielded function with the
        number of bytes received so far. Raises TimeoutError after `max_s` seconds, and for a slow body if another
        upload waits for its place.
        """
        async with asyncio.timeout(max_s) as limit:
            body = _Body(limit)
            self._bodies.add(body)
            try:
                if self._waiting:
                    body.hurry()
                yield body.grow
            finally:
                self._bodies.remove(body)


class _Body:
    """A body that is being received. `limit`: a timeout that has been entered."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._end = limit.when() or 0.0
        self._size = 0
        self._deadline: float | None = None  # by the clock of the event loop; None: no upload has waited yet

    def hurry(self) -> None:
        """Require a minimum rate from now on, because another upload waits for the place."""
        if self._deadline is None:
            self._set_deadline(asyncio.get_running_loop().time() + MAX_PAUSE_S)

    def grow(self, size: int) -> None:
        """Note the number of bytes received so far."""
        more, self._size = size - self._size, size
        if self._deadline is not None:
            latest = asyncio.get_running_loop().time() + MAX_PAUSE_S
            self._set_deadline(min(latest, self._deadline + more / WANTED_RATE))

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if not self._limit.expired():
            self._limit.reschedule(min(self._end, deadline))


MAX_MAP_BYTES: Final = 48 * 2**20
MAX_RECEIVING: Final = 2  # at once, of all organizations, one per organization: each may need MAX_MAP_BYTES
MAX_BODY_S: Final = 300.0  # per body, however steadily it arrives
MAX_WAIT_S: Final = 20.0  # wait for a place, in the order of arrival
RETRY_AFTER_S: Final = 10
_PATH: Final = re.compile(r"/[!-~]{0,1023}")
_Release = Annotated[str, Meta(min_length=1, max_length=MAX_VERSION_LENGTH)]

TARGET: Final = (
    Parameter(
        "release", "query", _Release, "The release: the attribute `service.version` of its telemetry.", required=True
    ),
    Parameter(
        "url",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_PATH_LENGTH)],
        "URL or path of the minified file, as it appears in stack traces. Origin, query and fragment are ignored.",
        required=True,
    ),
)
MAP: Final = Body(
    {JSON_TYPE: dict},
    "A source map of version 3 (ECMA-426), with or without sections, at most 48 MiB. `sourcesContent` is not stored.",
    example={"version": 3, "sources": ["../src/cart.ts"], "names": ["add"], "mappings": "AAAO,SAASA"},
)
PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/source-maps"
_WRITE: Final = bearer(Scope.RELEASES_WRITE)


class SourceMapQuery(Query, frozen=True, rename="camel"):
    """The filters of a list of source maps."""

    release: Annotated[str | None, line(MAX_VERSION_LENGTH), Meta(description="Only source maps of this release.")] = (
        None
    )


class SourceMap(msgspec.Struct, frozen=True, rename="camel"):
    """A source map. Its content is not shown."""

    id: str
    release: str
    path: Annotated[
        str,
        Meta(max_length=MAX_PATH_LENGTH, description="Path of the minified file: its URL without origin and query."),
    ]
    debug_id: Annotated[str | None, Meta(description="The UUID that the map and the minified file have in common.")]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the map as uploaded.")]
    bytes: Annotated[int, Meta(ge=0, description="Size as stored.")]
    created_by: Annotated[str | None, Meta(description="Id of the principal that uploaded the map.")]
    created_at: Timestamp


class UploadedSourceMap(SourceMap, frozen=True, rename="camel"):
    """A source map, and the releases whose maps were removed to make room for it."""

    removed_releases: Annotated[
        list[str],
        Meta(description="Releases whose source maps were removed to make room for this source map."),
    ]


def _shown(row: Any, _caller: object = None) -> SourceMap:
    return shown_as(SourceMap, row, digest=row.digest.hex(), bytes=row.size)


MAPS: Final = Resource(
    "sourceMapId",
    ids("smp"),
    Scope.RELEASES_READ,
    source_maps.c.id,
    in_project(source_maps),
    store.SELECT_MAPS,
    _shown,
)


@dataclass(frozen=True, slots=True)
class SourceMapHandlers(Handlers):
    """Handlers of source maps, and their dependencies. `max_bytes`: the limit per project, 0 for no limit.
    `body_min_rate`: the minimum rate of slow bodies, in bytes per second.
    """

    TAG: ClassVar = Tag("source-maps", "Source maps, with which frames of minified JavaScript are shown and grouped.")
    max_bytes: int
    body_min_rate: int
    reader: SourceMapReader = field(default_factory=SourceMapReader)
    slots: RequestSlots = field(
        default_factory=lambda: RequestSlots("Too many source maps are being uploaded at once.", 1)
    )
    places: UploadPlaces = field(default_factory=lambda: UploadPlaces(MAX_RECEIVING))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, bearer(Scope.RELEASES_READ))
    async def list_source_maps(
        self, caller: AuthorizationContext, query: SourceMapQuery, page: PageReader
    ) -> PageOf[SourceMap]:
        """List the source maps of a project, newest first."""
        return await page.of(MAPS, caller, *([source_maps.c.release == query.release] if query.release else []))

    @route("POST", PATH, _WRITE, body=MAP, errors=(409,), parameters=TARGET)
    async def upload_source_map(
        self, request: web.Request, caller: AuthorizationContext
    ) -> Created[UploadedSourceMap] | UploadedSourceMap:
        """Upload the source map of a minified file of a release.

        The map replaces the map of the same release and path. It is used for errors that arrive five seconds later or
        after that, and for display. If the project would have too many source maps, the maps of the releases that were
        uploaded first are deleted. 409 if this release alone has too many.
        """
        require_media_type(request, (JSON_TYPE,))
        async with self._place(caller.org_id):
            raw = await self._receive(request)
            release, path = _target(request)
            digest = hashlib.sha256(raw).digest()
            async with self.context.database.read() as connection:
                known = await store.find_by_path(connection, caller.path_project_id, release, path)
            if known is not None and known.digest == digest:
                return _uploaded(_shown(known), [])
            read = await self.reader.read(raw)
            del raw
            async with begin(self.context, request) as transaction:
                caller = transaction.caller
                new = NewSourceMap(
                    caller.org_id,
                    caller.path_project_id,
                    caller.principal_id,
                    release,
                    path,
                    read.debug_id,
                    digest,
                    read.content,
                    self.now(),
                )
                source_map_id, releases = await store.store(transaction.connection, new, self.max_bytes)
                uploaded = await MAPS.show(transaction.connection, caller, source_map_id)
                removed = {"removedReleases": releases[:100]} if releases else {}
                await _record(transaction, "source_map.upload", uploaded, removed)
        return Created(_uploaded(uploaded, releases))

    @asynccontextmanager
    async def _place(self, org_id: str) -> AsyncIterator[None]:
        """One of the places for uploads. The uploads of an organization get places in the order of arrival. Raises
        RateLimited and ServiceUnavailable.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(MAX_WAIT_S):
                    await held.enter_async_context(self.slots.taken(org_id))
                    await held.enter_async_context(self.places.taken())
            except TimeoutError as error:
                raise ServiceUnavailable(
                    "Other source maps are being uploaded. Retry later.", RETRY_AFTER_S, close=True
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

    @route("DELETE", PATH + "/{sourceMapId}", _WRITE)
    async def delete_source_map(self, source_map_id: str, transaction: Transaction) -> None:
        """Delete a source map. Fingerprints that were computed with it do not change."""
        found = await MAPS.show(transaction.connection, transaction.caller, source_map_id)
        await store.delete(transaction.connection, transaction.caller.path_project_id, source_map_id)
        await _record(transaction, "source_map.delete", found, {})


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
    elif not {".", ".."}.isdisjoint(path.split("/")):  # browsers resolve them, so they do not occur in frames
        issues.add("query.url", "Must not have segments `.` or `..`.", "format")
    issues.raise_if_any("The query is not valid.")
    if release is None:
        raise BadRequest("The query is not valid.", [Issue("query.release", "Is required.", "missing")])
    return release, path


def _uploaded(shown: SourceMap, removed_releases: list[str]) -> UploadedSourceMap:
    return UploadedSourceMap(**msgspec.structs.asdict(shown), removed_releases=removed_releases)


async def _record(transaction: Transaction, action: str, shown: SourceMap, more: Mapping[str, object]) -> None:
    data = {"projectSlug": transaction.caller.project_slug, "release": shown.release, "path": shown.path}
    await transaction.record(action, shown.id, {**data, "digest": shown.digest, **more})
