"""`/orgs/{orgSlug}/releases`: report, list, show, list commits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import BadRequest, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from chassis.issues.tables import MAX_VERSION_LENGTH
from control.audit.record import record
from control.changes.repository import MAX_AHEAD
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.query_filters import (
    PROJECT_FILTER,
    find_project_id,
    find_project_ids,
    line_filter,
    unknown_project,
)
from control.http.time_input import parse_time
from control.http.url_input import check_url
from control.scm.commit_repository import NewCommit, count_release_commits, list_release_commits
from control.scm.fixes import Author
from control.scm.release_reports import ReportedRelease, report_release
from control.scm.release_repository import ReleaseReport, StoredRelease, find_release, list_releases
from control.scm.release_schemas import (
    TIME_OF_RELEASE,
    CommitPage,
    NewReleaseReport,
    Release,
    ReleasePage,
    ReleaseReportResult,
    commit_body,
    release_body,
    to_commits,
)
from proto.identity import MAX_SLUG_LENGTH, Scope

TAG: Final = Tag("releases", "Releases and the commits that they are made of.")
_FILTERS: Final = (
    PROJECT_FILTER,
    Parameter(
        "query",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_VERSION_LENGTH)],
        "Only releases whose version begins with this text.",
    ),
)
_ID: Final = Parameter("releaseId", "path", Annotated[str, Meta(min_length=1)], "The release.")
LIST: Final = Operation(
    "listReleases", TAG, (ResponseSpec("A page.", json_content(ReleasePage)),), (*_FILTERS, *PAGE_PARAMETERS)
)
REPORT: Final = Operation(
    "reportRelease",
    TAG,
    (
        ResponseSpec("The release is new in one of the projects.", json_content(ReleaseReportResult), 201),
        ResponseSpec("The release, which was known in all of them.", json_content(ReleaseReportResult)),
    ),
    body=Body(
        json_content(NewReleaseReport),
        example={
            "version": "checkout@1.4.0",
            "projects": ["web"],
            "repository": "shop/checkout",
            "environment": "production",
            "commits": [
                {
                    "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
                    "message": "Round totals once\n\nFixes WEB-12",
                    "authorName": "Ada",
                    "files": ["src/shop/cart.py"],
                }
            ],
        },
    ),
    error_statuses=(409,),
)
SHOW: Final = Operation("showRelease", TAG, (ResponseSpec("The release.", json_content(Release)),), (_ID,))
LIST_COMMITS: Final = Operation(
    "listReleaseCommits", TAG, (ResponseSpec("A page.", json_content(CommitPage)),), (_ID, *PAGE_PARAMETERS)
)


@dataclass(frozen=True, slots=True)
class Releases:
    """Handlers of releases, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/releases", "/orgs/{orgSlug}/releases/{releaseId}"
        read = bearer(Scope.RELEASES_READ)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("POST", every, self.report, bearer(Scope.RELEASES_WRITE), operation=REPORT),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("GET", one + "/commits", self.commits, read, operation=LIST_COMMITS),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List releases, newest first."""
        org_id, issues = authorization_context(request).org_id, Issues()
        slug = line_filter(request.query, "project", MAX_SLUG_LENGTH, issues)
        prefix = line_filter(request.query, "query", MAX_VERSION_LENGTH, issues)
        binding = repr(("releases", org_id, slug, prefix)).encode()
        async with self.context.database.read() as connection:
            project_id = await find_project_id(connection, org_id, slug, "query.project", issues)
            page = parse_page_request(request, self.context.cursors, binding, issues)
            found = await list_releases(
                connection, org_id, project_id=project_id, prefix=prefix, before_id=page.after, limit=page.limit + 1
            )
            counts = await count_release_commits(connection, [one.id for one in found])

        def to_body(one: StoredRelease) -> Release:
            return release_body(one, counts.get(one.id, 0))

        return json_response(page_body(found, page, to_body, lambda one: one.id, self.context.cursors, binding))

    async def report(self, request: web.Request) -> web.StreamResponse:
        """Report a release with its commits.

        Commits are stored once by repository and hash. Issues of these projects that their messages name as fixed
        (`fixes WEB-12`) are resolved in this release. A repeated report changes nothing; one with further commits adds
        them. 409 if the release has too many commits.
        """
        now = to_milliseconds(self.now())
        body, report, commits = await self._read_report(request, now)
        async with self.context.write_transaction(request) as (connection, caller):
            author = Author(caller.org_id, caller.org_slug, caller.principal_id, now)
            project_ids = await _require_projects(connection, caller.org_id, body.projects)
            reported = await report_release(connection, author, report, project_ids, commits, body.environment)
            if reported.is_changed:
                await _record_audit(connection, caller, request_id(request), body, reported)
            release = await _find(connection, caller.org_id, reported.id)
            counts = await count_release_commits(connection, [release.id])
        shown = msgspec.structs.asdict(release_body(release, counts.get(release.id, 0)))
        result = ReleaseReportResult(
            **shown,
            commits_upserted=reported.commits_upserted,
            issues_resolved=[str(one) for one in reported.issues_resolved],
            issues_reopened=[str(one) for one in reported.issues_reopened],
        )
        return json_response(result, status=201 if reported.is_new else 200)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a release."""
        async with self.context.database.read() as connection:
            found = await _find(connection, authorization_context(request).org_id, path_id(request, "releaseId"))
            counts = await count_release_commits(connection, [found.id])
        return json_response(release_body(found, counts.get(found.id, 0)))

    async def commits(self, request: web.Request) -> web.StreamResponse:
        """List the commits of a release, newest first."""
        org_id, release_id = authorization_context(request).org_id, path_id(request, "releaseId")
        binding = f"commits of {org_id} {release_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        after = None if page.after is None else int(page.after)
        async with self.context.database.read() as connection:
            release = await _find(connection, org_id, release_id)
            found = await list_release_commits(connection, release.id, after, page.limit + 1)
        cursors = self.context.cursors
        return json_response(
            page_body(found, page, lambda one: commit_body(one[1]), lambda one: str(one[0]), cursors, binding)
        )

    async def _read_report(
        self, request: web.Request, now: datetime
    ) -> tuple[NewReleaseReport, ReleaseReport, Sequence[NewCommit]]:
        """The body and what it says. Raises BadRequest."""
        issues = Issues()
        body = await self.context.read_body(request, NewReleaseReport, issues)
        check_url(body.url, "body.url", issues)
        released_at = parse_time(body.released_at, "body.releasedAt", issues)
        if released_at is not None and released_at > now + MAX_AHEAD:
            issues.add("body.releasedAt", TIME_OF_RELEASE, "range")
        commits = to_commits(body, issues)
        issues.raise_if_any("The request body is not valid.")
        return body, ReleaseReport(body.version, body.ref, body.url, released_at), commits


async def _require_projects(connection: AsyncConnection, org_id: str, slugs: Sequence[str]) -> dict[str, int]:
    """The ids of the projects by slug. Raises BadRequest for unknown ones."""
    found = await find_project_ids(connection, org_id, slugs)
    unknown = [unknown_project(f"body.projects[{number}]") for number, slug in enumerate(slugs) if slug not in found]
    if unknown:
        raise BadRequest("The request body is not valid.", unknown)
    return found


async def _find(connection: AsyncConnection, org_id: str, release_id: str) -> StoredRelease:
    """Raises NotFound."""
    found = await find_release(connection, org_id, release_id)
    if found is None:
        raise NotFound
    return found


async def _record_audit(
    connection: AsyncConnection,
    caller: AuthorizationContext,
    request: str,
    body: NewReleaseReport,
    reported: ReportedRelease,
) -> None:
    data = {
        "version": body.version,
        "projects": list(body.projects),
        "commits": reported.commits_upserted,
        "issuesResolved": [str(one) for one in reported.issues_resolved],
        "issuesReopened": [str(one) for one in reported.issues_reopened],
    }
    await record(connection, caller, "release.report", reported.id, data, request)
