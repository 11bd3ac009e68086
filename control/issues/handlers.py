"""`/orgs/{orgSlug}/projects/{projectSlug}/issues`: list, show, change, merge, activity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from chassis.issues import IssueStatus
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.request_slots import RequestSlots
from control.issues import lifecycle, listing, store
from control.issues.bodies import (
    IssueActivityPage,
    IssueChange,
    IssueMerge,
    IssuePage,
    TrackedIssue,
    activity_body,
    check_change,
    issue_body,
    untracked_body,
)
from control.issues.lifecycle import Ignoring, Resolution
from control.issues.releases.store import find_latest_version
from control.issues.tables import IssueRecord, is_issue_id
from proto.identity import Scope

TAG: Final = Tag("issues", "Errors with a life: open, resolved, ignored, regressed.")
ID: Final = Parameter("issueId", "path", Annotated[str, Meta(min_length=1)], "The issue.")
LIST: Final = Operation(
    "listIssues", TAG, (ResponseSpec("A page of issues.", json_content(IssuePage)),), listing.PARAMETERS
)
SHOW: Final = Operation("showIssue", TAG, (ResponseSpec("The issue.", json_content(TrackedIssue)),), (ID,))
CHANGE: Final = Operation(
    "changeIssue",
    TAG,
    (ResponseSpec("The issue.", json_content(TrackedIssue)),),
    (ID,),
    body=Body(json_content(IssueChange), example={"status": "resolved", "resolvedInRelease": "1.4.2"}),
    error_statuses=(409,),
)
MERGE: Final = Operation(
    "mergeIssues",
    TAG,
    (ResponseSpec("The issue, with the occurrences of the others.", json_content(TrackedIssue)),),
    (ID,),
    body=Body(json_content(IssueMerge), example={"issueIds": ["iss_01jd3x4c9v8k2m5n7p0q1r2s3t"]}),
    error_statuses=(409,),
)
ACTIVITY: Final = Operation(
    "listIssueActivity",
    TAG,
    (ResponseSpec("A page of activity.", json_content(IssueActivityPage)),),
    (ID, *PAGE_PARAMETERS),
)
MAX_SEARCHES: Final = 2  # of an organization at once in this process: a filter may read all issues of a project
TOO_MANY_SEARCHES: Final = "Too many lists of issues wait. Try again."
_AUDITED: Final = (
    ("status", "status"),
    ("resolvedInRelease", "resolved_in_release"),
    ("resolvedAfterRelease", "resolved_after_release"),
    ("ignoredUntil", "ignored_until"),
    ("ignoredUntilCount", "ignored_until_count"),
    ("assigneePrincipalId", "assignee_id"),
)


@dataclass(frozen=True, slots=True)
class IssueHandlers:
    """Handlers of issues, and their dependencies."""

    context: HandlerContext
    searches: RequestSlots = field(default_factory=lambda: RequestSlots(TOO_MANY_SEARCHES, MAX_SEARCHES))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/projects/{projectSlug}/issues"
        one = every + "/{issueId}"
        read, write = bearer(Scope.ISSUES_READ), bearer(Scope.ISSUES_WRITE)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("POST", one + "/merge", self.merge, write, operation=MERGE),
            Route("GET", one + "/activity", self.activity, read, operation=ACTIVITY),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the issues of a project.

        An error gets its issue within seconds after it is stored. Issues that were merged into others are not listed.
        The order may change while pages are read: an issue that occurs again moves to the front of `lastSeen`.
        """
        caller, now = authorization_context(request), self.now()
        plan = listing.plan(request, self.context.cursors, _project_id(caller), caller.principal_id)
        async with self.searches.taken(caller.org_id), self.context.database.read() as connection:
            slug = await store.find_project_slug(connection, plan.project_id)
            found = await store.list_issues(
                connection, plan.project_id, plan.filter_for(slug), plan.sort, plan.after, plan.limit + 1, now
            )
            fingerprints = await store.find_fingerprints(connection, [issue.id for issue in found])
            untracked = await store.find_untracked(connection, plan.project_id)
        body = listing.page_body(
            found, plan, lambda issue: issue_body(issue, slug, now, fingerprints), self.context.cursors
        )
        return json_response(body | {"untracked": untracked_body(untracked)})

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show an issue."""
        async with self.context.database.read() as connection:
            issue = await self._load(connection, request)
            body = await self._body(connection, issue)
        return json_response(body)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Resolve, reopen, ignore or assign an issue.

        A change that makes no difference leaves no activity. 409 for an issue that was merged into another one, and for
        `resolvedInNextRelease` while no release of the project is known.
        """
        issues = Issues()
        body = await self.context.read_body(request, IssueChange, issues)
        until = check_change(body, self.now(), issues)
        issues.raise_if_any("The request body is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            now = self.now()
            before = await self._load(connection, request)
            _require_not_merged(before)
            changed = await self._set_status(connection, before, body, until, caller, now)
            changed = await self._set_assignee(connection, changed, body, caller, now)
            if changed != before:
                await record(
                    connection, caller, "issue.change", changed.id, _audit_data(before, changed), request_id(request)
                )
            answer = await self._body(connection, changed)
        return json_response(answer)

    async def merge(self, request: web.Request) -> web.StreamResponse:
        """Merge issues into this one, which counts their occurrences from now on.

        For errors with one cause and several fingerprints. It cannot be undone. The result is unresolved if one of them
        was. 400 for the issue itself, 409 for issues that were merged already, 404 for one that does not exist.
        """
        body = await self.context.read_body(request, IssueMerge)
        async with self.context.write_transaction(request) as (connection, caller):
            now = self.now()
            target = await self._load(connection, request)
            _require_not_merged(target)
            sources = await self._sources(connection, target, body)
            merged = await lifecycle.merge(connection, target, sources, now=now, by=caller.principal_id)
            data = {"issueIds": [source.id for source in sources]}
            await record(connection, caller, "issue.merge", merged.id, data, request_id(request))
            answer = await self._body(connection, merged)
        return json_response(answer)

    async def activity(self, request: web.Request) -> web.StreamResponse:
        """List what happened to an issue, newest first: it is only ever added to."""
        caller, issue_id = authorization_context(request), request.match_info["issueId"]
        binding = f"activity of {caller.org_id} {caller.project_id} {issue_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            issue = await self._load(connection, request)
            found = await store.list_activity(connection, issue.id, page.after, page.limit + 1)
        return json_response(page_body(found, page, activity_body, lambda one: one.id, self.context.cursors, binding))

    async def _body(self, connection: AsyncConnection, issue: IssueRecord) -> TrackedIssue:
        slug = await store.find_project_slug(connection, issue.project_id)
        fingerprints = await store.find_fingerprints(connection, [issue.id])
        return issue_body(issue, slug, self.now(), fingerprints)

    async def _load(self, connection: AsyncConnection, request: web.Request) -> IssueRecord:
        """The issue in the path. Raises NotFound."""
        caller, issue_id = authorization_context(request), request.match_info["issueId"]
        found = await store.find(connection, _project_id(caller), issue_id) if is_issue_id(issue_id) else None
        if found is None:
            raise NotFound
        return found

    async def _set_status(
        self,
        connection: AsyncConnection,
        issue: IssueRecord,
        body: IssueChange,
        until: datetime | None,
        caller: AuthorizationContext,
        now: datetime,
    ) -> IssueRecord:
        by = caller.principal_id
        if body.status is IssueStatus.RESOLVED:
            resolution = await _resolution(connection, issue, body)
            return await lifecycle.set_resolved(connection, issue, resolution, now=now, by=by)
        if body.status is IssueStatus.IGNORED:
            occurrences = None if body.ignored_occurrences is UNSET else body.ignored_occurrences
            return await lifecycle.set_ignored(connection, issue, Ignoring(until, occurrences), now=now, by=by)
        if body.status is IssueStatus.UNRESOLVED:
            return await lifecycle.set_unresolved(connection, issue, now=now, by=by)
        return issue

    async def _set_assignee(
        self,
        connection: AsyncConnection,
        issue: IssueRecord,
        body: IssueChange,
        caller: AuthorizationContext,
        now: datetime,
    ) -> IssueRecord:
        assignee_id = body.assignee_principal_id
        if assignee_id is UNSET:
            return issue
        if assignee_id is not None and not await store.is_assignable(connection, issue.org_id, assignee_id):
            issues = Issues()
            issues.add("body.assigneePrincipalId", "Must be a member of the organization.", "not_found")
            issues.raise_if_any("The request body is not valid.")
        return await lifecycle.set_assignee(connection, issue, assignee_id, now=now, by=caller.principal_id)

    async def _sources(
        self, connection: AsyncConnection, target: IssueRecord, body: IssueMerge
    ) -> Sequence[IssueRecord]:
        """The issues to merge. Raises BadRequest, NotFound, Conflict."""
        issues = Issues()
        for number, issue_id in enumerate(body.issue_ids):
            if issue_id == target.id:
                issues.add(f"body.issueIds[{number}]", f"{issue_id} is the issue itself.", "not_allowed")
        issues.raise_if_any("The request body is not valid.")
        wanted = list(dict.fromkeys(body.issue_ids))
        found = await store.find_by_ids(connection, wanted)
        sources = [found[one] for one in wanted if one in found and found[one].project_id == target.project_id]
        if len(sources) < len(wanted):
            raise NotFound
        for source in sources:
            _require_not_merged(source)
        return sources


async def _resolution(connection: AsyncConnection, issue: IssueRecord, body: IssueChange) -> Resolution:
    if body.resolved_in_release is not UNSET:
        return Resolution(in_release=body.resolved_in_release)
    if not body.resolved_in_next_release:
        return Resolution()
    latest = await find_latest_version(connection, issue.project_id) or issue.last_release
    if latest is None:
        raise Conflict("No release of the project is known, so none is the next. Resolve the issue without a release.")
    return Resolution(after_release=latest)


def _require_not_merged(issue: IssueRecord) -> None:
    if issue.merged_into is not None:
        raise Conflict(f"The issue was merged into {issue.merged_into}. Change that one.")


def _audit_data(before: IssueRecord, after: IssueRecord) -> dict[str, object]:
    """What changed: the name of each field with its new value."""
    changed: dict[str, Any] = {}
    for key, name in _AUDITED:
        value = getattr(after, name)
        if getattr(before, name) != value:
            changed[key] = format_time(value) if isinstance(value, datetime) else value
    return changed


def _project_id(caller: AuthorizationContext) -> int:
    if caller.project_id is None:
        raise TypeError("the route of an issue has no project")
    return caller.project_id
