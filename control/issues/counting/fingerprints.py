"""The fingerprints that lead to issues, as counting changes them, and what an upgrade of the rules of grouping makes of
issues: merged ones, and split ones. Every function runs in the transaction that counts a page.
"""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.issues import FINGERPRINT_BYTES, issue_fingerprints, issues
from control.issues import lifecycle
from control.issues.counting.occurrences import IssueKey, Seen
from control.issues.counting.regrouping import Regrouping
from control.issues.tables import IssueRecord
from proto.grouping.fingerprint import FINGERPRINT_VERSION


async def regroup(
    connection: AsyncConnection, plan: Regrouping, known: Mapping[str, IssueRecord], now: datetime
) -> dict[str, IssueRecord]:
    """Merge the issues that have become one, and give them their fingerprints by the current rules. Returns the issues
    by id, as they are afterwards.
    """
    changed = dict(known)
    for target_id, merged in plan.merges.items():
        sources = [known[one] for one in merged]
        data = {"rulesVersion": FINGERPRINT_VERSION}
        target = await lifecycle.merge(connection, known[target_id], sources, now=now, by=None, data=data)
        assignees = [one.assignee_id for one in sources if one.assignee_id is not None]
        if target.assignee_id is None and assignees:
            target = await lifecycle.set_assignee(connection, target, assignees[0], now=now, by=None)
        changed[target_id] = target
    await _rename(connection, {issue_id: (known[issue_id], new) for issue_id, new in plan.renamed.items()})
    return changed


async def store_links(
    connection: AsyncConnection, plan: Regrouping, found: Mapping[IssueKey, Seen], stored_us: int
) -> None:
    """Store which issue each new fingerprint leads to, and which fingerprints are no longer pending. `stored_us`: the
    storage time of the page, in microseconds.
    """
    if plan.links:
        rows = [
            {
                "project_id": key[0],
                "fingerprint": key[1],
                "issue_id": issue_id,
                "rules_version": _decided_under(key, plan, found),
                "since_us": stored_us,
            }
            for key, issue_id in plan.links.items()
        ]
        await connection.execute(issue_fingerprints.insert(), rows)
    if plan.processed:
        columns = issue_fingerprints.c
        processed = issue_fingerprints.update().where(
            columns.project_id == sa.bindparam("of_project"), columns.fingerprint == sa.bindparam("of_fingerprint")
        )
        await connection.execute(
            processed.values(rules_version=FINGERPRINT_VERSION),
            [{"of_project": project_id, "of_fingerprint": fingerprint} for project_id, fingerprint in plan.processed],
        )


def _decided_under(key: IssueKey, plan: Regrouping, found: Mapping[IssueKey, Seen]) -> int:
    """The fingerprint version to store for a new one: one of an earlier version is pending if nothing else is known of
    it.
    """
    is_alone = key in plan.new and not plan.new[key]
    return min(FINGERPRINT_VERSION, found[key].fingerprint_version) if is_alone else FINGERPRINT_VERSION


async def _rename(connection: AsyncConnection, renamed: Mapping[str, tuple[IssueRecord, bytes]]) -> None:
    """Give issues the fingerprints that their errors have now. A merged issue that had one takes the old one: the
    warehouse finds the issue by either.
    """
    holders = await _find_holders(connection, [(issue.project_id, new) for issue, new in renamed.values()])
    freed: dict[str, bytes] = {}
    for issue, new in renamed.values():
        holder = holders.get((issue.project_id, new), issue.id)
        if holder != issue.id:
            freed[holder] = issue.fingerprint
    # No two issues have one fingerprint, not even between two statements.
    for values in (
        {holder: secrets.token_bytes(FINGERPRINT_BYTES) for holder in freed},
        {issue_id: new for issue_id, (_, new) in renamed.items()},
        freed,
    ):
        if values:
            rows = [{"of_id": issue_id, "new_fingerprint": fingerprint} for issue_id, fingerprint in values.items()]
            await connection.execute(_SET_FINGERPRINT, rows)


async def _find_holders(connection: AsyncConnection, keys: Sequence[IssueKey]) -> dict[IssueKey, str]:
    """The issues whose row has a fingerprint."""
    columns = issues.c
    found: dict[IssueKey, str] = {}
    by_project: dict[int, list[bytes]] = {}
    for project_id, fingerprint in keys:
        by_project.setdefault(project_id, []).append(fingerprint)
    for project_id, fingerprints in by_project.items():
        where = (columns.project_id == project_id) & columns.fingerprint.in_(fingerprints)
        for row in await connection.execute(sa.select(columns.id, columns.fingerprint).where(where)):
            found[project_id, bytes(row.fingerprint)] = row.id
    return found


_SET_FINGERPRINT: Final = (
    issues.update()
    .where(issues.c.id == sa.bindparam("of_id"))
    .values(fingerprint=sa.bindparam("new_fingerprint", type_=issues.c.fingerprint.type))
)
