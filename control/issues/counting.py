"""Counts what a page has of errors in their issues, in one transaction.

load_state            the projects that are not deleted, and what they may still create and announce
_count_known          count, first and last time; what was resolved or ignored is open again (`reopening`)
_create               an issue for each new fingerprint, as far as permits and MAX_ISSUES go; the rest is untracked
notifications         for channels that ask for it, as far as permits go; the rest is reported in sum
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.db.database import format_time
from chassis.issues.tables import IssueStatus, issues
from control.issues import project_state, repository
from control.issues.details import UNKNOWN, Details, search_text
from control.issues.lifecycle import OPEN_STATE, activity_row
from control.issues.model import IssueRecord
from control.issues.occurrences import IssueKey, Moment, Seen, earlier, later
from control.issues.project_state import ProjectState
from control.issues.reopening import Order, Reopening, reopening
from control.issues.tables import ActivityKind, issue_activity

MAX_ISSUES: Final = 100_000  # of a project
MAX_ANNOUNCED: Final = 40  # of a page, of all projects: other writers wait for its transaction


class KnownReleases(Protocol):
    """What counting needs of releases: `control.releases.repository` and `control.releases.order`."""

    async def note_seen(
        self,
        connection: AsyncConnection,
        org_id: str,
        project_id: int,
        seen: Mapping[str, datetime],
        now: datetime,
    ) -> None: ...

    async def load_order(self, connection: AsyncConnection, project_id: int, versions: Sequence[str]) -> Order: ...


@dataclass(slots=True)
class Counted:
    """What became of a page. `announced`: issues to notify channels of, with ActivityKind CREATED or REGRESSED, and the
    state of their project.
    """

    occurrences: int = 0
    created: int = 0
    regressed: int = 0
    untracked: int = 0
    withheld: int = 0
    announced: list[tuple[ProjectState, IssueRecord, ActivityKind]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CountedPage:
    """A page to count. `details`: of fingerprints without an issue; `stored_us`: the storage time of its last row;
    `is_quiet`: nobody is notified, because it is history.
    """

    found: Mapping[IssueKey, Seen]
    details: Mapping[IssueKey, Details]
    stored_us: int
    is_quiet: bool


async def count(connection: AsyncConnection, page: CountedPage, releases: KnownReleases, now: datetime) -> Counted:
    """Count a page. What belongs to deleted projects is skipped."""
    states = await project_state.load(connection, {project_id for project_id, _ in page.found}, page.stored_us)
    found = {key: seen for key, seen in page.found.items() if key[0] in states}
    await _note_releases(connection, releases, found, states, now)  # before issues are read: it may change them
    known = await repository.find_by_keys(connection, list(found))
    targets = await repository.find_by_ids(connection, {one.merged_into for one in known.values() if one.merged_into})
    counting = _Counting(connection, page, states, now, Counted(sum(seen.count for seen in found.values())))
    orders = await _orders(connection, releases, found, (*known.values(), *targets.values()))
    await counting.count_known(_by_target(found, known, targets), orders)
    await counting.create([(key, seen) for key, seen in found.items() if key not in known])
    await project_state.store(connection, states.values())
    return counting.counted


async def _note_releases(
    connection: AsyncConnection,
    releases: KnownReleases,
    found: Mapping[IssueKey, Seen],
    states: Mapping[int, ProjectState],
    now: datetime,
) -> None:
    """Note the releases of the page with the earliest time of each."""
    seen_by_project: dict[int, dict[str, datetime]] = {}
    for (project_id, _), seen in found.items():
        earliest = seen_by_project.setdefault(project_id, {})
        for release, at in ((seen.first.release, seen.first.at), *seen.latest.items()):
            if release is not None:
                earliest[release] = min(earliest.get(release, at), at)
    for project_id, earliest in seen_by_project.items():
        if earliest:
            await releases.note_seen(connection, states[project_id].org_id, project_id, earliest, now)


async def _orders(
    connection: AsyncConnection, releases: KnownReleases, found: Mapping[IssueKey, Seen], known: Sequence[IssueRecord]
) -> dict[int, Order]:
    """The order of releases, of the projects that have a resolved issue on the page."""
    versions: dict[int, set[str]] = {}
    for issue in known:
        if issue.status is IssueStatus.RESOLVED:
            named = {issue.resolved_in_release, issue.resolved_after_release}
            versions.setdefault(issue.project_id, set()).update(one for one in named if one is not None)
    for (project_id, _), seen in found.items():
        if project_id in versions:
            versions[project_id].update(release for release in seen.latest if release is not None)
    return {
        project_id: await releases.load_order(connection, project_id, sorted(named))
        for project_id, named in versions.items()
    }


def _by_target(
    found: Mapping[IssueKey, Seen], known: Mapping[IssueKey, IssueRecord], targets: Mapping[str, IssueRecord]
) -> list[tuple[IssueRecord, Seen]]:
    """What was seen by the issue that counts it: that of the fingerprint, or the one into which it was merged."""
    counted: dict[str, tuple[IssueRecord, Seen]] = {}
    for key, issue in known.items():
        target = issue if issue.merged_into is None else targets.get(issue.merged_into, issue)
        if target.id in counted:
            counted[target.id][1].merge(found[key])
        else:
            seen = found[key]
            counted[target.id] = (target, Seen(seen.count, seen.first, seen.last, dict(seen.latest)))
    return list(counted.values())


def in_order_of_creation(new: Iterable[tuple[IssueKey, Seen]]) -> list[tuple[IssueKey, Seen]]:
    """The earliest errors first: they get an issue if there is not room for all."""
    return sorted(new, key=lambda one: (one[1].first.at, one[0]))


@dataclass(frozen=True, slots=True)
class _Counting:
    connection: AsyncConnection
    page: CountedPage
    states: Mapping[int, ProjectState]
    now: datetime
    counted: Counted

    async def count_known(self, seen: Sequence[tuple[IssueRecord, Seen]], orders: Mapping[int, Order]) -> None:
        """Add to the issues that exist."""
        updates, activity = [], []
        for issue, occurred in seen:
            total = issue.count + occurred.count
            update = _update(issue, occurred, total, self.now)
            order = orders.get(issue.project_id, _NO_ORDER)
            opened = reopening(issue, total, occurred.latest, order, self.now)
            if opened is not None:
                update |= self._reopen(issue, opened)
                activity.append(activity_row(issue, opened.kind, self.now, None, _reopening_data(issue, opened)))
            updates.append(update)
        if updates:
            await self.connection.execute(_UPDATE, updates)
        if activity:
            await self.connection.execute(issue_activity.insert(), activity)

    def _reopen(self, issue: IssueRecord, opened: Reopening) -> dict[str, Any]:
        is_regression = opened.kind is ActivityKind.REGRESSED
        if is_regression:
            self.counted.regressed += 1
            self._announce(issue, ActivityKind.REGRESSED)
        changed = {**OPEN_STATE, "regressed_at": self.now if is_regression else issue.regressed_at}
        decided = {"decided_status": changed["status"], "decided_at": min(opened.at, self.now)}
        return {f"new_{name}": value for name, value in {**changed, **decided}.items()}

    async def create(self, new: Sequence[tuple[IssueKey, Seen]]) -> None:
        """Create the issues of new fingerprints, the earliest errors first."""
        rows, activity = [], []
        for (project_id, fingerprint), seen in in_order_of_creation(new):
            state = self.states[project_id]
            if not state.may_create(MAX_ISSUES):
                state.leave_untracked(seen, self.now)
                self.counted.untracked += seen.count
                continue
            details = self.page.details.get((project_id, fingerprint), UNKNOWN)
            row = _new_row(state, fingerprint, seen, details, self.now)
            issue = IssueRecord.from_row(row)
            rows.append(row)
            data = {} if issue.first_release is None else {"release": issue.first_release}
            activity.append(activity_row(issue, ActivityKind.CREATED, self.now, None, data))
            self.counted.created += 1
            self._announce(issue, ActivityKind.CREATED)
        if rows:
            await self.connection.execute(issues.insert(), rows)
            await self.connection.execute(issue_activity.insert(), activity)

    def _announce(self, issue: IssueRecord, kind: ActivityKind) -> None:
        if self.page.is_quiet:
            return
        state = self.states[issue.project_id]
        if len(self.counted.announced) < MAX_ANNOUNCED and state.may_announce(kind):
            self.counted.announced.append((state, issue, kind))
        else:
            state.unannounced += 1
            self.counted.withheld += 1


class _NoOrder:
    def is_later(self, _a: str, _b: str) -> bool | None:
        return None

    def known_since(self, _version: str) -> datetime | None:
        return None


_NO_ORDER: Final = _NoOrder()
_CHANGED: Final = ("count", "first_seen", "first_release", "last_seen", "last_release", "updated_at", "regressed_at")
_DECIDED: Final = ("decided_status", "decided_at")
_UPDATE: Final = (
    issues.update()
    .where(issues.c.id == sa.bindparam("of_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in (*_CHANGED, *OPEN_STATE)})
    .values(
        {
            name: sa.func.coalesce(sa.bindparam(f"new_{name}", type_=issues.c[name].type), issues.c[name])
            for name in _DECIDED
        }
    )
)


def _update(issue: IssueRecord, seen: Seen, total: int, now: datetime) -> dict[str, Any]:
    first = earlier(Moment(issue.first_seen, issue.first_release), seen.first)
    last = later(Moment(issue.last_seen, issue.last_release), seen.last)
    return {
        "of_id": issue.id,
        "new_count": total,
        "new_first_seen": first.at,
        "new_first_release": first.release,
        "new_last_seen": last.at,
        "new_last_release": last.release,
        "new_updated_at": now,
        "new_regressed_at": issue.regressed_at,
        **{f"new_{name}": getattr(issue, name) for name in OPEN_STATE},
        **{f"new_{name}": None for name in _DECIDED},
        "new_status": issue.status.value,
    }


def _reopening_data(issue: IssueRecord, opened: Reopening) -> dict[str, object]:
    named = {
        "release": opened.release,
        "occurredAt": format_time(opened.at),
        "resolvedInRelease": issue.resolved_in_release,
        "resolvedAfterRelease": issue.resolved_after_release,
    }
    return {name: value for name, value in named.items() if value is not None}


def _new_row(state: ProjectState, fingerprint: bytes, seen: Seen, details: Details, now: datetime) -> dict[str, Any]:
    return {
        **OPEN_STATE,
        "id": new_id("iss"),
        "org_id": state.org_id,
        "project_id": state.project_id,
        "number": state.next_number(),
        "fingerprint": fingerprint,
        **details._asdict(),
        "search_text": search_text(details.title, details.culprit),
        "assignee_id": None,
        "regressed_at": None,
        "count": seen.count,
        "first_seen": seen.first.at,
        "last_seen": seen.last.at,
        "first_release": seen.first.release,
        "last_release": seen.last.release,
        "merged_into": None,
        "created_at": now,
        "updated_at": now,
    }
