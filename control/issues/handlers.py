"""`/orgs/{orgSlug}/projects/{projectSlug}/issues`: list, show, change, merge, activity."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import sqlalchemy as sa
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from chassis.http.route import Tag
from chassis.http.validation import Issues
from chassis.issues import IssueStatus, issues
from control.http.context import RequestSlots
from control.issues import lifecycle, store
from control.issues.bodies import (
    ME,
    NOBODY,
    IssueActivity,
    IssueChange,
    IssueMerge,
    IssuePage,
    IssueQuery,
    TrackedIssue,
    UntrackedErrors,
    issue_body,
)
from control.issues.lifecycle import Ignoring, Resolution
from control.issues.releases.store import find_latest_version
from control.issues.tables import IssueRecord, issue_activity
from control.routing.arguments import Handlers, Transaction
from control.routing.resource import PageReader, Resource, ids, in_project, shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/issues"
_READ: Final = bearer(Scope.ISSUES_READ)
_WRITE: Final = bearer(Scope.ISSUES_WRITE)
MAX_SEARCHES: Final = 2  # per organization at once in this process: a filter may read all issues of a project
TOO_MANY_SEARCHES: Final = "Too many requests for lists of issues are waiting. Try again."
_NUMBER: Final = re.compile(r"(.+)-([1-9][0-9]{0,17})", re.ASCII)
_NO_NUMBER: Final = 0  # no issue has this number
_AUDITED: Final = {
    "status": "status",
    "resolvedInRelease": "resolved_in_release",
    "resolvedAfterRelease": "resolved_after_release",
    "ignoredUntil": "ignored_until",
    "ignoredUntilCount": "ignored_until_count",
    "assigneePrincipalId": "assignee_id",
}

_IN_PATH: Final = sa.select(issues.c.id).where(in_project(issues), issues.c.id == sa.bindparam("issueId"))
ACTIVITY: Final = Resource(
    "activityId",
    ids("act"),
    Scope.ISSUES_READ,
    issue_activity.c.id,
    issue_activity.c.issue_id == _IN_PATH.scalar_subquery(),
    sa.select(issue_activity),
    lambda row, _caller: shown_as(IssueActivity, row),
)


@dataclass(frozen=True, slots=True)
class IssueHandlers(Handlers):
    """Handlers of issues, and their dependencies."""

    TAG: ClassVar = Tag("issues", "Errors grouped into issues with a state: unresolved, resolved or ignored.")
    searches: RequestSlots = field(default_factory=lambda: RequestSlots(TOO_MANY_SEARCHES, MAX_SEARCHES))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, _READ)
    async def list_issues(self, caller: AuthorizationContext, query: IssueQuery, page: PageReader) -> IssuePage:
        """List the issues of a project.

        An error gets its issue within seconds after it is stored. Issues that were merged into others are not listed.
        The order may change while you read pages: an issue that occurs again moves to the front of `lastSeen`.
        """
        now = self.now()

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> Sequence[TrackedIssue]:
            conditions = _conditions(query, caller, now)
            found = await store.list_issues(
                connection, caller.path_project_id, conditions, query.sort.column, query.position(after), limit
            )
            return await self._shown(connection, caller, found, now)

        binding = ("issues", caller.path_project_id, query, caller.principal_id if query.assignee == ME else None)
        async with self.searches.taken(caller.org_id):
            found = await page.read(binding, fetch, lambda one: one, query.key)
        async with self.context.database.read() as connection:
            ignored = await store.find_untracked(connection, caller.path_project_id)
        return IssuePage(
            found.data,
            found.next_cursor,
            found.has_more,
            None if ignored is None else shown_as(UntrackedErrors, ignored),
        )

    @route("GET", PATH + "/{issueId}", _READ)
    async def show_issue(
        self, issue_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> TrackedIssue:
        """Show an issue."""
        return await self._show(connection, caller, await _load(connection, caller, issue_id))

    @route(
        "PATCH",
        PATH + "/{issueId}",
        _WRITE,
        errors=(409,),
        example={"status": "resolved", "resolvedInRelease": "1.4.2"},
    )
    async def change_issue(self, issue_id: str, body: IssueChange, transaction: Transaction) -> TrackedIssue:
        """Resolve, reopen, ignore or assign an issue.

        A change that makes no difference adds no activity entry. 409 for an issue that was merged into another issue,
        and for `resolvedInNextRelease` while no release of the project is known.
        """
        connection, caller, now = transaction.connection, transaction.caller, self.now()
        before = await _load(connection, caller, issue_id)
        _require_not_merged(before)
        changed = await _set_status(connection, before, body, caller.principal_id, now)
        if body.assignee_principal_id is not UNSET:
            await _require_assignable(connection, caller.org_id, body.assignee_principal_id)
            changed = await lifecycle.set_assignee(
                connection, changed, body.assignee_principal_id, now=now, by=caller.principal_id
            )
        if changed != before:
            await transaction.record("issue.change", changed.id, _audit_data(before, changed))
        return await self._show(connection, caller, changed)

    @route(
        "POST",
        PATH + "/{issueId}/merge",
        _WRITE,
        errors=(409,),
        example={"issueIds": ["iss_01jd3x4c9v8k2m5n7p0q1r2s3t"]},
    )
    async def merge_issues(self, issue_id: str, body: IssueMerge, transaction: Transaction) -> TrackedIssue:
        """Merge issues into this one, which counts their occurrences from now on.

        Merge issues when one cause has led to several fingerprints. A merge cannot be undone. The result is unresolved
        if one of the issues was unresolved. 400 if the list contains the issue itself, 409 for issues that were already
        merged, 404 for an issue that does not exist.
        """
        connection, caller = transaction.connection, transaction.caller
        target = await _load(connection, caller, issue_id)
        _require_not_merged(target)
        sources = await _load_sources(connection, target, body)
        merged = await lifecycle.merge(connection, target, sources, now=self.now(), by=caller.principal_id)
        await transaction.record("issue.merge", merged.id, {"issueIds": [source.id for source in sources]})
        return await self._show(connection, caller, merged)

    @route("GET", PATH + "/{issueId}/activity", _READ)
    async def list_issue_activity(
        self, issue_id: str, caller: AuthorizationContext, page: PageReader
    ) -> PageOf[IssueActivity]:
        """List the history of an issue, newest entry first. Entries are never changed or removed."""
        async with self.context.database.read() as connection:
            await _load(connection, caller, issue_id)
        return await page.of(ACTIVITY, caller)

    async def _show(
        self, connection: AsyncConnection, caller: AuthorizationContext, issue: IssueRecord
    ) -> TrackedIssue:
        (shown,) = await self._shown(connection, caller, [issue], self.now())
        return shown

    async def _shown(
        self,
        connection: AsyncConnection,
        caller: AuthorizationContext,
        issue_records: Sequence[IssueRecord],
        now: datetime,
    ) -> list[TrackedIssue]:
        fingerprints = await store.find_fingerprints(connection, [issue.id for issue in issue_records])
        slug = caller.project_slug or ""
        return [issue_body(issue, slug, now, fingerprints.get(issue.id, ())) for issue in issue_records]


def _conditions(query: IssueQuery, caller: AuthorizationContext, now: datetime) -> list[sa.ColumnElement[bool]]:
    """The conditions for the filters of a list. Short ids begin with the project's slug."""
    columns, conditions = issues.c, list[sa.ColumnElement[bool]]()
    if query.status is not None:
        conditions.append(store.has_status(query.status, now))
    if query.assignee is not None:
        assignee_id = caller.principal_id if query.assignee == ME else query.assignee
        nobody = columns.assignee_id.is_(None)
        conditions.append(nobody if query.assignee == NOBODY else columns.assignee_id == assignee_id)
    if query.query is not None:
        conditions.append(columns.search_text.contains(query.query.casefold(), autoescape=True))
    if query.release is not None:
        conditions.append((columns.first_release == query.release) | (columns.last_release == query.release))
    if query.short_id is not None:
        match = _NUMBER.fullmatch(query.short_id)
        is_ours = match is not None and match[1].lower() == caller.project_slug
        conditions.append(columns.number == (int(match[2]) if match is not None and is_ours else _NO_NUMBER))
    return conditions


async def _load(connection: AsyncConnection, caller: AuthorizationContext, issue_id: str) -> IssueRecord:
    """Load the issue in the path. Raises NotFound."""
    found = await store.find(connection, caller.path_project_id, issue_id)
    if found is None:
        raise NotFound
    return found


async def _set_status(
    connection: AsyncConnection, issue: IssueRecord, body: IssueChange, by: str, now: datetime
) -> IssueRecord:
    if body.status is IssueStatus.RESOLVED:
        return await lifecycle.set_resolved(
            connection, issue, await _resolution(connection, issue, body), now=now, by=by
        )
    if body.status is IssueStatus.IGNORED:
        occurrences = None if body.ignored_occurrences is UNSET else body.ignored_occurrences
        return await lifecycle.set_ignored(
            connection, issue, Ignoring(body.parse_ignored_until(Issues()), occurrences), now=now, by=by
        )
    if body.status is IssueStatus.UNRESOLVED:
        return await lifecycle.set_unresolved(connection, issue, now=now, by=by)
    return issue


async def _resolution(connection: AsyncConnection, issue: IssueRecord, body: IssueChange) -> Resolution:
    if body.resolved_in_release is not UNSET:
        return Resolution(in_release=body.resolved_in_release)
    if not body.resolved_in_next_release:
        return Resolution()
    latest = await find_latest_version(connection, issue.project_id) or issue.last_release
    if latest is None:
        raise Conflict(
            "The project has no known release, so there is no next release. Resolve the issue without a release."
        )
    return Resolution(after_release=latest)


async def _require_assignable(connection: AsyncConnection, org_id: str, assignee_id: str | None) -> None:
    """Require that the assignee is a member. Raises BadRequest."""
    if assignee_id is not None and not await store.is_assignable(connection, org_id, assignee_id):
        faults = Issues()
        faults.add("body.assigneePrincipalId", "Must be a member of the organization.", "not_found")
        faults.raise_if_any("The request body is not valid.")


async def _load_sources(connection: AsyncConnection, target: IssueRecord, body: IssueMerge) -> Sequence[IssueRecord]:
    """Load the issues to merge. Raises BadRequest, NotFound, Conflict."""
    faults = Issues()
    for number, issue_id in enumerate(body.issue_ids):
        if issue_id == target.id:
            faults.add(
                f"body.issueIds[{number}]",
                f"{issue_id} is the issue in the path. An issue cannot be merged into itself.",
                "not_allowed",
            )
    faults.raise_if_any("The request body is not valid.")
    wanted = list(dict.fromkeys(body.issue_ids))
    found = await store.find_by_ids(connection, wanted)
    sources = [found[one] for one in wanted if one in found and found[one].project_id == target.project_id]
    if len(sources) < len(wanted):
        raise NotFound
    for source in sources:
        _require_not_merged(source)
    return sources


def _require_not_merged(issue: IssueRecord) -> None:
    if issue.merged_into is not None:
        raise Conflict(f"The issue was merged into {issue.merged_into}. Change {issue.merged_into} instead.")


def _audit_data(before: IssueRecord, after: IssueRecord) -> dict[str, object]:
    """The changed fields with their new values."""
    changed: dict[str, Any] = {key: getattr(after, name) for key, name in _AUDITED.items()}
    return {
        key: format_time(value) if isinstance(value, datetime) else value
        for key, value in changed.items()
        if getattr(before, _AUDITED[key]) != value
    }
