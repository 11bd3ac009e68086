"""Records pushed commits that other systems report, in the caller's transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from control.code.commits import (
    CommitKey,
    DefaultBranchPush,
    NewCommit,
    find_known,
    insert_commits,
    make_room,
    put_on_default_branch,
    upsert_commits,
)
from control.code.fixes.updates import Author, read_all, store_references, update_issues
from control.issues.references import ShortId

MAX_PLAIN_COMMITS: Final = 500  # commits of pushes that are recorded together


class ReportedPush(NamedTuple):
    """The effects of a push."""

    commits_upserted: int
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]


class PushReport(NamedTuple):
    """Commits, oldest first. `default_branch_at`: when they reached the default branch, by the platform's clock. None
    if they are on another branch.
    """

    commits: Sequence[NewCommit]
    default_branch_at: datetime | None


async def report_push(connection: AsyncConnection, author: Author, push: PushReport) -> ReportedPush:
    """Store commits. Commits on the default branch resolve the issues that they name as fixed, according to the
    settings of their project, and reopen the issues whose fix they revert. Pushes may be reported in another order than
    they happened.
    """
    arrived_by = _default_branch_push(push)
    upserted = await upsert_commits(connection, author.org_id, push.commits, author.now, arrived_by)
    parsed = read_all(reversed(push.commits), author.org_slug)
    await store_references(connection, author, parsed, upserted.ids)
    if arrived_by is None:
        return ReportedPush(upserted.changed, [], [])
    known = {upserted.ids[one.key]: one for one in push.commits if one.key not in upserted.new}
    moved = await put_on_default_branch(connection, known, arrived_by)
    arrived = {*moved, *(upserted.ids[key] for key in upserted.new if key in parsed)}
    return ReportedPush(upserted.changed, *await update_issues(connection, author, arrived))


async def report_plain_pushes(
    connection: AsyncConnection, author: Author, pushes: Sequence[PushReport]
) -> list[ReportedPush | None]:
    """Store the commits of pushes that change no issue, with a number of statements that does not depend on the number
    of pushes. Returns None for each of the other pushes, which `report_push` has to record: pushes that name issues or
    revert commits, pushes with a commit that is known or in an earlier push, and pushes beyond the limit.
    """
    room = MAX_PLAIN_COMMITS
    plain: dict[int, PushReport] = {}
    for number, push in enumerate(pushes):
        if len(push.commits) <= room and not read_all(reversed(push.commits), author.org_slug):
            room -= len(push.commits)
            plain[number] = push
    keys = {one.key for push in plain.values() for one in push.commits}
    await make_room(connection, author.org_id, len(keys))
    taken: set[CommitKey] = set(await find_known(connection, author.org_id, keys))
    new: dict[CommitKey, tuple[NewCommit, DefaultBranchPush | None]] = {}
    reported: list[ReportedPush | None] = [None] * len(pushes)
    for number, push in plain.items():
        of_push = {one.key: (one, _default_branch_push(push)) for one in push.commits}
        if taken.isdisjoint(of_push):
            taken |= of_push.keys()
            new |= of_push
            reported[number] = ReportedPush(len(of_push), [], [])
    await insert_commits(connection, author.org_id, new, author.now)
    return reported


def _default_branch_push(push: PushReport) -> DefaultBranchPush | None:
    at = push.default_branch_at
    return None if at is None or not push.commits else DefaultBranchPush.of(push.commits, at)
