"""Whether what occurred opens an issue again.

An occurrence reopens a resolved issue if it is later than the resolution, and, where both are known, of a release in
which the error was said to be fixed. What happened before the issue was resolved never reopens it, however late it is
stored. A new release settles what was resolved in the next one (`control.issues.releases.repository.settle_next_release`)
before its occurrences come here, so a release that was known at the resolution is no next one, whatever its version.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from chassis.issues.tables import IssueStatus
from control.issues.model import IssueRecord
from control.issues.tables import ActivityKind


class Order(Protocol):
    """The order of the releases of a project: `control.issues.releases.order.ReleaseOrder`."""

    def is_later(self, a: str, b: str) -> bool | None: ...
    def known_since(self, version: str) -> datetime | None: ...


class Reopening(NamedTuple):
    """Why an issue is open again: REGRESSED or IGNORE_ENDED; in which release."""

    kind: ActivityKind
    release: str | None
    at: datetime


def reopening(
    issue: IssueRecord, count: int, latest: Mapping[str | None, datetime], order: Order, now: datetime
) -> Reopening | None:
    """What the occurrences make of an issue that is not unresolved. `count`: of the issue, with them; `latest`: the
    last of them by release.
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


def _reopens(issue: IssueRecord, release: str | None, at: datetime, order: Order) -> bool:
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


def _was_known(issue: IssueRecord, release: str, order: Order) -> bool:
    """Whether the release was there when the issue was resolved."""
    since = order.known_since(release)
    return since is not None and issue.resolved_at is not None and since <= issue.resolved_at


def _may_be_later(issue: IssueRecord, release: str, named: str, order: Order) -> bool:
    """Whether a release is later than the one that the resolution names. If the named one is still to come, those that
    were there before the resolution are not; what nobody can tell counts as later.
    """
    is_later = order.is_later(release, named)
    if is_later is not None:
        return is_later
    return not (_was_known(issue, release, order) and order.known_since(named) is None)
