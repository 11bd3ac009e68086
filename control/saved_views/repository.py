"""Saved views in the database. Every function runs in the caller's transaction."""

from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import principals
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.saved_views.schemas import NewSavedView, StoredView
from control.saved_views.tables import saved_views

MAX_VIEWS: Final = 200  # of a project
MAX_OWN_VIEWS: Final = 50  # of them, by one principal: nobody takes the room of the others

_COLUMNS: Final = saved_views.c
_VIEWS: Final = sa.select(
    *(_COLUMNS[name] for name in ("id", "name", "path", "shared", "created_by", "created_at")),
    principals.c.name.label("created_by_name"),
).join_from(saved_views, principals, principals.c.id == _COLUMNS.created_by)


async def list_views(
    connection: AsyncConnection, project_id: int, principal_id: str, before: str | None, limit: int
) -> list[StoredView]:
    """At most `limit` of the views that are the principal's or shared, newest first; those older than `before`."""
    visible = _COLUMNS.shared | (_COLUMNS.created_by == principal_id)
    found = _VIEWS.where(_COLUMNS.project_id == project_id, visible).order_by(_COLUMNS.id.desc()).limit(limit)
    if before is not None:
        found = found.where(_COLUMNS.id < before)
    return [StoredView(**row) for row in (await connection.execute(found)).mappings()]


async def find(connection: AsyncConnection, project_id: int, view_id: str) -> StoredView | None:
    """The project's view with this id."""
    found = _VIEWS.where(_COLUMNS.project_id == project_id, _COLUMNS.id == view_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else StoredView(**row)


async def create(
    connection: AsyncConnection, org_id: str, project_id: int, principal_id: str, body: NewSavedView, now: datetime
) -> StoredView:
    """Raises Conflict when the principal has MAX_OWN_VIEWS in the project, or the project MAX_VIEWS that are shared.
    Private ones of others do not count: nobody else sees them, so nobody could make room.
    """
    is_own = _COLUMNS.created_by == principal_id
    of_project = sa.select(sa.func.count().filter(is_own), sa.func.count().filter(_COLUMNS.shared)).where(
        _COLUMNS.project_id == project_id
    )
    own, shared = (await connection.execute(of_project)).one()
    if own >= MAX_OWN_VIEWS:
        raise Conflict(f"You have {MAX_OWN_VIEWS} saved views in the project, the maximum. Delete one first.")
    if body.shared and shared >= MAX_VIEWS:
        raise Conflict(f"The project has {MAX_VIEWS} shared views, the maximum. Delete one first.")
    view_id = new_id("viw")
    row = {
        "id": view_id,
        "org_id": org_id,
        "project_id": project_id,
        "name": body.name,
        "path": body.path,
        "shared": body.shared,
        "created_by": principal_id,
        "created_at": to_milliseconds(now),
    }
    await connection.execute(saved_views.insert().values(row))
    created = await find(connection, project_id, view_id)
    if created is None:
        raise LookupError(view_id)
    return created


async def delete(connection: AsyncConnection, view_id: str) -> None:
    """Delete the view."""
    await connection.execute(saved_views.delete().where(_COLUMNS.id == view_id))


async def delete_private(connection: AsyncConnection, org_id: str, principal_id: str) -> None:
    """Delete the views that only the principal sees: it has left the organization. Shared ones stay."""
    own = (_COLUMNS.org_id == org_id) & (_COLUMNS.created_by == principal_id) & ~_COLUMNS.shared
    await connection.execute(saved_views.delete().where(own))
