"""The changes that people and machines make to an issue: resolve, reopen, ignore, assign, merge. Every change adds an
entry to the issue's activity. A call that makes no difference writes nothing.

Every function runs in the caller's write transaction. `by`: the id of the principal, None for the system. A function
that takes an id of a merged issue changes the issue into which it was merged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.db.database import format_time, to_milliseconds
from chassis.issues import IssueStatus, issues
from control.issues import store
from control.issues.tables import ActivityKind, IssueRecord, issue_activity

MAX_NOTED: Final = 500
_NO_DATA: Final[Mapping[str, object]] = MappingProxyType({})
OPEN_STATE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "status": IssueStatus.UNRESOLVED.value,
        "resolved_at": None,
        "resolved_in_release": None,
        "resolved_after_release": None,
        "ignored_until": None,
        "ignored_until_count": None,
    }
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """In which release an issue is fixed: `in_release`, or the release that follows `after_release`. If neither is
    given, the issue is fixed from now on.
    """

    in_release: str | None = None
    after_release: str | None = None


@dataclass(frozen=True, slots=True)
class Ignoring:
    """How long an issue is ignored: until a time, or for a number of further occurrences. If neither is given, for
    ever.
    """

    until: datetime | None = None
    occurrences: int | None = None


async def add_activity(
    connection: AsyncConnection,
    issue_id: str,
    kind: ActivityKind,
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object],
) -> None:
    """Append an entry to the activity of an issue, if it exists."""
    issue = await find_merged(connection, issue_id)
    if issue is not None:
        await connection.execute(issue_activity.insert(), [activity_row(issue, kind, now, by, data)])


async def find_merged(connection: AsyncConnection, issue_id: str) -> IssueRecord | None:
    """The issue with this id, or the one into which it was merged."""
    issue = await store.find_anywhere(connection, issue_id)
    if issue is None or issue.merged_into is None:
        return issue
    return await store.find_anywhere(connection, issue.merged_into)


async def set_resolved(
    connection: AsyncConnection,
    issue: IssueRecord,
    resolution: Resolution,
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object] = _NO_DATA,
) -> IssueRecord:
    """Resolve an issue and return it. Resolving it again in the same release makes no difference."""
    same = (issue.resolved_in_release, issue.resolved_after_release) == (
        resolution.in_release,
        resolution.after_release,
    )
    if issue.status is IssueStatus.RESOLVED and same:
        return issue
    values = {
        **OPEN_STATE,
        "status": IssueStatus.RESOLVED.value,
        "resolved_at": now,
        "resolved_in_release": resolution.in_release,
        "resolved_after_release": resolution.after_release,
    }
    releases = store.without_none({"inRelease": resolution.in_release, "afterRelease": resolution.after_release})
    return await _change(connection, issue, values, ActivityKind.RESOLVED, now, by, {**releases, **data})


async def set_unresolved(
    connection: AsyncConnection,
    issue: IssueRecord,
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object] = _NO_DATA,
) -> IssueRecord:
    """Reopen an issue and return it."""
    if issue.status is IssueStatus.UNRESOLVED:
        return issue
    kind = ActivityKind.UNRESOLVED if issue.status_at(now) is not IssueStatus.UNRESOLVED else ActivityKind.IGNORE_ENDED
    return await _change(connection, issue, OPEN_STATE, kind, now, by, data)


async def set_ignored(
    connection: AsyncConnection, issue: IssueRecord, ignoring: Ignoring, *, now: datetime, by: str | None
) -> IssueRecord:
    """Ignore an issue and return it."""
    until_count = None if ignoring.occurrences is None else issue.count + ignoring.occurrences
    until = None if ignoring.until is None else to_milliseconds(ignoring.until)
    same = (issue.ignored_until, issue.ignored_until_count) == (until, until_count)
    if issue.status is IssueStatus.IGNORED and same:
        return issue
    values = {
        **OPEN_STATE,
        "status": IssueStatus.IGNORED.value,
        "ignored_until": until,
        "ignored_until_count": until_count,
    }
    until_text = None if until is None else format_time(until)
    data = store.without_none({"until": until_text, "occurrences": ignoring.occurrences})
    return await _change(connection, issue, values, ActivityKind.IGNORED, now, by, data)


async def set_assignee(
    connection: AsyncConnection, issue: IssueRecord, assignee_id: str | None, *, now: datetime, by: str | None
) -> IssueRecord:
    """Assign an issue and return it. None removes the assignee."""
    if issue.assignee_id == assignee_id:
        return issue
    kind = ActivityKind.UNASSIGNED if assignee_id is None else ActivityKind.ASSIGNED
    data = {"assigneePrincipalId": issue.assignee_id if assignee_id is None else assignee_id}
    return await _change(connection, issue, {"assignee_id": assignee_id}, kind, now, by, data)


async def unassign_everything(connection: AsyncConnection, org_id: str, principal_id: str, *, now: datetime) -> None:
    """Unassign all issues of a person who leaves the organization. Only the MAX_NOTED issues seen last get an activity
    entry, because the removal of a member is one transaction.
    """
    where = (issues.c.org_id == org_id) & (issues.c.assignee_id == principal_id)
    latest = sa.select(issues).where(where).order_by(issues.c.last_seen.desc(), issues.c.id.desc()).limit(MAX_NOTED)
    found = (await connection.execute(latest)).mappings().all()
    if not found:
        return
    data = {"assigneePrincipalId": principal_id}
    rows = [activity_row(IssueRecord.from_row(row), ActivityKind.UNASSIGNED, now, None, data) for row in found]
    await connection.execute(issues.update().where(where).values(assignee_id=None, updated_at=now))
    await connection.execute(issue_activity.insert(), rows)


async def merge(
    connection: AsyncConnection,
    target: IssueRecord,
    sources: Sequence[IssueRecord],
    *,
    now: datetime,
    by: str | None,
    data: Mapping[str, object] = _NO_DATA,
) -> IssueRecord:
    """Merge the sources into the target and return it. From now on the target counts the occurrences of the sources.
    The target is open if one of the issues was open.
    """
    if not sources:
        return target
    together = (target, *sources)
    first = min(together, key=lambda one: (one.first_seen, one.first_release or ""))
    last = max(together, key=lambda one: (one.last_seen, one.last_release or ""))
    added = sum(source.count for source in sources)
    values: dict[str, Any] = {
        "count": target.count + added,
        "first_seen": first.first_seen,
        "first_release": first.first_release,
        "last_seen": last.last_seen,
        "last_release": last.last_release,
    }
    is_open = any(one.status_at(now) is IssueStatus.UNRESOLVED for one in together)
    if is_open and target.status is not IssueStatus.UNRESOLVED:
        values |= OPEN_STATE
    elif target.ignored_until_count is not None:  # it counts further occurrences
        values["ignored_until_count"] = target.ignored_until_count + added
    ids = [source.id for source in sources]
    await connection.execute(
        issues.update()
        .where(issues.c.id.in_(ids) | issues.c.merged_into.in_(ids))
        .values(merged_into=target.id, updated_at=now)
    )
    await connection.execute(
        issue_activity.insert(),
        [activity_row(source, ActivityKind.MERGED, now, by, {"into": target.id, **data}) for source in sources],
    )
    return await _change(connection, target, values, ActivityKind.MERGED, now, by, {"from": ids, **data})


def activity_row(
    issue: IssueRecord, kind: ActivityKind, now: datetime, by: str | None, data: Mapping[str, object]
) -> dict[str, Any]:
    """A row of `issue_activity`."""
    return {
        "id": new_id("act"),
        "org_id": issue.org_id,
        "project_id": issue.project_id,
        "issue_id": issue.id,
        "at": now,
        "kind": kind.value,
        "principal_id": by,
        "data": dict(data),
    }


async def _change(
    connection: AsyncConnection,
    issue: IssueRecord,
    values: Mapping[str, Any],
    kind: ActivityKind,
    now: datetime,
    by: str | None,
    data: Mapping[str, object],
) -> IssueRecord:
    now = to_milliseconds(now)
    stored = {**values, "updated_at": now}
    if "status" in values:
        stored |= {"decided_status": values["status"], "decided_at": now}
    await connection.execute(issues.update().where(issues.c.id == issue.id).values(stored))
    await connection.execute(issue_activity.insert(), [activity_row(issue, kind, now, by, data)])
    changed: dict[str, Any] = {**values, "updated_at": now}
    if "status" in changed:
        changed["status"] = IssueStatus(changed["status"])
    if changed.get("resolved_at") is not None:
        changed["resolved_at"] = now
    return replace(issue, **changed)
