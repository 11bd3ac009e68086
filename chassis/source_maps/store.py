"""The table of source maps, and functions that read it. Every function runs in the caller's transaction.

`projects.source_maps_revision` counts the changes to a project's maps. It is 0 if the project never had a map.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata, projects
from chassis.db.database import UtcTime, text
from chassis.issues import MAX_VERSION_LENGTH

MAX_PATH_LENGTH: Final = 1_024  # ASCII characters, as in a URL; release and path must fit into an index together
DEBUG_ID_LENGTH: Final = 36

source_maps: Final = sa.Table(
    "source_maps",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("release", text(MAX_VERSION_LENGTH), nullable=False),
    sa.Column("path", text(MAX_PATH_LENGTH), nullable=False),  # of the minified file's URL
    sa.Column("debug_id", text(DEBUG_ID_LENGTH)),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),  # SHA-256 of the map as uploaded
    sa.Column("size", sa.BigInteger, nullable=False),  # of `content`
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    # A StoredMap, compressed with zlib. It is the last column, so that lists need not read it.
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("project_id", "release", "path"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id", "id"),
)


async def read_revisions(connection: AsyncConnection) -> dict[int, int]:
    """The revision of each project that has or had source maps."""
    statement = sa.select(projects.c.id, projects.c.source_maps_revision).where(
        projects.c.source_maps_revision > 0, projects.c.deleted_at.is_(None)
    )
    return {row.id: row.source_maps_revision for row in await connection.execute(statement)}


async def read_index(connection: AsyncConnection, project_id: int) -> dict[tuple[str, str], str]:
    """The ids of all of a project's maps, by release and path."""
    statement = sa.select(source_maps.c.id, source_maps.c.release, source_maps.c.path).where(
        source_maps.c.project_id == project_id
    )
    return {(row.release, row.path): row.id for row in await connection.execute(statement)}


async def read_content(connection: AsyncConnection, source_map_id: str) -> bytes | None:
    """The stored content of a map. None if the map was deleted."""
    content: bytes | None = await connection.scalar(
        sa.select(source_maps.c.content).where(source_maps.c.id == source_map_id)
    )
    return content
