"""What trackers report, applied to links, issues and change events. Runs in the caller's write transaction, with a
number of statements that grows only with the projects that an event concerns: at most MAX_LINKS_OF_ITEM of issues, at
most `control.inbound.integrations.tables.MAX_PROJECTS` of change events.

A link follows its item: a report that is older than the last one changes nothing, in whatever order reports arrive. An
issue follows the state of a link when this changes, so a report that says the same again resolves or reopens nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.code.changes import NewChangeEvent, create_change
from control.code.fixes.named_issues import NamedChange, find_named, note_all, reopen_all, resolve_all
from control.code.fixes.updates import Author
from control.code.issue_links import store
from control.code.issue_links.store import IssuePlace, StoredLink, TicketState, change_links
from control.http.lists import find_project_ids
from control.inbound.integrations.tables import Integration
from control.inbound.webhooks.platform import PayloadError
from control.inbound.webhooks.trackers.events import (
    ChangeReport,
    IssueReport,
    LinkCreated,
    LinkDeleted,
    TicketReport,
    TrackerEvent,
)
from control.issues.references import NamedIssue, References
from control.issues.tables import ActivityKind, LinkState

MAX_LINKS_OF_ITEM: Final = 50  # the oldest; further ones are not followed


class IntegrationResult(msgspec.Struct, frozen=True, rename="camel"):
    """What an event did. `event`: the platform's name of it."""

    received: bool
    event: str
    change_events_created: int = 0
    issues_updated: int = 0
    links_updated: int = 0


async def record_tracker_event(
    connection: AsyncConnection, integration: Integration, event: TrackerEvent, now: datetime
) -> IntegrationResult:
    """Apply an event. Raises PayloadError for one that cannot be."""
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
    """How many links and issues have changed."""
    links = await store.find_by_external_id(connection, integration.org_id, report.item, MAX_LINKS_OF_ITEM)
    author = Author(integration.org_id, integration.org_slug, None, now, integration.id)
    ticket = TicketState(report.title, report.state, report.updated_at)
    synced = await change_links(connection, author, links, ticket, sync=integration.config.sync_status)
    return synced.links_changed, len(synced.issues_resolved) + len(synced.issues_reopened)


async def _apply_issue(
    connection: AsyncConnection, integration: Integration, report: IssueReport, now: datetime
) -> int:
    if not integration.config.sync_status:
        return 0
    found = await _find_named(connection, integration, report.issue)
    why = [NamedChange(one, {"integrationId": integration.id}) for one in found]
    return await _set_status(connection, why, report.state, now)


async def _set_status(
    connection: AsyncConnection, changes: Sequence[NamedChange], state: LinkState, now: datetime
) -> int:
    """How many issues were resolved or reopened."""
    if not changes:
        return 0
    set_status = resolve_all if state is LinkState.CLOSED else reopen_all
    return len(await set_status(connection, changes, now=now, by=None, decided_at=now))


async def _create_link(
    connection: AsyncConnection, integration: Integration, report: LinkCreated, now: datetime
) -> int:
    """0 for an issue that does not exist, or that has this link."""
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
    """One event for each project, or one of all projects. Raises PayloadError for an unknown project."""
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
    index = await find_named(connection, integration.org_id, [references])
    return index.resolve(references)


def _link_data(link: StoredLink) -> dict[str, object]:
    return {"linkId": link.id, "url": link.url, "title": link.title, "system": link.system, "state": link.state}
