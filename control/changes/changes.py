"""`/orgs/{orgSlug}/changes`: list, create, show, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.changes.repository import ChangeFilter, ChangePosition, StoredChange, list_changes
from chassis.changes.tables import MAX_NAME_LENGTH, ChangeKind
from chassis.db.database import format_time, to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.changes.repository import (
    MAX_AGE,
    MAX_AHEAD,
    RELEASE_KEYS,
    NewChangeEvent,
    create_change,
    delete_change,
    find_change,
)
from control.changes.schemas import Change, ChangePage, NewChange, change_body
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.query_filters import (
    PROJECT_FILTER,
    choice_filter,
    find_project_id,
    line_filter,
    require_project_id,
)
from control.http.time_input import MAX_TIME_LENGTH, parse_time, parse_time_range
from control.http.url_input import check_url
from proto.identity import MAX_SLUG_LENGTH, Scope

SOURCE: Final = "api"
TAG: Final = Tag("changes", "Change events: deployments, releases, flags and other changes on a time line.")
_Time = Annotated[str, Meta(min_length=1, max_length=MAX_TIME_LENGTH)]
_FILTERS: Final = (
    Parameter("from", "query", _Time, "Start of the time range, inclusive (RFC 3339).", example="2026-11-20T00:00:00Z"),
    Parameter("to", "query", _Time, "End of the time range, exclusive (RFC 3339)."),
    PROJECT_FILTER,
    Parameter("kind", "query", ChangeKind, "Only changes of this kind."),
    Parameter(
        "environment",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)],
        "Only changes in this environment.",
    ),
)
_ID: Final = (Parameter("changeId", "path", Annotated[str, Meta(min_length=1)], "The change event."),)
LIST: Final = Operation(
    "listChanges", TAG, (ResponseSpec("A page.", json_content(ChangePage)),), (*_FILTERS, *PAGE_PARAMETERS)
)
CREATE: Final = Operation(
    "createChange",
    TAG,
    (
        ResponseSpec("The change event.", json_content(Change), 201),
        ResponseSpec("The event that has this deduplication key.", json_content(Change)),
    ),
    body=Body(
        json_content(NewChange),
        example={
            "kind": "flag",
            "title": "new-checkout: 50 %",
            "project": "web",
            "environment": "production",
            "dedupeKey": "new-checkout-17",
        },
    ),
)
SHOW: Final = Operation("showChange", TAG, (ResponseSpec("The change event.", json_content(Change)),), _ID)
DELETE: Final = Operation("deleteChange", TAG, (ResponseSpec("The event was deleted.", status=204),), _ID)


@dataclass(frozen=True, slots=True)
class Changes:
    """Handlers of change events, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/changes", "/orgs/{orgSlug}/changes/{changeId}"
        read, write = bearer(Scope.RELEASES_READ), bearer(Scope.RELEASES_WRITE)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List change events, newest first.

        With `project`, those that concern all projects are listed, too.
        """
        org_id, query = authorization_context(request).org_id, request.query
        issues = Issues()
        since, until = parse_time_range(query, issues)
        slug = line_filter(query, "project", MAX_SLUG_LENGTH, issues)
        kind = choice_filter(query, "kind", ChangeKind, issues)
        environment = line_filter(query, "environment", MAX_NAME_LENGTH, issues)
        binding = repr(("changes", org_id, since, until, slug, kind, environment)).encode()
        async with self.context.database.read() as connection:
            project_id = await find_project_id(connection, org_id, slug, "query.project", issues)
            page = parse_page_request(request, self.context.cursors, binding, issues)
            wanted = ChangeFilter(org_id, since, until, project_id, kind, environment)
            found = await list_changes(connection, wanted, _position(page.after), page.limit + 1)
        return json_response(page_body(found, page, change_body, _key, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Record a change event.

        200 with the recorded event if there is one with this `dedupeKey`: it stays as it is.
        """
        issues, now = Issues(), to_milliseconds(self.now())
        body = await self.context.read_body(request, NewChange, issues)
        at = _parse_at(body.at, now, issues)
        check_url(body.url, "body.url", issues)
        if body.dedupe_key is not None and body.dedupe_key.startswith(RELEASE_KEYS):
            issues.add("body.dedupeKey", f"Must not begin with {RELEASE_KEYS}, as those of releases do.", "not_allowed")
        issues.raise_if_any("The request body is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            new = NewChangeEvent(
                kind=body.kind,
                title=body.title,
                at=at,
                source=SOURCE,
                project_id=await require_project_id(connection, caller.org_id, body.project, "body.project"),
                detail=body.detail,
                environment=body.environment,
                release=body.release,
                service=body.service,
                url=body.url,
                dedupe_key=body.dedupe_key,
                created_by=caller.principal_id,
            )
            change, is_new = await create_change(connection, caller.org_id, new, now)
            if is_new:
                await record(connection, caller, "change.create", change.id, _audit_data(change), request_id(request))
        return json_response(change_body(change), status=201 if is_new else 200)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a change event."""
        async with self.context.database.read() as connection:
            return json_response(change_body(await _load(connection, request)))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a change event."""
        async with self.context.write_transaction(request) as (connection, caller):
            change = await _load(connection, request)
            await delete_change(connection, caller.org_id, change.id)
            await record(connection, caller, "change.delete", change.id, _audit_data(change), request_id(request))
        return web.Response(status=204)


def _parse_at(text: str | None, now: datetime, issues: Issues) -> datetime:
    """When the change happened; faults are recorded."""
    at = now if text is None else parse_time(text, "body.at", issues)
    if at is not None and not now - MAX_AGE <= at <= now + MAX_AHEAD:
        issues.add("body.at", f"Must be at most {MAX_AGE.days} days ago and {MAX_AHEAD.days} day ahead.", "range")
    return now if at is None else at


async def _load(connection: AsyncConnection, request: web.Request) -> StoredChange:
    """The event in the path. Raises NotFound."""
    found = await find_change(connection, authorization_context(request).org_id, path_id(request, "changeId"))
    if found is None:
        raise NotFound
    return found


def _key(change: StoredChange) -> str:
    return f"{format_time(change.at)} {change.id}"


def _position(after: str | None) -> ChangePosition | None:
    if after is None:
        return None
    at, _, change_id = after.partition(" ")
    return ChangePosition(datetime.fromisoformat(at), change_id)


def _audit_data(change: StoredChange) -> dict[str, object]:
    return {"kind": change.kind.value, "title": change.title, "project": change.project_slug}
