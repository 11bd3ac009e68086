"""Reads change events, newest first. Every function runs in the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.changes.tables import ChangeKind, change_events


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change event. `project_id` and `project_slug` None: it is one of all projects."""

    id: str
    org_id: str
    project_id: int | None
    kind: ChangeKind
    title: str
    detail: str | None
    at: datetime
    environment: str | None
    release: str | None
    service: str | None
    url: str | None
    source: str
    dedupe_key: str | None
    created_by: str | None
    created_at: datetime
    project_slug: str | None


class ChangePosition(NamedTuple):
    """The place of a change event in lists."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which change events of an organization: from `since`, inclusive, to `until`, exclusive.

    `project_id`: those of this project and those of all projects. `everywhere`: events without an environment or a
    service belong to each of them.
    """

    org_id: str
    since: datetime | None = None
    until: datetime | None = None
    project_id: int | None = None
    kind: ChangeKind | None = None
    environment: str | None = None
    service: str | None = None
    everywhere: bool = False


SELECT_CHANGES: Final = sa.select(change_events, projects.c.slug.label("project_slug")).join_from(
    change_events, projects, projects.c.id == change_events.c.project_id, isouter=True
)


async def list_changes(
    connection: AsyncConnection, wanted: ChangeFilter, after: ChangePosition | None, limit: int
) -> list[StoredChange]:
    """At most `limit` change events, starting with the first one after `after`."""
    page = SELECT_CHANGES.where(*_conditions(wanted))
    page = page.order_by(change_events.c.at.desc(), change_events.c.id.desc())
    if after is not None:
        earlier = change_events.c.at < after.at
        page = page.where(earlier | ((change_events.c.at == after.at) & (change_events.c.id < after.id)))
    return [stored_change(row) for row in (await connection.execute(page.limit(limit))).mappings()]


def stored_change(row: sa.RowMapping) -> StoredChange:
    """A row of `SELECT_CHANGES`."""
    return StoredChange(**{**row, "kind": ChangeKind(row["kind"])})


def _conditions(wanted: ChangeFilter) -> list[sa.ColumnElement[bool]]:
    columns = change_events.c
    found: list[sa.ColumnElement[bool]] = [columns.org_id == wanted.org_id, projects.c.deleted_at.is_(None)]
    if wanted.since is not None:
        found.append(columns.at >= wanted.since)
    if wanted.until is not None:
        found.append(columns.at < wanted.until)
    if wanted.project_id is not None:
        found.append(columns.project_id.is_(None) | (columns.project_id == wanted.project_id))
    if wanted.kind is not None:
        found.append(columns.kind == wanted.kind.value)
    for column, value in ((columns.environment, wanted.environment), (columns.service, wanted.service)):
        if value is not None:
            found.append((column == value) | column.is_(None) if wanted.everywhere else column == value)
    return found
