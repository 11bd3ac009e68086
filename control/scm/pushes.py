"""Records commits that were pushed, in the caller's transaction; other systems report them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.references import ShortId
from control.scm.commit_repository import NewCommit, find_effective, put_on_default_branch, upsert_commits
from control.scm.fixes import Author, note_references, reopen_reverted, resolve_pushed


class ReportedPush(NamedTuple):
    """What a push did."""

    commits_upserted: int
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]


async def report_push(
    connection: AsyncConnection, author: Author, commits: Sequence[NewCommit], default_branch_at: datetime | None
) -> ReportedPush:
    """Store commits, oldest first. `default_branch_at`: when they reached the default branch, by the platform's clock;
    None: they are on another one. On the default branch they resolve the issues that they name as fixed, as their
    project says, and reopen those whose fix they revert: each commit once, and not after a release that had it.
    Pushes may be reported in another order than they happened in.
    """
    upserted = await upsert_commits(connection, author.org_id, commits, author.now)
    ids, newest_first = upserted.ids, list(reversed(commits))
    await note_references(connection, author, newest_first, ids)
    if default_branch_at is None:
        return ReportedPush(upserted.changed, [], [])
    known = [ids[key] for key in ids if key not in upserted.new]
    effective = await find_effective(connection, known)
    await put_on_default_branch(connection, list(ids.values()), default_branch_at)
    arrived = [one for one in newest_first if ids[one.key] not in effective]
    arrived_ids = [ids[one.key] for one in arrived]
    resolved = await resolve_pushed(connection, author, arrived_ids, default_branch_at)
    reopened = await reopen_reverted(connection, author, arrived, default_branch_at)
    return ReportedPush(upserted.changed, resolved, reopened)
