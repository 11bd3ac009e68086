"""Reports of trackers, the same for all platforms, and their effects on links, issues and change events.

Parsing a report is pure: it turns a platform's body into these values. Texts that a platform generates are shortened to
the limits of the database. A text that a person configured is refused if it does not fit.

Reports are applied in the caller's write transaction. The number of statements grows only with the number of projects
that an event concerns: at most MAX_LINKS_OF_ITEM for issues, at most `control.inbound.integrations.tables.MAX_PROJECTS`
for change events. A link follows its item: a report that is older than the last one changes nothing, even if it arrives
later. An issue follows the state of a link only when that state changes, so a repeated report resolves or reopens
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.changes import ChangeKind
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.code.changes import MAX_AGE, NewChangeEvent, create_change
from control.code.fixes.named_issues import NamedChange, find_named, note_all, reopen_all, resolve_all
from control.code.fixes.updates import Author
from control.code.issue_links import store
from control.code.issue_links.addresses import ExternalItem
from control.code.issue_links.store import IssuePlace, StoredLink, TicketState, change_links
from control.http.lists import find_project_ids
from control.inbound.integrations.tables import MAX_EVENT_LENGTH, Integration
from control.inbound.webhooks.platform import PayloadError
from control.issues.references import NamedIssue, References
from control.issues.tables import ActivityKind, LinkState

# Of a platform's clock. After a report with a time far ahead, all later reports would count as older.
MAX_AHEAD: Final = timedelta(hours=1)
MAX_MILLISECONDS: Final = 253_402_300_799_000  # the year 9999
_MAX_TIME_LENGTH: Final = 40

EventName = Annotated[str, Meta(min_length=1, max_length=MAX_EVENT_LENGTH, pattern=r"^[A-Za-z0-9_:.-]+(?!\n)$")]
Milliseconds = Annotated[int, Meta(ge=0, le=MAX_MILLISECONDS)]


@dataclass(frozen=True, slots=True)
class TicketReport:
    """The state of an item in another system, as of `updated_at`. None: not reported."""

    item: ExternalItem
    title: str | None
    state: LinkState | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class IssueReport:
    """A Sluice issue, named as such, was closed or reopened in another system."""

    issue: References
    state: LinkState


@dataclass(frozen=True, slots=True)
class LinkCreated:
    """A Sluice issue was linked to an item of another system."""

    issue: References
    item: ExternalItem
    url: str
    title: str | None
    state: LinkState | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LinkDeleted:
    """The link between a Sluice issue and an item was removed in the other system."""

    issue: References
    item: ExternalItem


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """A change happened. `key` identifies the change within the integration. `project`: the slug of the project, None
    for the projects of the integration.
    """

    kind: ChangeKind
    title: str
    at: datetime
    key: str
    detail: str | None = None
    environment: str | None = None
    service: str | None = None
    release: str | None = None
    url: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class TrackerEvent:
    """The platform's name of an event, and the report. `report`: None if the event changes nothing in Sluice."""

    name: str
    report: TicketReport | IssueReport | LinkCreated | LinkDeleted | ChangeReport | None


def parse_time(text: str, received_at: datetime) -> datetime:
    """Parse a platform's time, ISO 8601 with a time zone, to milliseconds. Raises PayloadError."""
    try:
        if len(text) > _MAX_TIME_LENGTH:
            raise ValueError
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError
        return check_time(time.astimezone(UTC), received_at)
    except (ValueError, OverflowError):
        raise PayloadError("A time is not in ISO 8601 with a time zone.") from None


def check_time(time: datetime, received_at: datetime) -> datetime:
    """The time in milliseconds. Raises PayloadError for one in the future, or before 1970."""
    if time > received_at + MAX_AHEAD:
        raise PayloadError("A time is in the future.")
    if time.year < 1970:
        raise PayloadError("A time is before 1970.")
    return to_milliseconds(time)


def check_change_time(at: datetime, received_at: datetime) -> datetime:
    """The time of a change event. Raises PayloadError for one that is too old to keep."""
    if at < received_at - MAX_AGE:
        raise PayloadError(f"The change is more than {MAX_AGE.days} days old.")
    return at


MAX_LINKS_OF_ITEM: Final = 50  # the oldest links; further links are not followed


class IntegrationResult(msgspec.Struct, frozen=True, rename="camel"):
    """The effects of an event. `event`: the platform's name of the event."""

    received: bool
    event: str
    change_events_created: int = 0
    issues_updated: int = 0
    links_updated: int = 0


async def apply_tracker_event(
    connection: AsyncConnection, integration: Integration, event: TrackerEvent, now: datetime
) -> IntegrationResult:
    """Apply an event. Raises PayloadError for an event that cannot be applied."""
    now = to_milliseconds(now)
    changes = issues_updated = links = 0
    match event.report:
        case TicketReport() as report:
            links, issues_updated = await _apply_ticket(connection, integration, report, now)
        case IssueReport() as report:
            issues_updated = await _apply_issue(connection, integration, report, now)
        case LinkCreated() as report:
            links = await _create_link(connection, integration, report, now)
        case LinkDeleted() as report:
            links = await _delete_link(connection, integration, report, now)
        case ChangeReport() as report:
            changes = await _create_changes(connection, integration, report, now)
        case None:
            pass
    return IntegrationResult(True, event.name, changes, issues_updated, links)


async def _apply_ticket(
    connection: AsyncConnection, integration: Integration, report: TicketReport, now: datetime
) -> tuple[int, int]:
    """Update the links and issues of a ticket. Returns how many links and issues have changed."""
    links = await store.find_by_external_id(connection, integration.org_id, report.item, MAX_LINKS_OF_ITEM)
    author = Author(integration.org_id, integration.org_slug, None, now, integration.id)
    ticket = TicketState(report.title, report.state, report.updated_at)
    synced = await change_links(connection, author, links, ticket, sync=integration.config.sync_status)
    return synced.links_changed, len(synced.issues_resolved) + len(synced.issues_reopened)


async def _apply_issue(
    connection: AsyncConnection, integration: Integration, report: IssueReport, now: datetime
) -> int:
    """Resolve or reopen issues. Returns how many were resolved or reopened."""
    if not integration.config.sync_status:
        return 0
    found = await _find_named(connection, integration, report.issue)
    why = [NamedChange(one, {"integrationId": integration.id}) for one in found]
    set_status = resolve_all if report.state is LinkState.CLOSED else reopen_all
    return len(await set_status(connection, why, now=now, by=None, decided_at=now))


async def _create_link(
    connection: AsyncConnection, integration: Integration, report: LinkCreated, now: datetime
) -> int:
    """Create a link. Returns 0 if the issue does not exist or already has this link."""
    created = 0
    for issue in await _find_named(connection, integration, report.issue):
        try:
            link, is_new = await store.create_link(
                connection,
                IssuePlace(integration.org_id, issue.project_id, issue.id),
                report.item,
                url=report.url,
                title=report.title,
                state=report.state,
                created_by=None,
                now=now,
                changed_at=report.updated_at,
            )
        except Conflict as conflict:
            raise PayloadError(conflict.message) from conflict
        if is_new:
            created += 1
            data = _link_data(link) | {"integrationId": integration.id}
            await note_all(connection, [NamedChange(issue, data)], ActivityKind.LINK_ADDED, now=now, by=None)
    return created


async def _delete_link(
    connection: AsyncConnection, integration: Integration, report: LinkDeleted, now: datetime
) -> int:
    deleted = 0
    for issue in await _find_named(connection, integration, report.issue):
        place = IssuePlace(integration.org_id, issue.project_id, issue.id)
        link = await store.find_link_to(connection, place, report.item)
        if link is not None:
            deleted += 1
            await store.delete_link(connection, place, link.id)
            data = _link_data(link) | {"integrationId": integration.id}
            await note_all(connection, [NamedChange(issue, data)], ActivityKind.LINK_REMOVED, now=now, by=None)
    return deleted


async def _create_changes(
    connection: AsyncConnection, integration: Integration, report: ChangeReport, now: datetime
) -> int:
    """Create one event for each project, or one event for all projects. Raises PayloadError for an unknown project."""
    org_id = integration.org_id
    slugs = list(integration.config.projects) if report.project is None else [report.project]
    known = await find_project_ids(connection, org_id, slugs) if slugs else {}
    if report.project is not None and report.project not in known:
        raise PayloadError("change.project is not a project of the organization.")
    project_ids: list[int | None] = [None] if not slugs else [*sorted(known.values())]
    created = 0
    for project_id in project_ids:
        new = NewChangeEvent(
            kind=report.kind,
            title=report.title,
            at=report.at,
            source=integration.kind.value,
            project_id=project_id,
            detail=report.detail,
            environment=report.environment,
            release=report.release,
            service=report.service,
            url=report.url,
            dedupe_key=f"{integration.id}:{'' if project_id is None else project_id}:{report.key}",
        )
        created += (await create_change(connection, org_id, new, now)).is_new
    return created


async def _find_named(
    connection: AsyncConnection, integration: Integration, references: References
) -> Sequence[NamedIssue]:
    return (await find_named(connection, integration.org_id, [references])).resolve(references)


def _link_data(link: StoredLink) -> dict[str, object]:
    return {"linkId": link.id, "url": link.url, "title": link.title, "system": link.system, "state": link.state}
