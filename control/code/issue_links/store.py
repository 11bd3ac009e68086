"""Links of issues in the database, and the effect of changes that other systems report of linked tickets. Every
function runs in the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.errors import Conflict, NotFound
from control.code.fixes.named_issues import NamedChange, find_named, note_all, reopen_all, resolve_all
from control.code.fixes.updates import Author
from control.code.issue_links.addresses import ExternalItem
from control.issues.references import NamedIssue, References, ShortId
from control.issues.store import without_none
from control.issues.tables import ActivityKind, LinkState, issue_links

MAX_LINKS: Final = 50  # per issue


StoredLink = sa.Row[Any]  # a row of `issue_links`


class IssuePlace(NamedTuple):
    """The organization, project and id of an issue."""

    org_id: str
    project_id: int
    issue_id: str


async def create_link(
    connection: AsyncConnection,
    place: IssuePlace,
    item: ExternalItem,
    *,
    url: str,
    title: str | None,
    state: LinkState | None,
    created_by: str | None,
    now: datetime,
    changed_at: datetime | None = None,
) -> tuple[StoredLink, bool]:
    """Link an issue to an item, or find the existing link to this item, which is not changed. The second value tells
    whether the link is new. Raises Conflict at MAX_LINKS links.
    """
    known = await find_link_to(connection, place, item)
    if known is not None:
        return known, False
    of_issue = sa.select(sa.func.count()).select_from(issue_links).where(issue_links.c.issue_id == place.issue_id)
    if (await connection.scalar(of_issue) or 0) >= MAX_LINKS:
        raise Conflict(f"The issue has {MAX_LINKS} links, the maximum. Delete one first.")
    link_id = new_id("lnk")
    row = {"url": url, "title": title, "state": state, "changed_at": changed_at, "created_by": created_by}
    row |= {"id": link_id, **place._asdict(), **item._asdict(), "created_at": now, "updated_at": now}
    await connection.execute(issue_links.insert().values(row))
    return await get_link(connection, place, link_id), True


async def get_link(connection: AsyncConnection, place: IssuePlace, link_id: str) -> StoredLink:
    """The link of the issue with this id. Raises NotFound."""
    found = await _find(connection, place, issue_links.c.id == link_id)
    if found is None:
        raise NotFound
    return found


async def find_link_to(connection: AsyncConnection, place: IssuePlace, item: ExternalItem) -> StoredLink | None:
    """The link of the issue to this item."""
    of_item = (issue_links.c.system == item.system) & (issue_links.c.external_id == item.external_id)
    return await _find(connection, place, of_item)


async def change_link(
    connection: AsyncConnection, place: IssuePlace, link_id: str, values: Mapping[str, Any], now: datetime
) -> StoredLink:
    """Set the given values and return the changed link. Raises Conflict if another link of the issue leads to this
    item.
    """
    if "external_id" in values:
        of_item = (issue_links.c.system == values["system"]) & (issue_links.c.external_id == values["external_id"])
        if await _find(connection, place, of_item & (issue_links.c.id != link_id)) is not None:
            raise Conflict("The issue has another link to this item.")
    where = sa.and_(*_of_issue(place), issue_links.c.id == link_id)
    await connection.execute(issue_links.update().where(where).values({**values, "updated_at": now}))
    return await get_link(connection, place, link_id)


async def delete_link(connection: AsyncConnection, place: IssuePlace, link_id: str) -> None:
    """Delete a link of the issue."""
    await connection.execute(issue_links.delete().where(*_of_issue(place), issue_links.c.id == link_id))


async def find_by_external_id(
    connection: AsyncConnection, org_id: str, item: ExternalItem, limit: int
) -> Sequence[StoredLink]:
    """The links of the organization's issues to an item of another system, oldest first."""
    where = (issue_links.c.org_id == org_id) & (issue_links.c.system == item.system)
    statement = sa.select(issue_links).where(where, issue_links.c.external_id == item.external_id)
    return (await connection.execute(statement.order_by(issue_links.c.id).limit(limit))).all()


async def set_item_state(
    connection: AsyncConnection,
    link_ids: Sequence[str],
    title: str | None,
    state: LinkState | None,
    changed_at: datetime,
    now: datetime | None,
) -> None:
    """Store what the system of an item reports. `title` and `state`: None if not reported. `now`: None if nothing has
    changed.
    """
    values = without_none({"title": title, "state": state, "changed_at": changed_at, "updated_at": now})
    if link_ids:
        await connection.execute(issue_links.update().where(issue_links.c.id.in_(link_ids)).values(values))


def _of_issue(place: IssuePlace) -> tuple[sa.ColumnElement[bool], ...]:
    return issue_links.c.project_id == place.project_id, issue_links.c.issue_id == place.issue_id


async def _find(connection: AsyncConnection, place: IssuePlace, where: sa.ColumnElement[bool]) -> StoredLink | None:
    return (await connection.execute(sa.select(issue_links).where(*_of_issue(place), where))).one_or_none()


class TicketState(NamedTuple):
    """A ticket as of `changed_at`, by its system's clock. `title`, `state`: None if not reported. `is_reopened`: the
    event is that the ticket was reopened. `is_fixed`: False if the ticket was closed without a fix.
    """

    title: str | None
    state: LinkState | None
    changed_at: datetime
    is_reopened: bool = False
    is_fixed: bool = True


class SyncedLinks(NamedTuple):
    """The number of links and the issues that a change of a ticket has changed."""

    links_changed: int
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]


async def change_links(
    connection: AsyncConnection, author: Author, links: Sequence[StoredLink], ticket: TicketState, *, sync: bool
) -> SyncedLinks:
    """Give the links to a ticket its title and state, unless a later report of the ticket has set them. `sync`: also
    resolve the issues of a closed ticket, according to the settings of their project, and reopen the issues of a
    reopened ticket.
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
    changes = [
        NamedChange(
            issue,
            author.activity_data(
                linkId=one.id,
                url=one.url,
                title=ticket.title or one.title,
                system=one.system,
                state=ticket.state or one.state,
            ),
        )
        for issue, one in named
    ]
    await note_all(connection, changes, ActivityKind.LINK_CHANGED, now=author.now, by=author.principal_id)
    if not sync:
        return SyncedLinks(len(named), [], [])
    resolved, reopened = await _sync(connection, author, named, ticket)
    return SyncedLinks(len(named), resolved, reopened)


async def _sync(
    connection: AsyncConnection, author: Author, named: Sequence[tuple[NamedIssue, StoredLink]], ticket: TicketState
) -> tuple[list[ShortId], list[ShortId]]:
    """Resolve or reopen the issues of links whose state has changed. If the state of a link was not known, only the
    event tells what has changed.
    """
    moved = [(issue, one) for issue, one in named if _has_moved(one, ticket)]
    changes = [
        NamedChange(issue, author.activity_data(linkId=one.id, url=one.url))
        for issue, one in moved
        if ticket.state is LinkState.CLOSED or one.state == LinkState.CLOSED or ticket.is_reopened
    ]
    at = min(ticket.changed_at, author.now)
    if ticket.state is LinkState.OPEN:
        return [], await reopen_all(connection, changes, now=author.now, by=author.principal_id, decided_at=at)
    if not ticket.is_fixed:
        return [], []
    return await resolve_all(connection, changes, now=author.now, by=author.principal_id, decided_at=at), []


def _has_moved(link: StoredLink, ticket: TicketState) -> bool:
    return ticket.state is not None and bool(link.state != ticket.state)
