"""Messages about issues, for the channels that subscribe to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import format_time
from chassis.issues import short_id
from control.http.page_links import NO_PAGES, PageLinks
from control.issues.counting.project_state import ProjectState
from control.issues.tables import ActivityKind, IssueRecord
from control.notify.channels.tables import ChannelEvent
from control.notify.deliveries import outbox
from control.notify.deliveries.outbox import Subscribers
from control.notify.message import Fact, Message, Severity

MAX_TITLE_CHARS: Final = 200
_EVENTS: Final = {ActivityKind.CREATED: ChannelEvent.NEW_ISSUE, ActivityKind.REGRESSED: ChannelEvent.REGRESSION}
_TITLES: Final = {ActivityKind.CREATED: "New issue", ActivityKind.REGRESSED: "Regression"}


@dataclass(frozen=True, slots=True)
class IssueUrls:
    """Links to issues. `api_url`: base URL of this service."""

    api_url: str = ""
    pages: PageLinks = NO_PAGES

    def page_link(self, state: ProjectState, issue_id: str | None = None) -> str | None:
        """The page of an issue, or of the issues of a project; None without pages."""
        if issue_id is None:
            return self.pages.issues(state.org_slug, state.slug)
        return self.pages.issue(state.org_slug, state.slug, issue_id)

    def api_link(self, state: ProjectState, issue_id: str) -> str:
        """The issue in the API."""
        return f"{self.api_url}/orgs/{state.org_slug}/projects/{state.slug}/issues/{issue_id}"


Announcement = tuple[ProjectState, IssueRecord, ActivityKind]


async def announce(connection: AsyncConnection, announced: Sequence[Announcement], links: IssueUrls) -> int:
    """Enqueue a message for each subscriber; returns the number of deliveries."""
    deliveries = 0
    for state, issue, kind in announced:
        target = Subscribers(state.project_id, (_EVENTS[kind],))
        results = await outbox.enqueue(connection, state.org_id, target, issue_message(state, issue, kind, links))
        deliveries += sum(one.delivery_id is not None for one in results)
    return deliveries


async def announce_sum(connection: AsyncConnection, state: ProjectState, links: IssueUrls) -> None:
    """Enqueue how many issues were not announced one by one since the last sum."""
    target = Subscribers(state.project_id, (ChannelEvent.NEW_ISSUE, ChannelEvent.REGRESSION))
    await outbox.enqueue(connection, state.org_id, target, sum_message(state, links))


def issue_message(state: ProjectState, issue: IssueRecord, kind: ActivityKind, links: IssueUrls) -> Message:
    """The message that an issue is new or has regressed. `issue`: before its occurrences of now were counted, if it is
    not new.
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
    """The message about issues that were not announced one by one."""
    text = "Notifications of this project are limited, so that a storm of new errors does not flood the channel."
    facts = [Fact("Project", state.slug), Fact("Not announced", str(state.unannounced))]
    if state.untracked_occurrences:
        facts.append(Fact("Occurrences without an issue", str(state.untracked_occurrences)))
        text += " There were also more new errors than a project may have issues; they are counted, and in explore."
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
