"""Applies events of source control, each in one transaction with its result.

The changes have no author. Their activity entries name the integration instead. A late event does not undo later ones:
proposals and tickets have the time of their last change by the platform's clock, and pushes have the time of the push.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.changes import MAX_TITLE_LENGTH, ChangeKind
from chassis.db.database import to_milliseconds
from control.audit.record import Actor, record
from control.code.changes import MAX_AGE, MAX_AHEAD, NewChangeEvent, create_change
from control.code.fixes.updates import Author
from control.code.issue_links.store import TicketState, change_links, find_by_external_id
from control.code.proposals.store import ProposalReport, StoredProposal, report_proposal
from control.code.pushes import PushReport, report_plain_pushes, report_push
from control.code.releases.store import report_release
from control.http.lists import find_project_ids
from control.inbound.integrations import store
from control.inbound.integrations.tables import Integration
from control.inbound.webhooks.forges.events import (
    CommitsPushed,
    Deployed,
    HookDeleted,
    ReleasePublished,
    ScmEvent,
    TicketChanged,
)
from control.inbound.webhooks.platform import clean_line


class ScmResult(msgspec.Struct, rename="camel"):
    """The effects of the event."""

    received: bool
    event: Annotated[str, Meta(description="The name that the platform has for the event.")]
    commits_upserted: Annotated[
        int,
        Meta(ge=0, description="Number of commits that Sluice did not know before, or whose files it did not know."),
    ]
    change_events_created: Annotated[int, Meta(ge=0)]
    proposals_merged: Annotated[
        list[str], Meta(description="`repository#number` of each merged proposal (pull or merge request).")
    ]
    issues_reopened: Annotated[list[str], Meta(description="Short ids of reopened issues.")]
    proposals_superseded: Annotated[
        list[str],
        Meta(
            description="`repository#number` of each open proposal that is no longer needed, because another proposal "
            "has fixed its issue."
        ),
    ]
    commits_not_listed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Number of commits of the push that the platform did not list, so Sluice does not know them. "
            "`null`: there are some, but the platform does not say how many.",
        ),
    ] = 0


AUDIT_TRACE_ID: Final = "(webhook)"  # instead of a request id, like `record.COMMAND_REQUEST_ID`
MAX_LINKS: Final = 100  # links to a ticket that follow its state


async def apply_forge_event(
    connection: AsyncConnection, integration: Integration, event: ScmEvent, now: datetime
) -> ScmResult:
    """Apply an event. Returns the answer."""
    author = _author(integration, now)
    effects = _no_effects(event)
    for content in event.contents:
        match content:
            case CommitsPushed():
                await _push(connection, author, content, effects)
            case ProposalReport():
                await _change_proposal(connection, author, content, effects)
            case ReleasePublished():
                await _publish(connection, author, integration, content, effects)
            case Deployed():
                await _deploy(connection, author, integration, content, effects)
            case TicketChanged():
                await _change_ticket(connection, author, integration, content, effects)
            case HookDeleted():
                await _delete_hook(connection, integration, content, now)
    return effects


async def apply_plain_pushes(
    connection: AsyncConnection, sent: Sequence[tuple[Integration, ScmEvent]], now: datetime
) -> list[ScmResult | None]:
    """Apply together the events that are pushes and change no issue. Returns None for each other event."""
    by_org: dict[str, list[tuple[int, Integration, CommitsPushed]]] = {}
    for number, (integration, event) in enumerate(sent):
        match event.contents:
            case (CommitsPushed() as pushed,):
                by_org.setdefault(integration.org_id, []).append((number, integration, pushed))
    results: list[ScmResult | None] = [None] * len(sent)
    for of_org in by_org.values():
        author = _author(of_org[0][1], now)
        pushes = [PushReport(pushed.commits, pushed.default_branch_at) for _, _, pushed in of_org]
        for (number, _, of_push), reported in zip(
            of_org, await report_plain_pushes(connection, author, pushes), strict=True
        ):
            if reported is not None:
                results[number] = effects = _no_effects(sent[number][1])
                effects.commits_upserted, effects.commits_not_listed = reported.commits_upserted, of_push.not_listed
    return results


def _author(integration: Integration, now: datetime) -> Author:
    return Author(integration.org_id, integration.org_slug, None, to_milliseconds(now), integration.id)


def _no_effects(event: ScmEvent) -> ScmResult:
    return ScmResult(True, event.name, 0, 0, [], [], [])


async def _push(connection: AsyncConnection, author: Author, pushed: CommitsPushed, effects: ScmResult) -> None:
    known, more = effects.commits_not_listed, pushed.not_listed
    effects.commits_not_listed = None if known is None or more is None else known + more
    if not pushed.commits:
        return
    reported = await report_push(connection, author, PushReport(pushed.commits, pushed.default_branch_at))
    effects.commits_upserted += reported.commits_upserted
    effects.issues_reopened += [str(one) for one in reported.issues_reopened]


async def _change_proposal(
    connection: AsyncConnection, author: Author, said: ProposalReport, effects: ScmResult
) -> None:
    """Record a proposal. A time later than the current time does not count: all later events would count as older."""
    merged_at = None if said.merged_at is None else min(said.merged_at, author.now)
    report = replace(said, changed_at=min(said.changed_at, author.now), merged_at=merged_at)
    reported = await report_proposal(connection, author, report)
    effects.issues_reopened += [str(one) for one in reported.issues_reopened]
    if reported.is_merged:
        effects.proposals_merged.append(_name(reported.proposal))
    effects.proposals_superseded += [_name(one) for one in reported.superseded]


async def _publish(
    connection: AsyncConnection,
    author: Author,
    integration: Integration,
    published: ReleasePublished,
    effects: ScmResult,
) -> None:
    """Record a release in the projects of the integration. If it has none, record a change event of the
    organization.
    """
    if integration.config.projects:
        project_ids = await find_project_ids(connection, author.org_id, integration.config.projects)
        if project_ids:
            reported = await report_release(connection, author, published.report, project_ids, [])
            effects.change_events_created += reported.changes_created
            effects.issues_reopened += [str(one) for one in reported.issues_reopened]
        return
    report = published.report
    event = NewChangeEvent(
        kind=ChangeKind.RELEASE,
        title=clean_line(f"{published.repository} {report.version}", MAX_TITLE_LENGTH) or report.version,
        at=report.released_at or author.now,
        source=integration.kind.value,
        release=report.version,
        url=report.url,
        dedupe_key=_dedupe_key(integration, "release", published.repository, report.version),
    )
    await _create_changes(connection, author, [event], effects)


async def _deploy(
    connection: AsyncConnection, author: Author, integration: Integration, deployed: Deployed, effects: ScmResult
) -> None:
    """Record a change event in each project of the integration, or in the organization if the integration has none."""
    slugs = integration.config.projects
    project_ids: Sequence[int | None] = [None]
    if slugs:
        project_ids = sorted((await find_project_ids(connection, author.org_id, slugs)).values())
    what = deployed.ref or (deployed.sha or "")[:12]
    events = [
        NewChangeEvent(
            kind=ChangeKind.DEPLOYMENT,
            title=clean_line(f"{deployed.repository} {what}", MAX_TITLE_LENGTH) or deployed.repository,
            at=deployed.at,
            source=integration.kind.value,
            project_id=project_id,
            detail=None if deployed.sha is None else f"Commit {deployed.sha}",
            environment=deployed.environment,
            url=deployed.url,
            dedupe_key=_dedupe_key(
                integration, "deployment", deployed.repository, deployed.id, deployed.environment or "", str(project_id)
            ),
        )
        for project_id in project_ids
    ]
    await _create_changes(connection, author, events, effects)


async def _change_ticket(
    connection: AsyncConnection, author: Author, integration: Integration, ticket: TicketChanged, effects: ScmResult
) -> None:
    """Update the title and state of links to the ticket, and resolve or reopen the issues with these links."""
    links = [
        link for item in ticket.items for link in await find_by_external_id(connection, author.org_id, item, MAX_LINKS)
    ]
    state = TicketState(
        ticket.title, ticket.state, min(ticket.changed_at, author.now), ticket.is_reopened, ticket.is_fixed
    )
    synced = await change_links(connection, author, links[:MAX_LINKS], state, sync=integration.config.sync_status)
    effects.issues_reopened += [str(one) for one in synced.issues_reopened]


async def _delete_hook(connection: AsyncConnection, integration: Integration, gone: HookDeleted, now: datetime) -> None:
    """Disable the integration if it is bound to this webhook. If it is not, other webhooks may use its address, too."""
    if integration.hook_id == gone.hook_id:
        await store.change_integration(connection, integration, now=to_milliseconds(now), enabled=False)
        data = {"enabled": False, "hookId": gone.hook_id, "reason": "The platform has deleted the webhook."}
        await record(connection, Actor(integration.org_id), "integration.change", integration.id, data, AUDIT_TRACE_ID)


async def _create_changes(
    connection: AsyncConnection, author: Author, events: Sequence[NewChangeEvent], effects: ScmResult
) -> None:
    """Record change events, each once. Events that are too old for the time line are left out."""
    for event in events:
        if author.now - MAX_AGE <= event.at <= author.now + MAX_AHEAD:
            recorded = await create_change(connection, author.org_id, event, author.now)
            effects.change_events_created += recorded.is_new


def _name(proposal: StoredProposal) -> str:
    return f"{proposal.repository}#{proposal.number}"


def _dedupe_key(integration: Integration, kind: str, *parts: str) -> str:
    """The deduplication key of an event, which is the same if two integrations report the event."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{integration.kind.value}:{kind}:{digest}"
