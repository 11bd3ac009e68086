"""Counts the errors of a page in their issues, in one transaction.

project_state.load    the projects that are not deleted, with the issues and notifications that their quotas still allow
regrouping.plan       the issue to which each fingerprint leads; after an upgrade also by its old fingerprint
regrouping.regroup    merges issues that have become one, without a notification
count_known           adds counts, first and last times to known issues; reopens resolved and ignored issues
create                creates an issue for each new fingerprint, up to the quota and MAX_ISSUES; others are untracked
announced             issues to notify channels of, up to the quota; the number of all others is reported later
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.issues import IssueStatus, issues
from control.issues.counting import project_state, regrouping
from control.issues.counting.occurrences import UNKNOWN, Details, IssueKey, Occurrences
from control.issues.counting.project_state import ProjectState
from control.issues.counting.regrouping import Regrouping
from control.issues.counting.rows import (
    UPDATE,
    Reopening,
    copied_state,
    new_row,
    reopening,
    reopening_data,
    update_values,
)
from control.issues.lifecycle import OPEN_STATE, activity_row
from control.issues.releases.order import ReleaseOrder, load_order
from control.issues.releases.store import SeenReleases
from control.issues.store import insert_rows
from control.issues.tables import ActivityKind, IssueRecord, issue_activity
from proto.grouping.fingerprint import FINGERPRINT_VERSION

MAX_ISSUES: Final = 100_000  # per project
MAX_ANNOUNCED: Final = 40  # per page, of all projects: other writers wait for its transaction


@dataclass(slots=True)
class Counted:
    """The result of counting a page. `announced`: the issues to notify channels of, with ActivityKind CREATED or
    REGRESSED, and the state of their project. `split` and `merged`: the number of issues that an upgrade of the
    grouping rules split or merged.
    """

    occurrences: int = 0
    created: int = 0
    split: int = 0
    merged: int = 0
    regressed: int = 0
    untracked: int = 0
    withheld: int = 0
    announced: list[tuple[ProjectState, IssueRecord, ActivityKind]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CountedPage:
    """A page to count. `details`: texts of fingerprints without an issue. `others`: the fingerprints by other versions
    of the grouping rules, for the rows whose texts were read. `stored_us`: the storage time of the last row, in
    microseconds. `is_quiet`: the page is history, and no channel is notified.
    """

    occurrences: Mapping[IssueKey, Occurrences]
    details: Mapping[IssueKey, Details]
    others: Mapping[IssueKey, Sequence[IssueKey]]
    stored_us: int
    is_quiet: bool


async def count(connection: AsyncConnection, page: CountedPage, releases: SeenReleases, now: datetime) -> Counted:
    """Count a page. Occurrences of deleted projects are skipped."""
    states = await project_state.load(connection, {project_id for project_id, _ in page.occurrences}, page.stored_us)
    occurrences = {key: occurred for key, occurred in page.occurrences.items() if key[0] in states}
    await _note_releases(connection, releases, occurrences, states, now)  # before issues are read: it may change them
    links = await regrouping.find_links(
        connection, {*occurrences, *(one for key in occurrences for one in page.others.get(key, ()))}
    )
    plan = regrouping.plan(in_order_of_creation(occurrences.items()), page.others, links, page.stored_us)
    issues_by_id = await regrouping.regroup(
        connection, plan, {link.issue.id: link.issue for link in links.values()}, now
    )
    counted = Counted(
        sum(occurred.count for occurred in occurrences.values()), merged=sum(map(len, plan.merges.values()))
    )
    counting = _Counting(connection, page, states, now, counted, await _orders(connection, occurrences, issues_by_id))
    counting.reserve_splits(plan)
    reopened = await counting.count_known(_by_issue(occurrences, plan, issues_by_id))
    await counting.create(plan, occurrences, issues_by_id, reopened)
    await project_state.store(connection, states.values())
    return counting.counted


async def _note_releases(
    connection: AsyncConnection,
    releases: SeenReleases,
    occurrences: Mapping[IssueKey, Occurrences],
    states: Mapping[int, ProjectState],
    now: datetime,
) -> None:
    """Note the releases of the page with the earliest time of each."""
    seen_by_project: dict[int, dict[str, datetime]] = {}
    for (project_id, _), occurred in occurrences.items():
        earliest = seen_by_project.setdefault(project_id, {})
        for release, at in ((occurred.first.release, occurred.first.at), *occurred.latest.items()):
            if release is not None:
                earliest[release] = min(earliest.get(release, at), at)
    for project_id, earliest in seen_by_project.items():
        if earliest:
            await releases.note_seen(connection, states[project_id].org_id, project_id, earliest, now)


async def _orders(
    connection: AsyncConnection,
    occurrences: Mapping[IssueKey, Occurrences],
    issues_by_id: Mapping[str, IssueRecord],
) -> dict[int, ReleaseOrder]:
    """The order of releases, for each project that has a resolved issue on the page."""
    versions: dict[int, set[str]] = {}
    for issue in issues_by_id.values():
        if issue.status is IssueStatus.RESOLVED:
            named = {issue.resolved_in_release, issue.resolved_after_release}
            versions.setdefault(issue.project_id, set()).update(one for one in named if one is not None)
    for (project_id, _), occurred in occurrences.items():
        if project_id in versions:
            versions[project_id].update(release for release in occurred.latest if release is not None)
    return {
        project_id: await load_order(connection, project_id, sorted(named)) for project_id, named in versions.items()
    }


def _by_issue(
    occurrences: Mapping[IssueKey, Occurrences], plan: Regrouping, issues_by_id: Mapping[str, IssueRecord]
) -> list[tuple[IssueRecord, Occurrences]]:
    """The occurrences of the page by the id of the existing issue that counts them."""
    counted: dict[str, Occurrences] = {}
    for key, occurred in occurrences.items():
        issue_id = plan.known.get(key)
        if issue_id in counted:
            counted[issue_id].merge(occurred)
        elif issue_id is not None:
            counted[issue_id] = occurred.copy()
    return [(issues_by_id[issue_id], occurred) for issue_id, occurred in counted.items()]


def in_order_of_creation(new: Iterable[tuple[IssueKey, Occurrences]]) -> list[tuple[IssueKey, Occurrences]]:
    """Sort by time, the earliest errors first: if there is not room for all, these get an issue."""
    return sorted(new, key=lambda one: (one[1].first.at, one[0]))


@dataclass(frozen=True, slots=True)
class _Counting:
    connection: AsyncConnection
    page: CountedPage
    states: Mapping[int, ProjectState]
    now: datetime
    counted: Counted
    orders: Mapping[int, ReleaseOrder]

    def reserve_splits(self, plan: Regrouping) -> None:
        """Take the issues that an upgrade splits from other issues out of the quota. Beyond the quota, an error is
        counted in the issue of which it was a part, and is split from that issue when it occurs again.
        """
        for key, source_id in list(plan.split_from.items()):
            if not self.states[key[0]].may_create(MAX_ISSUES):
                plan.known |= dict.fromkeys((key, *plan.new.pop(key)), source_id)
                del plan.split_from[key]

    async def count_known(self, known: Sequence[tuple[IssueRecord, Occurrences]]) -> Collection[str]:
        """Add the occurrences to the issues that exist. Returns the ids of the issues that were reopened."""
        updates, activity, reopened = [], [], set()
        for issue, occurred in known:
            total = issue.count + occurred.count
            update = update_values(issue, occurred, total, self.now)
            opened = self._reopening(issue, total, occurred)
            if opened is not None:
                reopened.add(issue.id)
                update |= {f"new_{name}": value for name, value in self._reopen(issue, opened).items()}
                activity.append(activity_row(issue, opened.kind, self.now, None, reopening_data(issue, opened)))
            updates.append(update)
        if updates:
            await self.connection.execute(UPDATE, updates)
        await insert_rows(self.connection, issue_activity, activity)
        return reopened

    def _reopening(self, issue: IssueRecord, total: int, occurred: Occurrences) -> Reopening | None:
        order = self.orders.get(issue.project_id, ReleaseOrder({}))
        return reopening(issue, total, occurred.latest, order, self.now)

    def _reopen(self, issue: IssueRecord, opened: Reopening) -> dict[str, Any]:
        """The new column values of a reopened issue."""
        is_regression = opened.kind is ActivityKind.REGRESSED
        if is_regression:
            self.counted.regressed += 1
            self._announce(issue, ActivityKind.REGRESSED)
        changed = {**OPEN_STATE, "regressed_at": self.now if is_regression else issue.regressed_at}
        return {**changed, "decided_status": changed["status"], "decided_at": min(opened.at, self.now)}

    async def create(
        self,
        plan: Regrouping,
        occurrences: Mapping[IssueKey, Occurrences],
        issues_by_id: Mapping[str, IssueRecord],
        reopened: Collection[str],
    ) -> None:
        """Create the issues of new fingerprints, the earliest errors first, and store the links from fingerprints to
        issues.
        """
        rows: list[dict[str, Any]] = []
        activity: list[dict[str, Any]] = []
        for key, more in plan.new.items():
            occurred = occurrences[key].copy()
            for one in more:
                if one in occurrences:
                    occurred.merge(occurrences[one])
            if key in plan.split_from:
                source = issues_by_id[plan.split_from[key]]
                row, entries = self._split(key, occurred, source, is_open=source.id in reopened)
            elif self.states[key[0]].may_create(MAX_ISSUES):
                row, entries = self._new(key, occurred)
            else:
                self.states[key[0]].leave_untracked(occurred.count, self.now)
                self.counted.untracked += occurred.count
                continue
            rows.append(row)
            activity += entries
            plan.links |= dict.fromkeys((key, *more), row["id"])
        await insert_rows(self.connection, issues, rows)
        await insert_rows(self.connection, issue_activity, activity)
        await regrouping.store_links(self.connection, plan, occurrences, self.page.stored_us)

    def _new(self, key: IssueKey, occurred: Occurrences) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The row of a new issue, and its activity entry."""
        row = self._new_row(key, occurred)
        issue = IssueRecord.from_row(row)
        data = {} if issue.first_release is None else {"release": issue.first_release}
        self.counted.created += 1
        self._announce(issue, ActivityKind.CREATED)
        return row, [activity_row(issue, ActivityKind.CREATED, self.now, None, data)]

    def _split(
        self, key: IssueKey, occurred: Occurrences, source: IssueRecord, *, is_open: bool
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The row and the activity entry of an issue that an upgrade has split from another issue. The new issue gets
        the state of the other issue. Its own occurrences reopen it as they would have reopened the other issue. No
        channel is told that it is new.
        """
        row = self._new_row(key, occurred) | ({"assignee_id": source.assignee_id} if is_open else copied_state(source))
        issue = IssueRecord.from_row(row)
        data = {"from": source.id, "rulesVersion": FINGERPRINT_VERSION}
        entries = [activity_row(issue, ActivityKind.SPLIT_FROM, self.now, None, data)]
        opened = self._reopening(issue, occurred.count, occurred)
        if opened is not None:
            row |= self._reopen(issue, opened)
            entries.append(activity_row(issue, opened.kind, self.now, None, reopening_data(issue, opened)))
        self.counted.split += 1
        return row, entries

    def _new_row(self, key: IssueKey, occurred: Occurrences) -> dict[str, Any]:
        return new_row(self.states[key[0]], key[1], occurred, self.page.details.get(key, UNKNOWN), self.now)

    def _announce(self, issue: IssueRecord, kind: ActivityKind) -> None:
        if self.page.is_quiet:
            return
        state = self.states[issue.project_id]
        if len(self.counted.announced) < MAX_ANNOUNCED and state.may_announce(kind):
            self.counted.announced.append((state, issue, kind))
        else:
            state.unannounced += 1
            self.counted.withheld += 1
