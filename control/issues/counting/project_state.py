"""The issue state of a project: the last issue number, the quotas of new issues and of notifications, and the number of
occurrences and notifications beyond the quotas. The quotas are token buckets in storage time, so that reading the same
occurrences again leads to the same decisions.

`announce` and `announce_sum` enqueue messages about issues for the channels that subscribe to them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import organizations, projects
from chassis.db.database import format_time
from chassis.issues import short_id
from control.http.page_links import NO_PAGES, PageLinks
from control.issues.store import insert_rows
from control.issues.tables import ActivityKind, IssueRecord, issue_projects
from control.notify.channels.tables import ChannelEvent
from control.notify.deliveries import outbox
from control.notify.deliveries.outbox import Subscribers
from control.notify.message import Fact, Message, Severity

_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: at most `burst` at once, and `per_minute` from then on."""

    burst: int
    per_minute: float


NEW_ISSUES: Final = Rate(1_000, 100.0)
ANNOUNCEMENTS: Final = Rate(20, 2.0)


def refill(left: float, rate: Rate, elapsed_us: int) -> float:
    """The permits of a quota after a time. A clock that was set back adds none."""
    return min(float(rate.burst), left + max(0, elapsed_us) / _US * rate.per_minute / 60)


@dataclass(slots=True)
class ProjectState:
    """A row of `issue_projects` with the names of the project. `store` writes the changes."""

    project_id: int
    org_id: str
    org_slug: str
    slug: str
    is_new: bool
    last_number: int
    issues: int
    new_permits: float
    notify_permits: float
    regression_permits: float
    permits_us: int
    untracked_occurrences: int
    untracked_since: datetime | None
    untracked_last: datetime | None
    unannounced: int
    summary_at: datetime | None

    def may_create(self, maximum: int) -> bool:
        """Take one permit for a new issue."""
        if self.new_permits < 1 or self.issues >= maximum:
            return False
        self.new_permits -= 1
        self.issues += 1
        return True

    def may_announce(self, kind: ActivityKind) -> bool:
        """Take one permit for a notification of this kind. The kinds have separate quotas, so that many new issues
        withhold no regression.
        """
        name = "regression_permits" if kind is ActivityKind.REGRESSED else "notify_permits"
        left: float = getattr(self, name)
        if left < 1:
            return False
        setattr(self, name, left - 1)
        return True

    @property
    def room(self) -> int:
        """The number of issues that may be created now."""
        return max(0, int(self.new_permits))

    def next_number(self) -> int:
        """The number of a new issue."""
        self.last_number += 1
        return self.last_number

    def leave_untracked(self, occurrences: int, now: datetime) -> None:
        """Count occurrences that get no issue."""
        self.untracked_occurrences += occurrences
        self.untracked_since = self.untracked_since or now
        self.untracked_last = now


async def load(connection: AsyncConnection, project_ids: Collection[int], stored_us: int) -> dict[int, ProjectState]:
    """The states of the projects that are not deleted, with their quotas as of a storage time."""
    statement = (
        sa.select(
            projects.c.id.label("of_project"),
            projects.c.org_id.label("of_org"),
            projects.c.slug,
            organizations.c.slug.label("org_slug"),
            *issue_projects.c,
        )
        .join(organizations, organizations.c.id == projects.c.org_id)
        .outerjoin(issue_projects, issue_projects.c.project_id == projects.c.id)
        .where(projects.c.id.in_(project_ids), projects.c.deleted_at.is_(None), organizations.c.deleted_at.is_(None))
    )
    return {row["of_project"]: _state(row, stored_us) for row in (await connection.execute(statement)).mappings()}


async def store(connection: AsyncConnection, states: Iterable[ProjectState]) -> None:
    """Store the states."""
    new: list[dict[str, Any]] = []
    old: list[dict[str, Any]] = []
    for state in states:
        row = {column.name: getattr(state, column.name) for column in issue_projects.c}
        (new if state.is_new else old).append(row)
    await insert_rows(connection, issue_projects, new)
    if old:
        statement = issue_projects.update().where(issue_projects.c.project_id == sa.bindparam("of_project"))
        values: dict[str, Any] = {column.name: sa.bindparam(f"new_{column.name}") for column in issue_projects.c}
        await connection.execute(
            statement.values(values),
            [{"of_project": row["project_id"]} | {f"new_{name}": value for name, value in row.items()} for row in old],
        )


def _state(row: Mapping[Any, Any], stored_us: int) -> ProjectState:
    names = {"project_id": row["of_project"], "org_id": row["of_org"], "org_slug": row["org_slug"], "slug": row["slug"]}
    if row["project_id"] is None:
        return ProjectState(
            **names,
            is_new=True,
            last_number=0,
            issues=0,
            new_permits=float(NEW_ISSUES.burst),
            notify_permits=float(ANNOUNCEMENTS.burst),
            regression_permits=float(ANNOUNCEMENTS.burst),
            permits_us=stored_us,
            untracked_occurrences=0,
            untracked_since=None,
            untracked_last=None,
            unannounced=0,
            summary_at=None,
        )
    elapsed = stored_us - row["permits_us"]
    kept = {column.name: row[column.name] for column in issue_projects.c}
    kept |= {
        "new_permits": refill(row["new_permits"], NEW_ISSUES, elapsed),
        "notify_permits": refill(row["notify_permits"], ANNOUNCEMENTS, elapsed),
        "regression_permits": refill(row["regression_permits"], ANNOUNCEMENTS, elapsed),
        "permits_us": max(stored_us, row["permits_us"]),
    }
    return ProjectState(**kept | names, is_new=False)


MAX_TITLE_CHARS: Final = 200
_EVENTS: Final = {ActivityKind.CREATED: ChannelEvent.NEW_ISSUE, ActivityKind.REGRESSED: ChannelEvent.REGRESSION}
_TITLES: Final = {ActivityKind.CREATED: "New issue", ActivityKind.REGRESSED: "Regression"}


@dataclass(frozen=True, slots=True)
class IssueUrls:
    """Links to issues. `api_url`: the base URL of this service."""

    api_url: str = ""
    pages: PageLinks = NO_PAGES

    def page_link(self, state: ProjectState, issue_id: str | None = None) -> str | None:
        """The link to the page of an issue, or to the page of the project's issues. None if there is no web page."""
        if issue_id is None:
            return self.pages.issues(state.org_slug, state.slug)
        return self.pages.issue(state.org_slug, state.slug, issue_id)

    def api_link(self, state: ProjectState, issue_id: str) -> str:
        """The link to the issue in the API."""
        return f"{self.api_url}/orgs/{state.org_slug}/projects/{state.slug}/issues/{issue_id}"


Announcement = tuple[ProjectState, IssueRecord, ActivityKind]


async def announce(connection: AsyncConnection, announced: Sequence[Announcement], links: IssueUrls) -> None:
    """Enqueue a message about each issue for each subscriber."""
    for state, issue, kind in announced:
        target = Subscribers(state.project_id, (_EVENTS[kind],))
        await outbox.enqueue(connection, state.org_id, target, issue_message(state, issue, kind, links))


async def announce_sum(connection: AsyncConnection, state: ProjectState, links: IssueUrls) -> None:
    """Enqueue a message with the number of issues that got no notification of their own since the last such message."""
    target = Subscribers(state.project_id, (ChannelEvent.NEW_ISSUE, ChannelEvent.REGRESSION))
    await outbox.enqueue(connection, state.org_id, target, sum_message(state, links))


def issue_message(state: ProjectState, issue: IssueRecord, kind: ActivityKind, links: IssueUrls) -> Message:
    """The message that an issue is new or has regressed. `issue`: the issue before the current occurrences were
    counted, unless it is new.
    """
    name = short_id(state.slug, issue.number)
    is_new = kind is ActivityKind.CREATED
    resolved_in = issue.resolved_in_release or issue.resolved_after_release
    facts = [Fact("Project", state.slug)]
    if issue.culprit:
        facts.append(Fact("Where", issue.culprit))
    if is_new and issue.first_release:
        facts.append(Fact("Release", issue.first_release))
    if not is_new and resolved_in:
        facts.append(Fact("Resolved in" if issue.resolved_in_release else "Resolved after", resolved_in))
    if not links.pages.exist:
        facts.append(Fact("Details", links.api_link(state, issue.id)))
    return Message(
        type=_EVENTS[kind].value,
        subject=issue.id,
        title=f"{_TITLES[kind]} {name}: {issue.title}"[:MAX_TITLE_CHARS],
        facts=tuple(facts),
        severity=Severity.ERROR,
        link=links.page_link(state, issue.id),
        link_label="Open the issue",
        data={
            "issue": {
                "id": issue.id,
                "shortId": name,
                "projectSlug": state.slug,
                "title": issue.title,
                "culprit": issue.culprit,
                "fingerprint": issue.fingerprint.hex(),
                "firstSeen": format_time(issue.first_seen),
                "firstRelease": issue.first_release,
            }
        },
    )


def sum_message(state: ProjectState, links: IssueUrls) -> Message:
    """The message about issues that got no notification of their own."""
    text = "Sluice limits the notifications of a project, so that many new errors do not flood the channel."
    facts = [Fact("Project", state.slug), Fact("Not announced", str(state.unannounced))]
    if state.untracked_occurrences:
        facts.append(Fact("Occurrences without an issue", str(state.untracked_occurrences)))
        text += (
            " Some new errors have no issue, because the project had too many new errors. The occurrences of these "
            "errors are counted, and can be found in explore."
        )
    return Message(
        type="issue.unannounced",
        subject=f"project:{state.project_id}",
        title=f"{state.unannounced} more issues in {state.slug} were new or regressed",
        text=text,
        facts=tuple(facts),
        severity=Severity.WARNING,
        link=links.page_link(state),
        link_label="Open the issues",
        data={"projectSlug": state.slug, "unannounced": state.unannounced},
    )
