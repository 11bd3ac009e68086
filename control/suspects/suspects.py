"""`/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects`: show."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from chassis.clickhouse import ClickHouse, StoreError
from chassis.errors import NotFound, ServiceUnavailable
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response
from chassis.source_maps.resolver import SourceMaps
from control.http.context import HandlerContext
from control.http.path_ids import path_id
from control.scm.commit_repository import StoredCommit
from control.suspects.candidates import Candidates, SuspectedIssue, find_candidates, find_issue
from control.suspects.ranking import MAX_FRAMES, Candidate, rank
from control.suspects.schemas import Basis, IssueSuspects, StackFrame, suspect_body
from control.suspects.stack_trace import read_stack_trace
from proto.identity import Scope
from proto.stack_traces import SourceFrame, source_frames

NO_STORE: Final = "This process has no access to stack traces: it needs a ClickHouse server."
NO_STACK_TRACE: Final = "No occurrence that is still stored has a stack trace."
NO_COMMITS: Final = "No commits are known: report releases with their commits."
NO_MATCH: Final = "No known commit changed a file of the stack trace."

TAG: Final = Tag("suspects", "Commits that may have caused an issue.")
SHOW: Final = Operation(
    "showSuspects",
    TAG,
    (ResponseSpec("The suspects.", json_content(IssueSuspects)),),
    (Parameter("issueId", "path", Annotated[str, Meta(min_length=1)], "The issue."),),
)


@dataclass(frozen=True, slots=True)
class Suspects:
    """The handler of suspects, and its dependencies. `clickhouse` None: there is none to read."""

    context: HandlerContext
    clickhouse: ClickHouse | None = None
    source_maps: SourceMaps | None = None

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path = "/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects"
        return [Route("GET", path, self.show, bearer(Scope.ISSUES_READ), operation=SHOW)]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the commits that may have caused an issue.

        Considers the commits of the first release in which the issue occurred that the release before it does not
        have; if none are known, those of the two weeks before the first occurrence. Ranks them by the files of the
        top frames of the stack trace.
        """
        caller = authorization_context(request)
        if caller.project_id is None:
            raise LookupError("the path has no project")
        async with self.context.database.read() as connection:
            issue = await find_issue(connection, caller.project_id, path_id(request, "issueId"))
            if issue is None:
                raise NotFound
            candidates = await find_candidates(connection, caller.org_id, issue)
        frames, note = await self._read_frames(issue)
        body = await asyncio.to_thread(_suspects, issue, candidates, frames, note)
        return json_response(body)

    async def _read_frames(self, issue: SuspectedIssue) -> tuple[list[SourceFrame], str | None]:
        """The frames; without any, why. Raises ServiceUnavailable."""
        if self.clickhouse is None:
            return [], NO_STORE
        try:
            found = await read_stack_trace(self.clickhouse, issue)
        except StoreError as error:
            raise ServiceUnavailable("Stack traces are temporarily unavailable; retry later.") from error
        if found is None:
            return [], NO_STACK_TRACE
        resolved = None
        if self.source_maps is not None:
            resolved = await self.source_maps.resolve(issue.project_id, found.release, found.text)
        frames = source_frames(resolved or found.text)
        return frames, None if frames else NO_STACK_TRACE


def _suspects(
    issue: SuspectedIssue, candidates: Candidates, frames: list[SourceFrame], note: str | None
) -> IssueSuspects:
    by_position = dict(enumerate(candidates.commits))
    ranked = rank(frames, [_candidate(position, one) for position, one in by_position.items()])
    if note is None and not ranked:
        note = NO_MATCH if candidates.commits else NO_COMMITS
    is_cut = len(frames) > MAX_FRAMES or any(one.files_truncated or one.files is None for one in candidates.commits)
    return IssueSuspects(
        first_bad_release=issue.first_release,
        previous_release=candidates.previous_release,
        basis=Basis.RELEASE if candidates.of_release else Basis.TIME,
        frames=[StackFrame(frame.file, frame.function) for frame in frames[:MAX_FRAMES]],
        commits=[suspect_body(one, by_position[one.candidate.position]) for one in ranked],
        complete=candidates.complete and not is_cut,
        note=note,
    )


def _candidate(position: int, commit: StoredCommit) -> Candidate:
    return Candidate(
        commit.repository,
        commit.sha,
        commit.message,
        commit.files or (),
        commit.authored_at,
        position,
        commit.files_truncated,
    )
