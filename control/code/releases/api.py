"""`/orgs/{orgSlug}/releases`: report, list, show, list commits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Created, PageOf, route
from chassis.http.route import Body, Query, Tag, json_content, line
from chassis.http.validation import Issues
from chassis.issues import MAX_VERSION_LENGTH
from control.code.changes import MAX_AHEAD
from control.code.commits import NewCommit, count_release_commits, list_release_commits
from control.code.fixes.updates import Author
from control.code.releases.bodies import (
    TIME_OF_RELEASE,
    Commit,
    NewReleaseReport,
    Release,
    ReleaseInProject,
    ReleaseReportResult,
    to_commits,
)
from control.code.releases.store import ReleaseReport, find_projects_of, list_releases, report_release
from control.http.field_types import check_url, parse_time
from control.http.lists import ProjectFilter, require_project_id, require_project_ids
from control.issues.releases.tables import releases
from control.routing.arguments import Handlers, begin
from control.routing.resource import PageReader, shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/releases"
_READ: Final = bearer(Scope.RELEASES_READ)
REPORT: Final = Body(
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
)


class ReleaseQuery(Query, frozen=True, rename="camel"):
    """The filters of a list of releases."""

    project: ProjectFilter = None
    query: Annotated[
        str | None, line(MAX_VERSION_LENGTH), Meta(description="Only releases whose version begins with this text.")
    ] = None


@dataclass(frozen=True, slots=True)
class Releases(Handlers):
    """Handlers of releases, and their dependencies."""

    TAG: ClassVar = Tag("releases", "Releases and their commits.")
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, _READ)
    async def list_releases(
        self, caller: AuthorizationContext, query: ReleaseQuery, page: PageReader
    ) -> PageOf[Release]:
        """List releases, newest first."""
        org_id = caller.org_id

        async def fetch(connection: AsyncConnection, before_id: str | None, limit: int) -> list[Release]:
            project_id = await require_project_id(connection, org_id, query.project, "query.project")
            return await _shown(
                connection,
                await list_releases(
                    connection, org_id, project_id=project_id, prefix=query.query, before_id=before_id, limit=limit
                ),
            )

        return await page.read(("releases", org_id, query), fetch, lambda one: one)

    @route("POST", PATH, bearer(Scope.RELEASES_WRITE), body=REPORT, errors=(409,))
    async def report_release(self, request: web.Request) -> Created[ReleaseReportResult] | ReleaseReportResult:
        """Report a release with its commits.

        Commits are stored once by repository and hash. Issues of these projects that the commit messages name as fixed
        (`fixes WEB-12`) are resolved in this release. A repeated report changes nothing. A report with further commits
        adds these commits. 409 if the release has too many commits.
        """
        now = to_milliseconds(self.now())
        body, report, commits = await self._read_report(request, now)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            author = Author(caller.org_id, caller.org_slug, caller.principal_id, now)
            project_ids = await require_project_ids(connection, caller.org_id, body.projects, "body.projects")
            reported = await report_release(connection, author, report, project_ids, commits, body.environment)
            resolved = [str(one) for one in reported.issues_resolved]
            reopened = [str(one) for one in reported.issues_reopened]
            if reported.is_changed:
                data = {
                    "version": body.version,
                    "projects": list(body.projects),
                    "commits": reported.commits_upserted,
                    "issuesResolved": resolved,
                    "issuesReopened": reopened,
                }
                await transaction.record("release.report", reported.id, data)
            release = await _show(connection, caller.org_id, reported.id)
        result = ReleaseReportResult(
            **msgspec.structs.asdict(release),
            commits_upserted=reported.commits_upserted,
            issues_resolved=resolved,
            issues_reopened=reopened,
        )
        return Created(result) if reported.is_new else result

    @route("GET", PATH + "/{releaseId}", _READ)
    async def show_release(self, release_id: str, caller: AuthorizationContext, connection: AsyncConnection) -> Release:
        """Show a release."""
        return await _show(connection, caller.org_id, release_id)

    @route("GET", PATH + "/{releaseId}/commits", _READ)
    async def list_release_commits(
        self, release_id: str, caller: AuthorizationContext, page: PageReader
    ) -> PageOf[Commit]:
        """List the commits of a release, newest first."""

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> Sequence[Any]:
            await _find(connection, caller.org_id, release_id)
            return await list_release_commits(connection, release_id, None if after is None else int(after), limit)

        return await page.read(
            ("commits", release_id), fetch, lambda one: shown_as(Commit, one), lambda one: str(one.position)
        )

    async def _read_report(
        self, request: web.Request, now: datetime
    ) -> tuple[NewReleaseReport, ReleaseReport, Sequence[NewCommit]]:
        """Read and parse the body. Raises BadRequest."""
        issues = Issues()
        body = await self.context.read_body(request, NewReleaseReport, issues)
        check_url(body.url, "body.url", issues)
        released_at = parse_time(body.released_at, "body.releasedAt", issues)
        if released_at is not None and released_at > now + MAX_AHEAD:
            issues.add("body.releasedAt", TIME_OF_RELEASE, "range")
        commits = to_commits(body, issues)
        issues.raise_if_any("The request body is not valid.")
        return body, ReleaseReport(body.version, body.ref, body.url, released_at), commits


async def _show(connection: AsyncConnection, org_id: str, release_id: str) -> Release:
    """The release in the path, as a response. Raises NotFound."""
    (shown,) = await _shown(connection, [await _find(connection, org_id, release_id)])
    return shown


async def _find(connection: AsyncConnection, org_id: str, release_id: str) -> Any:
    """Find the release in the path. Raises NotFound."""
    of_org = sa.select(releases).where(releases.c.org_id == org_id, releases.c.id == release_id)
    found = (await connection.execute(of_org)).one_or_none()
    if found is None:
        raise NotFound
    return found


async def _shown(connection: AsyncConnection, rows: Sequence[Any]) -> list[Release]:
    release_ids = [one.id for one in rows]
    counts = await count_release_commits(connection, release_ids)
    projects = await find_projects_of(connection, release_ids)
    return [
        shown_as(
            Release,
            one,
            projects=[shown_as(ReleaseInProject, each) for each in projects.get(one.id, ())],
            commits=counts.get(one.id, 0),
        )
        for one in rows
    ]
