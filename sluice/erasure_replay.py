"""Applies the erasures of an export to a restored database: what was deleted after the backup is deleted again."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import organizations, projects
from chassis.db.database import Database
from chassis.erasures import repository
from chassis.erasures.export import ExportedErasure, decode_line
from chassis.erasures.repository import NewErasure
from chassis.erasures.tables import ErasureKind
from chassis.errors import StartupError
from control.audit.record import COMMAND_REQUEST_ID, Actor
from control.governance.erasures import deletion

Result = Literal["applied", "known", "nothing to erase"]


def read_export(file: Path) -> list[ExportedErasure]:
    """The erasures that `sluice erasures export` has printed. Raises StartupError."""
    try:
        return [decode_line(line) for line in file.read_bytes().splitlines() if line]
    except (OSError, ValueError) as error:
        raise StartupError(f"{file} cannot be read: {error}") from error


async def apply_erasures(
    database: Database, exported: Iterable[ExportedErasure]
) -> list[tuple[ExportedErasure, Result]]:
    """Apply erasures in the order in which they were requested; repeating it changes nothing. What the backup does not
    have needs no erasure. Raises DatabaseUnavailable.
    """
    results = []
    for erasure in sorted(exported, key=lambda one: one.number):
        async with database.write() as connection:
            results.append((erasure, await _apply(connection, erasure)))
    return results


async def _apply(connection: AsyncConnection, exported: ExportedErasure) -> Result:
    if await repository.find(connection, exported.id) is not None:
        return "known"
    now, actor = datetime.now(UTC), Actor(exported.org_id)
    if exported.project_id is None:
        of_org = (organizations.c.id == exported.org_id) & organizations.c.deleted_at.is_(None)
        slug = await connection.scalar(sa.select(organizations.c.slug).where(of_org))
        if slug is None:
            return "nothing to erase"
        await deletion.delete_organization(connection, actor, slug, COMMAND_REQUEST_ID, now)
        return "applied"
    project_id = int(exported.project_id)
    live = (projects.c.id == project_id) & projects.c.deleted_at.is_(None)
    slug = await connection.scalar(sa.select(projects.c.slug).where(live))
    if slug is None:
        return "nothing to erase"
    if exported.kind is ErasureKind.PROJECT:
        await deletion.delete_project(connection, actor, project_id, slug, COMMAND_REQUEST_ID, now)
        return "applied"
    new = NewErasure(
        id=exported.id,
        kind=ErasureKind.FILTER,
        org_id=exported.org_id,
        project_id=project_id,
        project_slug=slug,
        filters=exported.filters,
        from_ns=exported.from_ns,
        to_ns=exported.to_ns,
        purged=True,
    )
    await repository.create(connection, new, exported.requested_time)
    return "applied"
