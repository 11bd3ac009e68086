"""Change events: deployments, releases and other changes on the time line of a project. Control records change events,
and explore shows them beside latency. The functions run in the caller's transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata, projects
from chassis.db.database import UtcTime, enum_check, text
from proto.identity import MAX_URL_LENGTH

MAX_TITLE_LENGTH: Final = 200
MAX_DETAIL_LENGTH: Final = 2_000
MAX_NAME_LENGTH: Final = 200  # of an environment, a release, a service
MAX_SOURCE_LENGTH: Final = 64
MAX_DEDUPE_KEY_LENGTH: Final = 200


class ChangeKind(StrEnum):
    """What changed."""

    DEPLOYMENT = "deployment"
    RELEASE = "release"
    FLAG = "flag"
    GENERIC = "generic"


change_events: Final = sa.Table(
    "change_events",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: of all projects
    sa.Column("kind", text(16), nullable=False),
    sa.Column("title", text(MAX_TITLE_LENGTH), nullable=False),
    sa.Column("detail", text(MAX_DETAIL_LENGTH)),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("environment", text(MAX_NAME_LENGTH)),
    sa.Column("release", text(MAX_NAME_LENGTH)),
    sa.Column("service", text(MAX_NAME_LENGTH)),
    sa.Column("url", text(MAX_URL_LENGTH)),
    sa.Column("source", text(MAX_SOURCE_LENGTH), nullable=False),  # `api`, or the platform that reported it
    sa.Column("dedupe_key", text(MAX_DEDUPE_KEY_LENGTH)),  # from the sender: reports with the same key are one event
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("kind", ChangeKind),
    sa.UniqueConstraint("org_id", "dedupe_key"),
    sa.Index(None, "org_id", "at", "id"),
    sa.Index(None, "project_id", "at", "id"),
)


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change event. `project_id` and `project_slug` are None for an event of all projects."""

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
    """Selects change events of an organization, from `since` (inclusive) to `until` (exclusive).

    `project_id` selects the events of this project and the events of all projects. With `everywhere`, events without an
    environment or a service match every environment and every service.
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
