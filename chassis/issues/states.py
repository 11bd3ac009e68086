"""The issues of fingerprints, for explore."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.issues.tables import IssueStatus, issue_fingerprints, issues


class IssueState(NamedTuple):
    """Which issue counts the occurrences of a fingerprint, and its status."""

    id: str
    short_id: str
    status: IssueStatus


async def read_states(
    connection: AsyncConnection, project_id: int, fingerprints: Sequence[bytes], now: datetime
) -> dict[bytes, IssueState]:
    """The issues of those of the fingerprints that have one."""
    target, columns = issues.alias(), issue_fingerprints.c
    found = (
        sa.select(
            columns.fingerprint,
            target.c.id,
            target.c.number,
            target.c.status,
            target.c.ignored_until,
            projects.c.slug,
        )
        .join_from(issue_fingerprints, issues, issues.c.id == columns.issue_id)
        .join(target, target.c.id == sa.func.coalesce(issues.c.merged_into, issues.c.id))
        .join(projects, projects.c.id == columns.project_id)
        .where(columns.project_id == project_id, columns.fingerprint.in_(fingerprints))
    )
    return {bytes(row.fingerprint): _state(row, now) for row in await connection.execute(found)}


def short_id(project_slug: str, number: int) -> str:
    """`CHECKOUT-12`, as people and commit messages name an issue."""
    return f"{project_slug.upper()}-{number}"


def status_at(status: str, ignored_until: datetime | None, now: datetime) -> IssueStatus:
    """The status: an issue that is ignored until a time is unresolved from then on, recorded or not."""
    if status == IssueStatus.IGNORED and ignored_until is not None and ignored_until <= now:
        return IssueStatus.UNRESOLVED
    return IssueStatus(status)


def _state(row: Any, now: datetime) -> IssueState:
    return IssueState(row.id, short_id(row.slug, row.number), status_at(row.status, row.ignored_until, now))
