"""`/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects`: show."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.clickhouse import ClickHouse, StoreError
from chassis.errors import NotFound, ServiceUnavailable
from chassis.http.access import bearer
from chassis.http.declaration import declared_routes, route
from chassis.http.operation import Tag
from chassis.http.web import Route
from chassis.source_maps.resolver import SourceMaps
from control.code.commits import StoredCommit
from control.code.releases.bodies import Commit
from control.code.suspects.candidates import Candidates, SuspectedIssue, find_candidates, find_issue, read_stack_trace
from control.code.suspects.rules import MAX_FRAMES, Candidate, Suspect, rank
from control.http.context import HandlerContext
from control.routing.arguments import control_arguments
from control.routing.resource import shown_as
from proto.identity import Scope
from proto.stack_traces import SourceFrame, source_frames

NO_STORE: Final = "This process has no access to stack traces: it needs a ClickHouse server."
NO_STACK_TRACE: Final = "No occurrence that is still stored has a stack trace."
NO_COMMITS: Final = "No commits are known: report releases with their commits."
NO_MATCH: Final = "No known commit changed a file of the stack trace."

TAG: Final = Tag("suspects", "Commits that may have caused an issue.")


class Basis(StrEnum):
    """Which commits were considered: those of the first release, or those of the time before."""

    RELEASE = "release"
    TIME = "time"


class StackFrame(msgspec.Struct, frozen=True, rename="camel"):
    """A frame of the application's own code."""

    file: str
    function: str


class SuspectReason(msgspec.Struct, frozen=True, rename="camel"):
    """The commit changed the file of a frame. `rank` 0 is the innermost frame of the application."""

    frame: StackFrame
    file: str
    rank: Annotated[int, Meta(ge=0)]


class SuspectCommit(Commit, frozen=True, rename="camel"):
    """A commit that may have caused the issue."""

    score: Annotated[float, Meta(ge=0, description="Above 0; comparable within one response only.")]
    reasons: list[SuspectReason]


class IssueSuspects(msgspec.Struct, frozen=True, rename="camel"):
    """The commits that may have caused an issue, the likeliest first."""

    first_bad_release: Annotated[str | None, Meta(description="The release of the first occurrence.")]
    previous_release: Annotated[str | None, Meta(description="The latest release of the project before that one.")]
    basis: Basis
    frames: Annotated[list[StackFrame], Meta(description="The application's own frames, innermost first.")]
    commits: list[SuspectCommit]
    complete: Annotated[bool, Meta(description="False: there are more commits, files or frames than were considered.")]
    note: Annotated[str | None, Meta(description="Why there are no suspects, in words.")]


@dataclass(frozen=True, slots=True)
class Suspects:
    """The handler of suspects, and its dependencies. `clickhouse` None: there is none to read."""

    context: HandlerContext
    clickhouse: ClickHouse | None = None
    source_maps: SourceMaps | None = None

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", "/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects", bearer(Scope.ISSUES_READ))
    async def show_suspects(self, issue_id: str, caller: AuthorizationContext) -> IssueSuspects:
        """Show the commits that may have caused an issue.

        Considers the commits of the first release in which the issue occurred that the release before it does not
        have; if none are known, those of the two weeks before the first occurrence. Ranks them by the files of the
        top frames of the stack trace.
        """
        async with self.context.database.read() as connection:
            issue = await find_issue(connection, caller.path_project_id, issue_id)
            if issue is None:
                raise NotFound
            candidates = await find_candidates(connection, caller.org_id, issue)
        frames, note = await self._read_frames(issue)
        return await asyncio.to_thread(_suspects, issue, candidates, frames, note)

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
        frames=[shown_as(StackFrame, frame) for frame in frames[:MAX_FRAMES]],
        commits=[_shown(one, by_position[one.candidate.position]) for one in ranked],
        complete=candidates.complete and not is_cut,
        note=note,
    )


def _shown(suspect: Suspect, commit: StoredCommit) -> SuspectCommit:
    reasons = [
        SuspectReason(shown_as(StackFrame, reason.frame), reason.file, reason.rank) for reason in suspect.reasons
    ]
    return shown_as(SuspectCommit, commit, score=suspect.score, reasons=reasons)


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
