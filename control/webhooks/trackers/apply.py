"""What trackers report, applied to links, issues and change events. Runs in the caller's write transaction, with a
number of statements that grows only with the projects that an event concerns: at most MAX_LINKS_OF_ITEM of issues, at
most `control.integrations.model.MAX_PROJECTS` of change events.

A link follows its item: a report that is older than the last one changes nothing, in whatever order reports arrive. An
issue follows the state of a link when this changes, so a report that says the same again resolves or reopens nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.issues.tables import issues
from control.changes.repository import NewChangeEvent, create_change
from control.http.query_filters import find_project_ids
from control.integrations.model import Integration
from control.issue_links import repository
from control.issue_links.repository import IssuePlace, StoredLink
from control.issues.references import NamedIssue, References
from control.issues.tables import ActivityKind, LinkState
from control.scm.issue_changes import (
    SELECT_NAMED,
    NamedChange,
    find_named,
    named_issue,
    note_all,
    reopen_all,
    resolve_all,
)
from control.webhooks.platform import PayloadError
from control.webhooks.trackers.events import (
    ChangeReport,
    IssueReport,
    LinkCreated,
    LinkDeleted,
    TicketReport,
    TrackerEvent,
)

MAX_LINKS_OF_ITEM: Final = 50  # the oldest; further ones are not followed


class IntegrationResult(msgspec.Struct, frozen=True, rename="camel"):
    """What an event did. `event`: the platform's name of it."""

    received: bool
    event: str
    change_events_created: int = 0
    issues_updated: int = 0
    links_updated: int = 0


async def apply_tracker_event(
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
    found = await repository.find_by_external_id(connection, integration.org_id, report.item, MAX_LINKS_OF_ITEM)
    newer = [link for link in found if (link.changed_at or report.updated_at) <= report.updated_at]
    if not newer:
        return 0, 0
    named = await _find_issues(connection, [link.issue_id for link in newer])
    links = [link for link in newer if link.issue_id in named]
    values: dict[str, Any] = {"title": report.title, "state": report.state}
    values = {name: value for name, value in values.items() if value is not None}
    changed = [link for link in links if any(getattr(link, name) != value for name, value in values.items())]
    same = [link for link in links if link not in changed]
    for some, at in ((changed, now), (same, None)):
        if some:
            ids = [link.id for link in some]
            await repository.set_reported(connection, ids, values, changed_at=report.updated_at, now=at)
    if not changed:
        return 0, 0
    by = {"integrationId": integration.id}
    notes = [NamedChange(named[link.issue_id], _link_data(link) | values | by) for link in changed]
    await note_all(connection, notes, ActivityKind.LINK_CHANGED, now=now, by=None)
    if not integration.config.sync_status or report.state is None:
        return len(changed), 0
    turned = [link for link in changed if _has_turned(link, report.state)]
    why = [NamedChange(named[link.issue_id], {"url": link.url, **by}) for link in turned]
    return len(changed), await _set_status(connection, why, report.state, now)


def _has_turned(link: StoredLink, state: LinkState) -> bool:
    """Whether an issue follows. What nobody knew to be closed was not reopened."""
    return link.state is not state and (state is LinkState.CLOSED or link.state is LinkState.CLOSED)


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
    return len(await set_status(connection, changes, now=now, by=None))


async def _create_link(
    connection: AsyncConnection, integration: Integration, report: LinkCreated, now: datetime
) -> int:
    """0 for an issue that does not exist, or that has this link."""
    created = 0
    for issue in await _find_named(connection, integration, report.issue):
        try:
            link, is_new = await repository.create_link(
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
        link = await repository.find_link_to(connection, place, report.item)
        if link is not None:
            deleted += 1
            await repository.delete_link(connection, place, link.id)
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


async def _find_issues(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, NamedIssue]:
    """Those of projects that are not deleted, by id."""
    found = SELECT_NAMED.where(issues.c.id.in_(sorted(set(ids))), projects.c.deleted_at.is_(None))
    rows: sa.CursorResult[Any] = await connection.execute(found)
    return {row.id: named_issue(row) for row in rows}


def _link_data(link: StoredLink) -> dict[str, object]:
    return {"linkId": link.id, "url": link.url, "title": link.title, "system": link.system, "state": link.state}
