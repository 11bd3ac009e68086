"""Links of issues in the database. Every function runs in the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.errors import Conflict
from chassis.issues.tables import issues
from control.code.issue_links.addresses import ExternalItem
from control.issues.tables import LinkState, issue_links

MAX_LINKS: Final = 50  # of an issue


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link of an issue. `changed_at`: of its item, by the clock of its system; None: that has said nothing of it."""

    id: str
    issue_id: str
    system: str
    external_id: str
    url: str
    title: str | None
    state: LinkState | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    changed_at: datetime | None = None  # of the item, by its system's clock


class IssuePlace(NamedTuple):
    """An issue by organization, project and id."""

    org_id: str
    project_id: int
    issue_id: str


class CreatedLink(NamedTuple):
    """The link, and whether it is new."""

    link: StoredLink
    is_new: bool


_COLUMNS: Final = [issue_links.c[name] for name in StoredLink.__dataclass_fields__]


async def has_issue(connection: AsyncConnection, place: IssuePlace) -> bool:
    """Whether there is this issue."""
    found = sa.select(issues.c.id).where(issues.c.project_id == place.project_id, issues.c.id == place.issue_id)
    return await connection.scalar(found) is not None


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
) -> CreatedLink:
    """Link an issue to an item; or find the link that it has to this item, which stays as it is. Raises Conflict when
    there are MAX_LINKS.
    """
    known = await find_link_to(connection, place, item)
    if known is not None:
        return CreatedLink(known, is_new=False)
    of_issue = sa.select(sa.func.count()).select_from(issue_links).where(issue_links.c.issue_id == place.issue_id)
    if (await connection.scalar(of_issue) or 0) >= MAX_LINKS:
        raise Conflict(f"The issue has {MAX_LINKS} links, the maximum. Delete one first.")
    link_id = new_id("lnk")
    row = {"id": link_id, **place._asdict(), **item._asdict(), "url": url, "title": title}
    row |= {"state": state, "created_by": created_by, "created_at": now, "updated_at": now}
    row["changed_at"] = changed_at
    await connection.execute(issue_links.insert().values(row))
    return CreatedLink(await _get(connection, place, link_id), is_new=True)


async def find_link(connection: AsyncConnection, place: IssuePlace, link_id: str) -> StoredLink | None:
    """The link of the issue with this id."""
    return await _find(connection, place, issue_links.c.id == link_id)


async def find_link_to(connection: AsyncConnection, place: IssuePlace, item: ExternalItem) -> StoredLink | None:
    """The link of the issue to this item."""
    of_item = (issue_links.c.system == item.system) & (issue_links.c.external_id == item.external_id)
    return await _find(connection, place, of_item)


async def change_link(
    connection: AsyncConnection, place: IssuePlace, link_id: str, values: Mapping[str, Any], now: datetime
) -> StoredLink:
    """Set the given values; returns the changed link. Raises Conflict if another link of the issue is to this item."""
    if "external_id" in values:
        of_item = (issue_links.c.system == values["system"]) & (issue_links.c.external_id == values["external_id"])
        if await _find(connection, place, of_item & (issue_links.c.id != link_id)) is not None:
            raise Conflict("The issue has another link to this item.")
    where = sa.and_(*_of_issue(place), issue_links.c.id == link_id)
    await connection.execute(issue_links.update().where(where).values({**values, "updated_at": now}))
    return await _get(connection, place, link_id)


async def delete_link(connection: AsyncConnection, place: IssuePlace, link_id: str) -> None:
    """Delete a link of the issue."""
    await connection.execute(issue_links.delete().where(*_of_issue(place), issue_links.c.id == link_id))


async def find_by_external_id(
    connection: AsyncConnection, org_id: str, item: ExternalItem, limit: int
) -> list[StoredLink]:
    """The links of the organization's issues to an item of another system, oldest first."""
    where = (issue_links.c.org_id == org_id) & (issue_links.c.system == item.system)
    found = sa.select(*_COLUMNS).where(where, issue_links.c.external_id == item.external_id)
    rows = await connection.execute(found.order_by(issue_links.c.id).limit(limit))
    return [_link(row) for row in rows.mappings()]


async def set_item_state(
    connection: AsyncConnection,
    link_ids: Sequence[str],
    title: str | None,
    state: LinkState | None,
    changed_at: datetime,
    now: datetime | None,
) -> None:
    """Set what the system of an item says of it; `title` and `state` None: nothing. `now` None: the same as before."""
    said = {"title": title, "state": state, "updated_at": now}
    values: dict[str, Any] = {"changed_at": changed_at}
    values |= {name: value for name, value in said.items() if value is not None}
    if link_ids:
        await connection.execute(issue_links.update().where(issue_links.c.id.in_(link_ids)).values(values))


def _of_issue(place: IssuePlace) -> tuple[sa.ColumnElement[bool], ...]:
    return issue_links.c.project_id == place.project_id, issue_links.c.issue_id == place.issue_id


async def _get(connection: AsyncConnection, place: IssuePlace, link_id: str) -> StoredLink:
    found = await find_link(connection, place, link_id)
    if found is None:
        raise LookupError(link_id)
    return found


async def _find(connection: AsyncConnection, place: IssuePlace, where: sa.ColumnElement[bool]) -> StoredLink | None:
    found = sa.select(*_COLUMNS).where(*_of_issue(place), where)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _link(row)


def _link(row: sa.RowMapping) -> StoredLink:
    return StoredLink(**{**row, "state": None if row["state"] is None else LinkState(row["state"])})
