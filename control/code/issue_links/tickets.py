"""What other systems say of the tickets that issues link to, applied in the caller's transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from control.code.fixes import Author
from control.code.issue_changes import NamedChange, find_named, note_all, reopen_all, resolve_all
from control.code.issue_links.repository import StoredLink, set_item_state
from control.issues.references import NamedIssue, References, ShortId
from control.issues.tables import ActivityKind, LinkState


class TicketState(NamedTuple):
    """A ticket as of `changed_at` by its system's clock. `title`, `state` None: not said. `is_reopened`: this is what
    has just happened to it. `is_fixed` False: it was closed without a fix.
    """

    title: str | None
    state: LinkState | None
    changed_at: datetime
    is_reopened: bool = False
    is_fixed: bool = True


class SyncedLinks(NamedTuple):
    """What a change of a ticket did."""

    links_changed: int
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]


async def change_links(
    connection: AsyncConnection, author: Author, links: Sequence[StoredLink], ticket: TicketState, *, sync: bool
) -> SyncedLinks:
    """Give the links to a ticket its title and state, unless they have that of a later time. `sync`: resolve the issues
    of a ticket that was closed, as their project says of merges, and open those of one that was opened again.
    """
    current = [one for one in links if one.changed_at is None or one.changed_at <= ticket.changed_at]
    changed = [one for one in current if _has_moved(one, ticket) or one.title != (ticket.title or one.title)]
    same = [one for one in current if one not in changed]
    for some, now in ((changed, author.now), (same, None)):
        await set_item_state(connection, [one.id for one in some], ticket.title, ticket.state, ticket.changed_at, now)
    if not changed:
        return SyncedLinks(0, [], [])
    index = await find_named(
        connection, author.org_id, [References(issue_ids=tuple(sorted({one.issue_id for one in changed})))]
    )
    named = [(index.by_id[one.issue_id], one) for one in changed if one.issue_id in index.by_id]
    changes = [NamedChange(issue, _activity_data(author, one, ticket)) for issue, one in named]
    await note_all(connection, changes, ActivityKind.LINK_CHANGED, now=author.now, by=author.principal_id)
    if not sync:
        return SyncedLinks(len(named), [], [])
    resolved, reopened = await _sync(connection, author, named, ticket)
    return SyncedLinks(len(named), resolved, reopened)


async def _sync(
    connection: AsyncConnection, author: Author, named: Sequence[tuple[NamedIssue, StoredLink]], ticket: TicketState
) -> tuple[list[ShortId], list[ShortId]]:
    """A link whose state was not known says nothing of what has changed: only the event does."""
    moved = [(issue, one) for issue, one in named if _has_moved(one, ticket)]
    changes = [
        NamedChange(issue, author.activity_data(linkId=one.id, url=one.url))
        for issue, one in moved
        if ticket.state is LinkState.CLOSED or one.state is LinkState.CLOSED or ticket.is_reopened
    ]
    at = min(ticket.changed_at, author.now)
    if ticket.state is LinkState.OPEN:
        return [], await reopen_all(connection, changes, now=author.now, by=author.principal_id, decided_at=at)
    if not ticket.is_fixed:
        return [], []
    return await resolve_all(connection, changes, now=author.now, by=author.principal_id, decided_at=at), []


def _has_moved(link: StoredLink, ticket: TicketState) -> bool:
    return ticket.state is not None and link.state is not ticket.state


def _activity_data(author: Author, link: StoredLink, ticket: TicketState) -> dict[str, object]:
    return author.activity_data(
        linkId=link.id,
        url=link.url,
        title=ticket.title or link.title,
        system=link.system,
        state=ticket.state or link.state,
    )
