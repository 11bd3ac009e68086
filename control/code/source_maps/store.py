"""Source maps in the database. Every function runs in the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, projects
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.source_maps.store import source_maps

MAX_MAPS: Final = 10_000  # per project: services keep the paths in memory
ID_PREFIX: Final = "smp"

_COLUMNS: Final = source_maps.c
# Without the content.
SELECT_MAPS: Final = sa.select(*(column for column in _COLUMNS if column is not _COLUMNS.content))


@dataclass(frozen=True, slots=True)
class NewSourceMap:
    """A source map to store."""

    org_id: str
    project_id: int
    principal_id: str
    release: str
    path: str
    debug_id: str | None
    digest: bytes
    content: bytes
    created_at: datetime


async def find_by_path(connection: AsyncConnection, project_id: int, release: str, path: str) -> sa.Row[Any] | None:
    """The project's map of a minified file in a release."""
    where = (_COLUMNS.project_id == project_id) & (_COLUMNS.release == release) & (_COLUMNS.path == path)
    return (await connection.execute(SELECT_MAPS.where(where))).one_or_none()


async def store(connection: AsyncConnection, new: NewSourceMap, max_bytes: int) -> tuple[str, list[str]]:
    """Store a map, replacing the map of the same release and path. If the project then has more than MAX_MAPS maps, or
    more than `max_bytes` bytes of them (0: no limit), the releases whose last map was uploaded first lose their maps.
    Returns the id of the map, and these releases. Raises Conflict if this release alone has too many.
    """
    replaced = (_COLUMNS.project_id == new.project_id) & (_COLUMNS.release == new.release) & (_COLUMNS.path == new.path)
    await connection.execute(source_maps.delete().where(replaced))
    removed = await _make_room(connection, new, max_bytes)
    row: dict[str, Any] = {
        "id": new_id(ID_PREFIX),
        "org_id": new.org_id,
        "project_id": new.project_id,
        "release": new.release,
        "path": new.path,
        "debug_id": new.debug_id,
        "digest": new.digest,
        "size": len(new.content),
        "created_by": new.principal_id,
        "created_at": to_milliseconds(new.created_at),
        "content": new.content,
    }
    await connection.execute(source_maps.insert().values(row))
    await _count_change(connection, new.project_id)
    return row["id"], removed


async def delete(connection: AsyncConnection, project_id: int, source_map_id: str) -> None:
    """Delete a map."""
    await connection.execute(
        source_maps.delete().where(_COLUMNS.project_id == project_id, _COLUMNS.id == source_map_id)
    )
    await _count_change(connection, project_id)


async def _make_room(connection: AsyncConnection, new: NewSourceMap, max_bytes: int) -> list[str]:
    """Delete maps of the releases that were uploaded first until the new map fits. Returns these releases. Raises
    Conflict.
    """
    last = sa.func.max(_COLUMNS.id)  # ids sort by creation
    usage = (
        sa.select(_COLUMNS.release, sa.func.count(), sa.func.sum(_COLUMNS.size))
        .where(_COLUMNS.project_id == new.project_id)
        .group_by(_COLUMNS.release)
        .order_by(last)
    )
    releases = [(release, count, int(size)) for release, count, size in await connection.execute(usage)]
    count = 1 + sum(one[1] for one in releases)
    size = len(new.content) + sum(one[2] for one in releases)
    removed: list[str] = []
    for release, maps, size_of_release in releases:
        if not _is_over(count, size, max_bytes):
            break
        if release != new.release:
            removed.append(release)
            count, size = count - maps, size - size_of_release
    if _is_over(count, size, max_bytes):
        is_many = count > MAX_MAPS
        problem = (
            f"The release would have more than {MAX_MAPS} source maps."
            if is_many
            else f"The compressed source maps of the release would be larger than {max_bytes} bytes."
        )
        remedy = "Delete source maps of this release" + (
            "." if is_many else ", or ask the operator to raise the limit."
        )
        raise Conflict(f"{problem} {remedy}")
    if removed:
        await connection.execute(
            source_maps.delete().where(_COLUMNS.project_id == new.project_id, _COLUMNS.release.in_(removed))
        )
    return removed


def _is_over(count: int, size: int, max_bytes: int) -> bool:
    return count > MAX_MAPS or (max_bytes > 0 and size > max_bytes)


async def _count_change(connection: AsyncConnection, project_id: int) -> None:
    await connection.execute(
        projects.update()
        .where(projects.c.id == project_id)
        .values(source_maps_revision=projects.c.source_maps_revision + 1)
    )
