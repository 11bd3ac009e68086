"""Change events of an organization, `/orgs/{orgSlug}/changes`. They are recorded through the API, by reports of
releases, and by other systems.

`Changes.create_change` reads a body and records it in one transaction (`create_change`). If an event with the same
deduplication key exists, the answer is that event. Events older than 400 days are deleted when further events are
recorded. So are the oldest events of an organization that has the maximum number. Explore shows the events of a time
range (`chassis.changes`).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id
from chassis.changes import (
    MAX_DEDUPE_KEY_LENGTH,
    MAX_DETAIL_LENGTH,
    MAX_NAME_LENGTH,
    MAX_TITLE_LENGTH,
    SELECT_CHANGES,
    ChangeFilter,
    ChangeKind,
    ChangePosition,
    StoredChange,
    change_events,
    list_changes,
)
from chassis.db.database import format_time, to_milliseconds
from chassis.http.access import bearer
from chassis.http.declaration import Created, PageOf, route
from chassis.http.route import Body, Query, Tag, json_content
from chassis.http.route import line as line_filter
from chassis.http.validation import Issues
from control.code.row_limits import RowLimit
from control.http.field_types import Slug, TimeInput, TimeRange, Timestamp, Url, check_url, line, lines, parse_time
from control.http.lists import ProjectFilter, require_project_id
from control.routing.arguments import Handlers, Transaction, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import Scope

MAX_CHANGES: Final = 50_000  # per organization; beyond it the oldest are deleted
MAX_AGE: Final = timedelta(days=400)
MAX_AHEAD: Final = timedelta(days=1)  # a change may be planned, and clocks differ
_PRUNED_AT_ONCE: Final = 1_000

_limit: Final = RowLimit(change_events)


RELEASE_KEYS: Final = "release:"  # prefix of the dedupe keys of releases; callers may not use it


@dataclass(frozen=True, slots=True)
class NewChangeEvent:
    """A change event to record. `source`: the platform that reports the event."""

    kind: ChangeKind
    title: str
    at: datetime
    source: str
    project_id: int | None = None
    detail: str | None = None
    environment: str | None = None
    release: str | None = None
    service: str | None = None
    url: str | None = None
    dedupe_key: str | None = None
    created_by: str | None = None


class RecordedChange(NamedTuple):
    """The event, and whether it is new."""

    id: str
    is_new: bool


async def create_change(connection: AsyncConnection, org_id: str, new: NewChangeEvent, now: datetime) -> RecordedChange:
    """Record an event, or find the event with its deduplication key, which is not changed."""
    if new.dedupe_key is not None:
        same = (change_events.c.org_id == org_id) & (change_events.c.dedupe_key == new.dedupe_key)
        known = await connection.scalar(sa.select(change_events.c.id).where(same))
        if known is not None:
            return RecordedChange(known, is_new=False)
    await _prune(connection, org_id, now)
    change_id = new_id("chg")
    await connection.execute(
        change_events.insert().values({"id": change_id, "org_id": org_id, "created_at": now, **asdict(new)})
    )
    return RecordedChange(change_id, is_new=True)


async def _prune(connection: AsyncConnection, org_id: str, now: datetime) -> None:
    """Make room for one event: delete the events that are too old, then the oldest events."""
    of_org = change_events.c.org_id == org_id
    oldest_first = sa.select(change_events.c.id).where(of_org).order_by(change_events.c.at, change_events.c.id)
    outdated = oldest_first.where(change_events.c.at < now - MAX_AGE).limit(_PRUNED_AT_ONCE)
    await connection.execute(change_events.delete().where(change_events.c.id.in_(outdated)))
    surplus = await _limit.find_surplus(connection, org_id, 1, MAX_CHANGES, _PRUNED_AT_ONCE)
    if surplus:
        await connection.execute(change_events.delete().where(change_events.c.id.in_(oldest_first.limit(surplus))))


SOURCE: Final = "api"
PATH: Final = "/orgs/{orgSlug}/changes"
_READ: Final = bearer(Scope.RELEASES_READ)
_WRITE: Final = bearer(Scope.RELEASES_WRITE)
_Name = Annotated[str, line(MAX_NAME_LENGTH)]
_Kind = Annotated[ChangeKind, Meta(description="The kind of change. `flag`: a feature flag was changed.")]


class ChangeQuery(Query, frozen=True, rename="camel"):
    """The filters of a list of change events."""

    project: ProjectFilter = None
    kind: Annotated[ChangeKind | None, Meta(description="Only changes of this kind.")] = None
    environment: Annotated[
        str | None, line_filter(MAX_NAME_LENGTH), Meta(description="Only changes in this environment.")
    ] = None


class NewChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The change event to record."""

    kind: _Kind
    title: Annotated[str, line(MAX_TITLE_LENGTH)]
    project: Annotated[
        Slug | None, Meta(description="Must be the slug of the project. `null`: the change concerns all projects.")
    ] = None
    detail: Annotated[str, lines(MAX_DETAIL_LENGTH)] | None = None
    at: Annotated[
        TimeInput | None,
        Meta(
            description="Must be an RFC 3339 time, at most 400 days ago. It is the time of the change, by default "
            "the current time."
        ),
    ] = None
    environment: _Name | None = None
    release: _Name | None = None
    service: _Name | None = None
    url: Url | None = None
    dedupe_key: Annotated[
        Annotated[str, line(MAX_DEDUPE_KEY_LENGTH)] | None,
        Meta(description="Must be one line. Recording a change again with the same key changes nothing."),
    ] = None


EXAMPLE: Final = {
    "kind": "flag",
    "title": "new-checkout: 50 %",
    "project": "web",
    "environment": "production",
    "dedupeKey": "new-checkout-17",
}


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A change event. `project` is null if the change concerns all projects. `source`: the system that reported it."""

    id: Annotated[str, Meta(pattern="^chg_[0-9a-z]{26}$")]
    kind: _Kind
    title: Annotated[str, line(MAX_TITLE_LENGTH)]
    project: Slug | None
    detail: str | None
    at: Timestamp
    environment: str | None
    release: str | None
    service: str | None
    url: str | None
    source: Annotated[str, Meta(description="`api`, `release`, or the name of the platform that reported the change.")]
    dedupe_key: str | None
    created_by: str | None
    created_at: Timestamp


def _shown(row: StoredChange, _caller: object = None) -> Change:
    return shown_as(Change, row, project=row.project_slug)


CHANGES: Final = Resource(
    "changeId",
    ids("chg"),
    Scope.RELEASES_READ,
    change_events.c.id,
    in_organization(change_events),
    SELECT_CHANGES,
    _shown,
)


@dataclass(frozen=True, slots=True)
class Changes(Handlers):
    """Handlers of change events, and their dependencies."""

    TAG: ClassVar = Tag("changes", "Change events: deployments, releases, flags and other changes on a time line.")
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, _READ)
    async def list_changes(
        self, caller: AuthorizationContext, window: TimeRange, query: ChangeQuery, page: PageReader
    ) -> PageOf[Change]:
        """List change events, newest first.

        With `project`, the list also contains the changes that concern all projects.
        """

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> list[StoredChange]:
            project_id = await require_project_id(connection, caller.org_id, query.project, "query.project")
            wanted = ChangeFilter(caller.org_id, window.since, window.until, project_id, query.kind, query.environment)
            return await list_changes(connection, wanted, _position(after), limit)

        return await page.read(("changes", caller.org_id, window, query), fetch, _shown, _key)

    @route("POST", PATH, _WRITE, body=Body(json_content(NewChange), example=EXAMPLE))
    async def create_change(self, request: web.Request) -> Created[Change] | Change:
        """Record a change event.

        200 with the existing event if one with this `dedupeKey` was recorded before. The existing event is not changed.
        """
        issues, now = Issues(), to_milliseconds(self.now())
        body = await self.context.read_body(request, NewChange, issues)
        at = _parse_at(body.at, now, issues)
        check_url(body.url, "body.url", issues)
        if body.dedupe_key is not None and body.dedupe_key.startswith(RELEASE_KEYS):
            issues.add(
                "body.dedupeKey", f"Must not begin with {RELEASE_KEYS}, which is reserved for releases.", "not_allowed"
            )
        issues.raise_if_any("The request body is not valid.")
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            given = msgspec.structs.asdict(body)
            project_id = await require_project_id(connection, caller.org_id, given.pop("project"), "body.project")
            more = {"at": at, "source": SOURCE, "project_id": project_id, "created_by": caller.principal_id}
            change_id, is_new = await create_change(connection, caller.org_id, NewChangeEvent(**given | more), now)
            change = await CHANGES.show(connection, caller, change_id)
            if is_new:
                await _record(transaction, "change.create", change)
        return Created(change) if is_new else change

    @route("GET", PATH + "/{changeId}", _READ)
    async def show_change(self, change_id: str, caller: AuthorizationContext, connection: AsyncConnection) -> Change:
        """Show a change event."""
        return await CHANGES.show(connection, caller, change_id)

    @route("DELETE", PATH + "/{changeId}", _WRITE)
    async def delete_change(self, change_id: str, transaction: Transaction) -> None:
        """Delete a change event."""
        change = await CHANGES.show(transaction.connection, transaction.caller, change_id)
        await CHANGES.delete(transaction.connection, transaction.caller, change_id)
        await _record(transaction, "change.delete", change)


def _parse_at(text: str | None, now: datetime, issues: Issues) -> datetime:
    """Parse the time of the change, and record faults."""
    at = now if text is None else parse_time(text, "body.at", issues)
    if at is not None and not now - MAX_AGE <= at <= now + MAX_AHEAD:
        issues.add(
            "body.at", f"Must be at most {MAX_AGE.days} days ago and at most {MAX_AHEAD.days} day ahead.", "range"
        )
    return now if at is None else at


def _key(change: StoredChange) -> str:
    return f"{format_time(change.at)} {change.id}"


def _position(after: str | None) -> ChangePosition | None:
    if after is None:
        return None
    at, _, change_id = after.partition(" ")
    return ChangePosition(datetime.fromisoformat(at), change_id)


async def _record(transaction: Transaction, action: str, change: Change) -> None:
    await transaction.record(action, change.id, {"kind": change.kind, "title": change.title, "project": change.project})
