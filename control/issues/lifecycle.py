"""Changes of the state of issues, each with its activity, in the caller's transaction."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.issues.tables import IssueStatus, issues
from control.issues.tables import ActivityKind, issue_activity
from control.releases.tables import release_projects, releases

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


async def resolve(
    connection: AsyncConnection,
    issue_id: str,
    *,
    now: datetime,
    by: str | None,
    in_release: str | None = None,
    next_release: bool = False,
    data: Mapping[str, object] = _NOTHING,
) -> bool:
    """Resolve an issue, in a release or in the one after the latest. False: it is resolved, merged away or gone."""
    latest = await _latest_release(connection, issue_id) if next_release else None
    values: dict[str, Any] = {
        "status": IssueStatus.RESOLVED.value,
        "resolved_at": now,
        "resolved_in_release": in_release,
        "resolved_after_release": latest,
        "ignored_until": None,
        "ignored_until_count": None,
        "updated_at": now,
    }
    where = issues.c.status != IssueStatus.RESOLVED.value
    if not await _update(connection, issue_id, where, values):
        return False
    release = {"inRelease": in_release} if in_release else {"nextRelease": True} if next_release else {}
    await add_activity(connection, issue_id, ActivityKind.RESOLVED, now=now, by=by, data={**release, **data})
    return True


async def reopen(
    connection: AsyncConnection,
    issue_id: str,
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object] = _NOTHING,
) -> bool:
    """Make a resolved issue unresolved. False: it is not resolved, merged away or gone."""
    values: dict[str, Any] = {
        "status": IssueStatus.UNRESOLVED.value,
        "resolved_at": None,
        "resolved_in_release": None,
        "resolved_after_release": None,
        "updated_at": now,
    }
    if not await _update(connection, issue_id, issues.c.status == IssueStatus.RESOLVED.value, values):
        return False
    await add_activity(connection, issue_id, ActivityKind.UNRESOLVED, now=now, by=by, data=data)
    return True


async def add_activity(
    connection: AsyncConnection,
    issue_id: str,
    kind: ActivityKind,
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object],
) -> None:
    """Record what happened to an issue; nothing for one that is gone. `by` None: the system."""
    columns = (issues.c.org_id, issues.c.project_id)
    row = (await connection.execute(sa.select(*columns).where(issues.c.id == issue_id))).one_or_none()
    if row is None:
        return
    values = {"id": new_id("act"), "org_id": row.org_id, "project_id": row.project_id, "issue_id": issue_id}
    values |= {"at": now, "kind": kind.value, "principal_id": by, "data": dict(data)}
    await connection.execute(issue_activity.insert().values(values))


async def _update(
    connection: AsyncConnection, issue_id: str, where: sa.ColumnElement[bool], values: Mapping[str, Any]
) -> bool:
    live = (issues.c.id == issue_id) & issues.c.merged_into.is_(None)
    return (await connection.execute(issues.update().where(live, where).values(dict(values)))).rowcount == 1


async def _latest_release(connection: AsyncConnection, issue_id: str) -> str | None:
    project = sa.select(issues.c.project_id).where(issues.c.id == issue_id).scalar_subquery()
    latest = (
        sa.select(releases.c.version)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project)
        .order_by(release_projects.c.ordered_at.desc(), releases.c.id.desc())
    )
    version: str | None = await connection.scalar(latest.limit(1))
    return version
