"""`/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects`: show.

Loads the commits that may have caused an issue, and a stack trace of the issue, which is in ClickHouse.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.clickhouse import ClickHouse, QueryLimits, StoreError
from chassis.errors import NotFound, ServiceUnavailable
from chassis.http.access import bearer
from chassis.http.declaration import route
from chassis.http.route import Tag
from chassis.source_maps.resolver import SourceMaps
from control.code.releases.bodies import Commit
from control.code.suspects.rules import MAX_COMMITS, MAX_FRAMES, Candidate, Suspect, rank
from control.issues import store
from control.issues.releases.order import load_order
from control.issues.releases.tables import commits, release_commits, release_projects, releases
from control.issues.store import in_chunks
from control.issues.tables import IssueRecord
from control.routing.arguments import Handlers
from control.routing.resource import shown_as
from proto.identity import Scope
from proto.stack_traces import SourceFrame, source_frames

MAX_EARLIER_RELEASES: Final = 2_000  # the latest releases of a project, in which the previous one is searched
MAX_RECENT_RELEASES: Final = 50  # the latest releases of a project, whose repositories are searched
MAX_REPOSITORIES: Final = 20
MAX_CHARACTERS: Final = 8_000_000  # of messages and paths that are held in memory at once
_CHUNK: Final = 100  # commits that are loaded at once
WINDOW: Final = timedelta(days=14)  # before the first occurrence


class Candidates(NamedTuple):
    """The candidates, newest first. `of_release`: True for commits of the release, False for commits of the time
    before. `complete`: no commit was left out.
    """

    previous_release: str | None
    of_release: bool
    commits: list[sa.Row[Any]]
    complete: bool


async def find_candidates(connection: AsyncConnection, org_id: str, issue: IssueRecord) -> Candidates:
    """Find the commits of the issue's first release that the previous release does not have. If no such release with
    commits is known, find the commits of the project's repositories that were authored within WINDOW before the first
    occurrence.
    """
    previous: str | None = None
    if issue.first_release is not None:
        previous = await _previous_release(connection, issue.project_id, issue.first_release)
        ids = await _of_release(connection, org_id, issue.first_release, previous)
        if ids:
            found = await _load(connection, ids[:MAX_COMMITS])
            return Candidates(previous, True, found, len(found) == len(ids))
    ids = await _of_time(connection, org_id, issue)
    found = await _load(connection, ids[:MAX_COMMITS])
    return Candidates(previous, False, found, len(found) == len(ids))


async def _previous_release(connection: AsyncConnection, project_id: int, version: str) -> str | None:
    """The latest release of the project that is earlier than this one."""
    of_project = (
        sa.select(releases.c.version)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id)
        .order_by(release_projects.c.ordered_at.desc(), releases.c.id.desc())
        .limit(MAX_EARLIER_RELEASES)
    )
    versions = list((await connection.execute(of_project)).scalars())
    order = await load_order(connection, project_id, [*versions, version])
    return order.latest(one for one in versions if order.is_later(version, one))


async def _of_release(connection: AsyncConnection, org_id: str, version: str, previous: str | None) -> list[str]:
    """Ids of the commits of the release, newest first. If there are more than are considered, one more id is
    returned.
    """

    def named(name: str | None) -> sa.ScalarSelect[Any]:
        return sa.select(releases.c.id).where(releases.c.org_id == org_id, releases.c.version == name).scalar_subquery()

    before = release_commits.alias()
    known = sa.exists().where(before.c.release_id == named(previous), before.c.commit_id == commits.c.id)
    statement = (
        sa.select(commits.c.id)
        .join_from(release_commits, commits, commits.c.id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == named(version), ~known)
        .order_by(release_commits.c.position)
        .limit(MAX_COMMITS + 1)
    )
    return list((await connection.execute(statement)).scalars())


async def _of_time(connection: AsyncConnection, org_id: str, issue: IssueRecord) -> list[str]:
    """The same for the commits of the time before the issue."""
    recent = (
        sa.select(release_projects.c.release_id)
        .where(release_projects.c.project_id == issue.project_id)
        .order_by(release_projects.c.ordered_at.desc(), release_projects.c.release_id.desc())
        .limit(MAX_RECENT_RELEASES)
    )
    of_recent = sa.select(release_commits.c.commit_id).where(release_commits.c.release_id.in_(recent))
    names = sa.select(commits.c.repository).distinct().where(commits.c.id.in_(of_recent)).order_by(commits.c.repository)
    repositories = list((await connection.execute(names.limit(MAX_REPOSITORIES))).scalars())
    if not repositories:
        return []
    statement = sa.select(commits.c.id).where(
        commits.c.org_id == org_id,
        commits.c.repository.in_(repositories),
        commits.c.authored_at >= issue.first_seen - WINDOW,
        commits.c.authored_at <= issue.first_seen,
    )
    newest_first = statement.order_by(commits.c.authored_at.desc(), commits.c.id.desc()).limit(MAX_COMMITS + 1)
    return list((await connection.execute(newest_first)).scalars())


async def _load(connection: AsyncConnection, ids: list[str]) -> list[sa.Row[Any]]:
    """Load the commits in this order. Fewer are loaded if they are too large together."""
    found: list[sa.Row[Any]] = []
    room = MAX_CHARACTERS
    for some in in_chunks(ids, _CHUNK):
        by_id: dict[str, Any] = {
            row.id: row for row in await connection.execute(sa.select(commits).where(commits.c.id.in_(some)))
        }
        for commit_id in some:
            room -= len(by_id[commit_id].message) + sum(map(len, by_id[commit_id].files or ()))
            if room < 0:
                return found
            found.append(by_id[commit_id])
    return found


LIMITS: Final = QueryLimits(max_seconds=10.0, max_memory_bytes=512 * 2**20, max_result_rows=1, max_threads=1)
NEAR: Final = timedelta(hours=1)  # around the times of the issue, which have milliseconds

_SELECT: Final = (
    "SELECT stacktrace, release FROM error_occurrences WHERE project_id = {project:UInt64}"
    " AND hex(fingerprint) IN {fingerprints:Array(String)} AND stacktrace != ''"
    " AND time >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND time < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"
)
_FIRST: Final = f"{_SELECT} ORDER BY time, batch_id, row LIMIT 1"
_LAST: Final = f"{_SELECT} ORDER BY time DESC, batch_id DESC, row DESC LIMIT 1"


class StackTrace(NamedTuple):
    """A stack trace as it was sent, and its release. The text is empty if no stack trace was sent."""

    text: str
    release: str


async def read_stack_trace(
    clickhouse: ClickHouse, project_id: int, fingerprints: Iterable[bytes], first_seen: datetime, last_seen: datetime
) -> StackTrace | None:
    """Read the stack trace of an issue's first occurrence, or otherwise of its latest occurrence, by any of its
    fingerprints. Returns None if neither is stored with a stack trace. Raises StoreError.
    """
    hashes = sorted(one.hex().upper() for one in fingerprints)
    begin, end = first_seen, last_seen + timedelta(milliseconds=1)
    for statement, since, until in ((_FIRST, begin, begin + NEAR), (_LAST, end - NEAR, end)):
        parameters = {
            "project": project_id,
            "fingerprints": hashes,
            "from": round(since.timestamp() * 1_000),
            "to": round(until.timestamp() * 1_000),
        }
        rows = await clickhouse.query(statement, parameters, limits=LIMITS)
        if rows:
            text, release = rows[0]
            return StackTrace(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text), str(release))
    return None


NO_STORE: Final = "This process cannot read stack traces, because it has no ClickHouse server."
NO_STACK_TRACE: Final = "No occurrence that is still stored has a stack trace."
NO_COMMITS: Final = "No commits are known. Report releases with their commits."
NO_MATCH: Final = "No known commit changed a file of the stack trace."


class Basis(StrEnum):
    """The commits that were considered: the commits of the first release, or of the time before the issue."""

    RELEASE = "release"
    TIME = "time"


class StackFrame(msgspec.Struct, frozen=True, rename="camel"):
    """A frame of the application's own code."""

    file: str
    function: str


class SuspectReason(msgspec.Struct, frozen=True, rename="camel"):
    """The commit changed the file of a frame. `rank` 0 is the application's innermost frame."""

    frame: StackFrame
    file: str
    rank: Annotated[int, Meta(ge=0)]


class SuspectCommit(Commit, frozen=True, rename="camel"):
    """A commit that may have caused the issue."""

    score: Annotated[float, Meta(ge=0, description="Above 0. Comparable only within one response.")]
    reasons: list[SuspectReason]


class IssueSuspects(msgspec.Struct, frozen=True, rename="camel"):
    """The commits that may have caused an issue, the most likely first."""

    first_bad_release: Annotated[str | None, Meta(description="The release of the first occurrence.")]
    previous_release: Annotated[str | None, Meta(description="The latest release of the project before `release`.")]
    basis: Basis
    frames: Annotated[list[StackFrame], Meta(description="The application's own frames, innermost first.")]
    commits: list[SuspectCommit]
    complete: Annotated[
        bool, Meta(description="False if there are more commits, files or frames than were considered.")
    ]
    note: Annotated[str | None, Meta(description="Why there are no suspects, in words.")]


@dataclass(frozen=True, slots=True)
class Suspects(Handlers):
    """The handler of suspects, and its dependencies. `clickhouse`: None if this process has no ClickHouse to read."""

    TAG: ClassVar = Tag("suspects", "Commits that may have caused an issue.")
    clickhouse: ClickHouse | None = None
    source_maps: SourceMaps | None = None

    @route("GET", "/orgs/{orgSlug}/projects/{projectSlug}/issues/{issueId}/suspects", bearer(Scope.ISSUES_READ))
    async def show_suspects(self, issue_id: str, caller: AuthorizationContext) -> IssueSuspects:
        """Show the commits that may have caused an issue.

        Sluice considers the commits of the issue's first release that the previous release does not have. If no such
        commits are known, it considers the commits of the two weeks before the first occurrence. It ranks the commits
        by the files of the top frames of the stack trace.
        """
        async with self.context.database.read() as connection:
            issue = await store.find(connection, caller.path_project_id, issue_id)
            if issue is None:
                raise NotFound
            linked = await store.find_fingerprints(connection, [issue_id])
            candidates = await find_candidates(connection, caller.org_id, issue)
        frames, note = await self._read_frames(issue, {issue.fingerprint, *linked.get(issue_id, ())})
        return await asyncio.to_thread(_suspects, issue, candidates, frames, note)

    async def _read_frames(
        self, issue: IssueRecord, fingerprints: Iterable[bytes]
    ) -> tuple[list[SourceFrame], str | None]:
        """The frames, or the reason why there are none. Raises ServiceUnavailable."""
        if self.clickhouse is None:
            return [], NO_STORE
        try:
            found = await read_stack_trace(
                self.clickhouse, issue.project_id, fingerprints, issue.first_seen, issue.last_seen
            )
        except StoreError as error:
            raise ServiceUnavailable("Stack traces are temporarily unavailable. Retry later.") from error
        if found is None:
            return [], NO_STACK_TRACE
        maps = self.source_maps
        resolved = None if maps is None else await maps.resolve(issue.project_id, found.release, found.text)
        frames = source_frames(resolved or found.text)
        return frames, None if frames else NO_STACK_TRACE


def _suspects(issue: IssueRecord, candidates: Candidates, frames: list[SourceFrame], note: str | None) -> IssueSuspects:
    ranked = rank(
        frames,
        [
            Candidate(
                one.repository,
                one.sha,
                one.message,
                tuple(one.files or ()),
                one.authored_at,
                position,
                one.files_truncated,
            )
            for position, one in enumerate(candidates.commits)
        ],
    )
    if note is None and not ranked:
        note = NO_MATCH if candidates.commits else NO_COMMITS
    is_cut = len(frames) > MAX_FRAMES or any(one.files_truncated or one.files is None for one in candidates.commits)
    return IssueSuspects(
        first_bad_release=issue.first_release,
        previous_release=candidates.previous_release,
        basis=Basis.RELEASE if candidates.of_release else Basis.TIME,
        frames=[shown_as(StackFrame, frame) for frame in frames[:MAX_FRAMES]],
        commits=[_shown(one, candidates.commits[one.candidate.position]) for one in ranked],
        complete=candidates.complete and not is_cut,
        note=note,
    )


def _shown(suspect: Suspect, commit: Any) -> SuspectCommit:
    reasons = [
        SuspectReason(shown_as(StackFrame, reason.frame), reason.file, reason.rank) for reason in suspect.reasons
    ]
    return shown_as(SuspectCommit, commit, score=suspect.score, reasons=reasons)
