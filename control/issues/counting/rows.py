"""Computes the rows of issues from occurrences: rows of new issues, of changed issues, of issues that an upgrade has
split, and of reopened issues.

An occurrence reopens a resolved issue if it is later than the resolution. If its release and the release of the
resolution are both known, its release must also be one in which the error was said to be fixed. An occurrence from
before the resolution never reopens the issue, however late it is stored. A new release settles the issues that were
resolved in the next release (`control.issues.releases.store.settle_next_release`) before its occurrences are counted
here. A release that was known at the time of the resolution is therefore never the next release, even if its version is
higher.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from chassis.auth.tables import new_id
from chassis.db.database import format_time
from chassis.issues import IssueStatus, issues
from control.issues.counting.occurrences import Details, Moment, Occurrences, in_order, search_text
from control.issues.counting.project_state import ProjectState
from control.issues.lifecycle import OPEN_STATE
from control.issues.releases.order import ReleaseOrder
from control.issues.store import without_none
from control.issues.tables import ActivityKind, IssueRecord


class Reopening(NamedTuple):
    """Why an issue is reopened (REGRESSED or IGNORE_ENDED), and in which release."""

    kind: ActivityKind
    release: str | None
    at: datetime


def reopening(
    issue: IssueRecord, count: int, latest: Mapping[str | None, datetime], order: ReleaseOrder, now: datetime
) -> Reopening | None:
    """Decide whether the occurrences reopen a resolved or ignored issue. `count`: the occurrences of the issue
    including these. `latest`: the time of the last of these occurrences, by release.
    """
    if issue.status is IssueStatus.IGNORED:
        by_count = issue.ignored_until_count is not None and count >= issue.ignored_until_count
        if by_count or issue.status_at(now) is IssueStatus.UNRESOLVED:
            last = max(latest.items(), key=lambda one: (one[1], one[0] or ""))
            return Reopening(ActivityKind.IGNORE_ENDED, *last)
        return None
    if issue.status is not IssueStatus.RESOLVED:
        return None
    found = [(at, release) for release, at in latest.items() if _reopens(issue, release, at, order)]
    if not found:
        return None
    at, release = max(found, key=lambda one: (one[0], one[1] or ""))
    return Reopening(ActivityKind.REGRESSED, release, at)


def _reopens(issue: IssueRecord, release: str | None, at: datetime, order: ReleaseOrder) -> bool:
    if issue.resolved_at is not None and at <= issue.resolved_at:
        return False
    if release is None:
        return True
    if issue.resolved_in_release is not None:
        return release == issue.resolved_in_release or _may_be_later(issue, release, issue.resolved_in_release, order)
    if issue.resolved_after_release is not None:
        return (
            release != issue.resolved_after_release
            and not _was_known(issue, release, order)
            and _may_be_later(issue, release, issue.resolved_after_release, order)
        )
    return True


def _was_known(issue: IssueRecord, release: str, order: ReleaseOrder) -> bool:
    """Whether the release was known when the issue was resolved."""
    since = order.known_since(release)
    return since is not None and issue.resolved_at is not None and since <= issue.resolved_at


def _may_be_later(issue: IssueRecord, release: str, named: str, order: ReleaseOrder) -> bool:
    """Whether a release is later than the release that the resolution names. If the named release is not known yet, a
    release that was known before the resolution is not later. If the order is unknown, the release counts as later.
    """
    is_later = order.is_later(release, named)
    if is_later is not None:
        return is_later
    return not (_was_known(issue, release, order) and order.known_since(named) is None)


_CHANGED: Final = ("count", "first_seen", "first_release", "last_seen", "last_release", "updated_at", "regressed_at")
_DECIDED: Final = ("decided_status", "decided_at")
UPDATE: Final = (
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


def update_values(issue: IssueRecord, occurred: Occurrences, total: int, now: datetime) -> dict[str, Any]:
    """The parameters of UPDATE for an issue with new occurrences."""
    first = min(Moment(issue.first_seen, issue.first_release), occurred.first, key=in_order)
    last = max(Moment(issue.last_seen, issue.last_release), occurred.last, key=in_order)
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


def reopening_data(issue: IssueRecord, opened: Reopening) -> dict[str, object]:
    """The data of the activity entry of a reopened issue."""
    return without_none(
        {
            "release": opened.release,
            "occurredAt": format_time(opened.at),
            "resolvedInRelease": issue.resolved_in_release,
            "resolvedAfterRelease": issue.resolved_after_release,
        }
    )


def new_row(
    state: ProjectState, fingerprint: bytes, occurred: Occurrences, details: Details, now: datetime
) -> dict[str, Any]:
    """The row of a new issue."""
    return {
        **OPEN_STATE,
        "decided_status": None,
        "decided_at": None,
        "id": new_id("iss"),
        "org_id": state.org_id,
        "project_id": state.project_id,
        "number": state.next_number(),
        "fingerprint": fingerprint,
        **details._asdict(),
        "search_text": search_text(details.title, details.culprit),
        "assignee_id": None,
        "regressed_at": None,
        "count": occurred.count,
        "first_seen": occurred.first.at,
        "last_seen": occurred.last.at,
        "first_release": occurred.first.release,
        "last_release": occurred.last.release,
        "merged_into": None,
        "created_at": now,
        "updated_at": now,
    }


def copied_state(source: IssueRecord) -> dict[str, Any]:
    """The state columns of an issue, copied for an issue that is split from it. If the issue is ignored for a number of
    occurrences, the copy is ignored for the remaining number.
    """
    copied = {name: getattr(source, name) for name in (*OPEN_STATE, "decided_status", "decided_at", "assignee_id")}
    copied["status"] = IssueStatus(source.status).value
    if source.ignored_until_count is not None:
        copied["ignored_until_count"] = max(1, source.ignored_until_count - source.count)
    return copied
