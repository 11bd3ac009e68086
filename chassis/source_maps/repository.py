"""Reads source maps. Every function runs in the caller's transaction."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.source_maps.tables import source_maps


async def read_revisions(connection: AsyncConnection) -> dict[int, int]:
    """The revision of each project that has or had source maps."""
    found = sa.select(projects.c.id, projects.c.source_maps_revision).where(
        projects.c.source_maps_revision > 0, projects.c.deleted_at.is_(None)
    )
    return {row.id: row.source_maps_revision for row in await connection.execute(found)}


async def read_index(connection: AsyncConnection, project_id: int) -> dict[tuple[str, str], str]:
    """The ids of a project's maps by release and path: at most as many as a project may have."""
    columns = source_maps.c.id, source_maps.c.release, source_maps.c.path
    found = sa.select(*columns).where(source_maps.c.project_id == project_id)
    return {(row.release, row.path): row.id for row in await connection.execute(found)}


async def read_content(connection: AsyncConnection, source_map_id: str) -> bytes | None:
    """The stored content of a map; None if it was deleted."""
    found = sa.select(source_maps.c.content).where(source_maps.c.id == source_map_id)
    content: bytes | None = (await connection.execute(found)).scalar()
    return content
