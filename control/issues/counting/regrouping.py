"""Finds the issue to which each fingerprint of a page leads, also after an upgrade of the grouping rules.

An upgrade gives an error a new fingerprint. The fingerprint before the upgrade is computed from the texts of an
occurrence (`occurrences.read_occurrence_texts`), so that the new fingerprint leads to the issue of the old one:

    find_links        finds the issues that are known by fingerprints
    plan              assigns the fingerprints of a page to issues, the earliest errors first; a pure function
      assign_current  a fingerprint of the current version leads to the issue that it is known for, to the issue of an
                      old fingerprint, to an issue split from such an issue, or to a new issue
      assign_earlier  a fingerprint of an earlier version, from a gateway that is not upgraded, leads to the issue that
                      it is known for, to the issue of its current fingerprint, or to a new issue
      _process        merges the issues of several old fingerprints that have become one; the oldest issue stays
    regroup           merges issues, and gives them their fingerprints by the current rules
    store_links       stores the issue to which each fingerprint leads from now on

An old fingerprint is pending until an occurrence shows what it has become. It is processed once: further fingerprints
that it becomes later lead to issues that are split from its issue. An upgrade ends UPGRADE_DAYS after an old
fingerprint became known. From then on the old fingerprint is not followed any more, and a new fingerprint leads to a
new issue.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.issues import FINGERPRINT_BYTES, issue_fingerprints, issues
from control.issues import lifecycle
from control.issues.counting.occurrences import IssueKey, Occurrences
from control.issues.store import in_chunks, insert_rows
from control.issues.tables import IssueRecord
from proto.grouping.fingerprint import FINGERPRINT_VERSION

UPGRADE_DAYS: Final = 30  # in the storage time of occurrences
_DAY_US: Final = 86_400_000_000
_SET_FINGERPRINT: Final = (
    issues.update()
    .where(issues.c.id == sa.bindparam("of_id"))
    .values(fingerprint=sa.bindparam("new_fingerprint", type_=issues.c.fingerprint.type))
)


class FingerprintLink(NamedTuple):
    """The issue to which a fingerprint leads. `fingerprint_version`: the version under which this was last decided.
    `since_us`: since when the fingerprint is known, as a storage time in microseconds. For fingerprints from before an
    upgrade it is the time of the upgrade.
    """

    issue: IssueRecord
    fingerprint_version: int
    since_us: int


def oldest_upgraded(stored_us: int) -> int:
    """The time from which on fingerprints of earlier versions are followed: a fingerprint that is known since before
    this time is not followed. `stored_us`: the storage time of the occurrences that are counted. Both in microseconds.
    """
    return stored_us - UPGRADE_DAYS * _DAY_US


@dataclass(slots=True)
class Regrouping:
    """The plan for the fingerprints of a page.

    `known`: fingerprints that an issue already counts, with the issue's id. `new`: fingerprints that get a new issue
    each, with other fingerprints that lead to the same issue. `split_from`: the new fingerprints that were one with
    other fingerprints before, with the id of the issue that keeps the other fingerprints. `merges`: issues to merge, by
    the id of the issue into which they are merged. `renamed`: issues with their first fingerprint of the current
    version. `links`: fingerprints to store, with the id of the issue. `processed`: fingerprints that are no longer
    pending.
    """

    known: dict[IssueKey, str] = field(default_factory=dict)
    new: dict[IssueKey, list[IssueKey]] = field(default_factory=dict)
    split_from: dict[IssueKey, str] = field(default_factory=dict)
    merges: dict[str, list[str]] = field(default_factory=dict)
    renamed: dict[str, bytes] = field(default_factory=dict)
    links: dict[IssueKey, str] = field(default_factory=dict)
    processed: set[IssueKey] = field(default_factory=set)


def plan(
    occurrences: Iterable[tuple[IssueKey, Occurrences]],
    others: Mapping[IssueKey, Sequence[IssueKey]],
    links: Mapping[IssueKey, FingerprintLink],
    stored_us: int,
) -> Regrouping:
    """Assign the fingerprints of a page to issues, in the order of `occurrences`. `others`: the fingerprints of the
    occurrences by other fingerprint versions, for the rows whose texts were read. `links`: the known links of all these
    fingerprints. `stored_us`: the storage time of the page, in microseconds.
    """
    planner = _Planner(others, links, oldest_upgraded(stored_us))
    for key, occurred in occurrences:
        if occurred.fingerprint_version < FINGERPRINT_VERSION:
            planner.assign_earlier(key)
        else:
            planner.assign_current(key)
    return planner.finish()


class _Planner:
    def __init__(
        self, others: Mapping[IssueKey, Sequence[IssueKey]], links: Mapping[IssueKey, FingerprintLink], oldest_us: int
    ) -> None:
        self._others = others
        self._plan = Regrouping()
        self._issues = {link.issue.id: link.issue for link in links.values()}
        self._issue_of = {key: link.issue.id for key, link in links.items()}
        self._upgraded = {key for key, link in links.items() if link.since_us > oldest_us}
        self._pending = {key for key in self._upgraded if links[key].fingerprint_version < FINGERPRINT_VERSION}
        self._created: dict[IssueKey, IssueKey] = {}  # the fingerprint for which the issue is created
        self._into: dict[str, str] = {}

    def assign_current(self, key: IssueKey) -> None:
        """Assign a fingerprint of the current version."""
        if key in self._created:
            return
        others = self._others.get(key, ())
        pending = [one for one in (key, *others) if one in self._pending]
        older = [one for one in others if one in self._upgraded]
        if key in self._issue_of or pending:
            self._process(key, pending)
        else:
            self._create(key)
            if older:
                self._plan.split_from[key] = self._issue_of[older[0]]

    def assign_earlier(self, key: IssueKey) -> None:
        """Assign a fingerprint of an earlier version. If it is new, its fingerprint by the current version leads to the
        same issue.
        """
        if key in self._created or key in self._issue_of:
            return
        others = self._others.get(key, ())
        known = next((one for one in others if one in self._issue_of or one in self._created), None)
        if known is None:
            self._create(key, *others[:1])
        elif known in self._created:
            self._join(key, self._created[known])
        else:
            self._lead(key, self._issue_of[known])

    def finish(self) -> Regrouping:
        """The plan, with the ids of the issues that remain after merging."""
        plan = self._plan
        plan.known = {key: self._left(issue_id) for key, issue_id in self._issue_of.items()}
        plan.links = {key: self._left(issue_id) for key, issue_id in plan.links.items()}
        plan.split_from = {key: self._left(issue_id) for key, issue_id in plan.split_from.items()}
        return plan

    def _create(self, key: IssueKey, *more: IssueKey) -> None:
        self._plan.new[key] = []
        self._created[key] = key
        for one in more:
            self._join(one, key)

    def _join(self, key: IssueKey, created: IssueKey) -> None:
        self._plan.new[created].append(key)
        self._created[key] = created

    def _lead(self, key: IssueKey, issue_id: str) -> None:
        self._plan.links[key] = self._issue_of[key] = issue_id
        self._upgraded.add(key)

    def _process(self, key: IssueKey, pending: Sequence[IssueKey]) -> None:
        """Give the fingerprint to the oldest of the issues, and merge the other issues into it."""
        ids = {self._left(self._issue_of[one]) for one in (key, *pending) if one in self._issue_of}
        target, *merged = sorted(ids, key=lambda one: self._issues[one].number)
        if merged:
            before = [one for each in merged for one in self._plan.merges.pop(each, [])]
            self._plan.merges.setdefault(target, []).extend((*before, *merged))
            self._into |= dict.fromkeys(merged, target)
        if key not in self._issue_of:
            self._lead(key, target)
        if self._issues[target].fingerprint in {fingerprint for _, fingerprint in pending}:
            self._plan.renamed.setdefault(target, key[1])
        self._pending.difference_update(pending)
        self._plan.processed.update(pending)

    def _left(self, issue_id: str) -> str:
        while issue_id in self._into:
            issue_id = self._into[issue_id]
        return issue_id


async def find_links(connection: AsyncConnection, keys: Iterable[IssueKey]) -> dict[IssueKey, FingerprintLink]:
    """Find the issues that count the occurrences of fingerprints, by project and fingerprint."""
    found: dict[IssueKey, FingerprintLink] = {}
    own, columns = issues.alias(), issue_fingerprints.c
    select = (
        sa.select(columns.fingerprint.label("of_fingerprint"), columns.rules_version, columns.since_us, *issues.c)
        .join_from(issue_fingerprints, own, own.c.id == columns.issue_id)
        .join(issues, issues.c.id == sa.func.coalesce(own.c.merged_into, own.c.id))
    )
    for project_id, fingerprints in _by_project(keys).items():
        for some in in_chunks(fingerprints):
            rows = await connection.execute(
                select.where(columns.project_id == project_id, columns.fingerprint.in_(some))
            )
            for row in rows.mappings():
                found[project_id, bytes(row["of_fingerprint"])] = FingerprintLink(
                    IssueRecord.from_row(row), row["rules_version"], row["since_us"]
                )
    return found


def _by_project(keys: Iterable[IssueKey]) -> dict[int, list[bytes]]:
    """Fingerprints by project. SQLite would read the whole table to find pairs of columns."""
    by_project: dict[int, list[bytes]] = {}
    for project_id, fingerprint in keys:
        by_project.setdefault(project_id, []).append(fingerprint)
    return by_project


async def find_pending(connection: AsyncConnection, project_ids: Collection[int], stored_us: int) -> set[int]:
    """Find the projects that have a pending fingerprint: a fingerprint of an earlier version that is still followed at
    this storage time (in microseconds), and of which no occurrence has shown what it has become.
    """
    columns = issue_fingerprints.c
    is_pending = sa.exists().where(
        columns.project_id == projects.c.id,
        columns.rules_version.in_(range(1, FINGERPRINT_VERSION)),
        columns.since_us > oldest_upgraded(stored_us),
    )
    statement = sa.select(projects.c.id).where(projects.c.id.in_(project_ids), is_pending)
    return set((await connection.execute(statement)).scalars())


async def regroup(
    connection: AsyncConnection, plan: Regrouping, issues_by_id: Mapping[str, IssueRecord], now: datetime
) -> dict[str, IssueRecord]:
    """Merge the issues that have become one, and give them their fingerprints by the current rules. Returns the changed
    issues by id.
    """
    changed = dict(issues_by_id)
    for target_id, merged in plan.merges.items():
        sources = [issues_by_id[one] for one in merged]
        data = {"rulesVersion": FINGERPRINT_VERSION}
        target = await lifecycle.merge(connection, issues_by_id[target_id], sources, now=now, by=None, data=data)
        assignees = [one.assignee_id for one in sources if one.assignee_id is not None]
        if target.assignee_id is None and assignees:
            target = await lifecycle.set_assignee(connection, target, assignees[0], now=now, by=None)
        changed[target_id] = target
    await _rename(connection, {issue_id: (issues_by_id[issue_id], new) for issue_id, new in plan.renamed.items()})
    return changed


async def store_links(
    connection: AsyncConnection, plan: Regrouping, occurrences: Mapping[IssueKey, Occurrences], stored_us: int
) -> None:
    """Store the issue to which each new fingerprint leads, and the fingerprints that are no longer pending.
    `stored_us`: the storage time of the page, in microseconds.
    """
    rows = [
        {
            "project_id": key[0],
            "fingerprint": key[1],
            "issue_id": issue_id,
            "rules_version": _decided_under(key, plan, occurrences),
            "since_us": stored_us,
        }
        for key, issue_id in plan.links.items()
    ]
    await insert_rows(connection, issue_fingerprints, rows)
    if plan.processed:
        columns = issue_fingerprints.c
        processed = issue_fingerprints.update().where(
            columns.project_id == sa.bindparam("of_project"), columns.fingerprint == sa.bindparam("of_fingerprint")
        )
        await connection.execute(
            processed.values(rules_version=FINGERPRINT_VERSION),
            [{"of_project": project_id, "of_fingerprint": fingerprint} for project_id, fingerprint in plan.processed],
        )


def _decided_under(key: IssueKey, plan: Regrouping, occurrences: Mapping[IssueKey, Occurrences]) -> int:
    """The fingerprint version to store for a new fingerprint. A fingerprint of an earlier version is pending if no
    other fingerprint of its issue is known.
    """
    is_alone = key in plan.new and not plan.new[key]
    return min(FINGERPRINT_VERSION, occurrences[key].fingerprint_version) if is_alone else FINGERPRINT_VERSION


async def _rename(connection: AsyncConnection, renamed: Mapping[str, tuple[IssueRecord, bytes]]) -> None:
    """Give issues the fingerprints that their errors have now. If a merged issue has the new fingerprint, it takes the
    old one, so that the warehouse finds the issue by either.
    """
    holders = await _find_holders(connection, [(issue.project_id, new) for issue, new in renamed.values()])
    freed: dict[str, bytes] = {}
    for issue, new in renamed.values():
        holder = holders.get((issue.project_id, new), issue.id)
        if holder != issue.id:
            freed[holder] = issue.fingerprint
    # No two issues may have the same fingerprint, not even between two statements.
    for values in (
        {holder: secrets.token_bytes(FINGERPRINT_BYTES) for holder in freed},
        {issue_id: new for issue_id, (_, new) in renamed.items()},
        freed,
    ):
        if values:
            rows = [{"of_id": issue_id, "new_fingerprint": fingerprint} for issue_id, fingerprint in values.items()]
            await connection.execute(_SET_FINGERPRINT, rows)


async def _find_holders(connection: AsyncConnection, keys: Sequence[IssueKey]) -> dict[IssueKey, str]:
    """Find the issues whose row has one of the fingerprints."""
    columns = issues.c
    found: dict[IssueKey, str] = {}
    for project_id, fingerprints in _by_project(keys).items():
        where = (columns.project_id == project_id) & columns.fingerprint.in_(fingerprints)
        for row in await connection.execute(sa.select(columns.id, columns.fingerprint).where(where)):
            found[project_id, bytes(row.fingerprint)] = row.id
    return found
