"""Deletes a project or an organization in one transaction: stores the erasure, revokes every credential, and hides the
project or organization. The remaining rows are deleted afterwards (`control.governance.erasures.purge`).

Every function runs in the caller's transaction. After the commit the caller notifies the guards.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import (
    DELETED_NAME,
    access_tokens,
    deleted_slug,
    invitations,
    organizations,
    project_keys,
    projects,
    sessions,
)
from chassis.db.database import to_milliseconds
from chassis.erasures.repository import NewErasure, StoredErasure, create, create_many, supersede_filters
from chassis.erasures.tables import ErasureKind, erasures
from chassis.errors import Forbidden
from control.approvals.policies.store import approval_policies
from control.approvals.tables import OPEN, approval_requests
from control.audit.record import Actor, record
from control.identity.chat_links import end_access
from control.identity.directory.tables import scim_tokens
from control.identity.organizations.project_key_store import active_at
from control.notify.channels.tables import State, deliveries, notification_channels
from proto.identity import PrincipalKind, Role, hash_secret

CHANNEL_DELETED: Final = "The channel was deleted."


def require_user(caller: AuthorizationContext) -> None:
    """Require a user who acts for themselves, because a deletion by mistake of an agent could not be undone. Raises
    Forbidden.
    """
    if caller.kind is not PrincipalKind.USER or caller.on_behalf_of is not None:
        raise Forbidden(
            "Only users can delete and erase. Agents, services, and tokens that act on behalf of another principal "
            "cannot."
        )


def require_owner(caller: AuthorizationContext) -> None:
    """Require a user who acts for themselves and is an owner. Raises Forbidden."""
    require_user(caller)
    if caller.role is not Role.OWNER:
        raise Forbidden("Only owners can delete the organization.")


async def delete_project(
    connection: AsyncConnection,
    by: AuthorizationContext | Actor,
    project_id: int,
    project_slug: str,
    request_id: str,
    now: datetime,
) -> StoredErasure:
    """Delete a project that is not deleted yet. Its slug can be used again."""
    now = to_milliseconds(now)
    erasure = await create(
        connection,
        NewErasure(
            kind=ErasureKind.PROJECT,
            org_id=by.org_id,
            project_id=project_id,
            project_slug=project_slug,
            requested_by=by.principal_id,
        ),
        now,
    )
    await supersede_filters(connection, by.org_id, project_id, now)
    await _hide_projects(connection, projects.c.id == project_id, now)
    await _revoke_keys(connection, project_keys.c.project_id == project_id, now)
    await _delete_channels(connection, notification_channels.c.project_id == project_id, now)
    await connection.execute(approval_policies.delete().where(approval_policies.c.project_id == project_id))
    open_requests = approval_requests.update().where(
        approval_requests.c.project_id == project_id, OPEN, approval_requests.c.expires_at > now
    )
    await connection.execute(open_requests.values(expires_at=now))
    await record(
        connection, by, "project.delete", str(project_id), {"slug": project_slug, "erasureId": erasure.id}, request_id
    )
    return erasure


async def delete_organization(
    connection: AsyncConnection, by: AuthorizationContext | Actor, org_slug: str, request_id: str, now: datetime
) -> StoredErasure:
    """Delete an organization that is not deleted yet, with all its projects. Its slug cannot be used again."""
    now = to_milliseconds(now)
    erasure = await create(
        connection,
        NewErasure(kind=ErasureKind.ORGANIZATION, org_id=by.org_id, requested_by=by.principal_id),
        now,
    )
    of_projects = [
        NewErasure(
            kind=ErasureKind.PROJECT,
            org_id=by.org_id,
            project_id=project_id,
            requested_by=by.principal_id,
            purged=True,  # by the erasure of the organization
        )
        for project_id in await _live_project_ids(connection, by.org_id)
    ]
    await create_many(connection, of_projects, now)
    await supersede_filters(connection, by.org_id, None, now)
    await connection.execute(erasures.update().where(erasures.c.org_id == by.org_id).values(project_slug=None))
    await _hide_projects(connection, (projects.c.org_id == by.org_id) & projects.c.deleted_at.is_(None), now)
    await _revoke_keys(connection, project_keys.c.org_id == by.org_id, now)
    await _delete_channels(connection, notification_channels.c.org_id == by.org_id, now)
    await _revoke_credentials(connection, by.org_id, now)
    data = {"erasureId": erasure.id, "projects": len(of_projects)}
    await record(connection, by, "organization.delete", by.org_id, data, request_id)
    values: dict[str, Any] = {
        "slug": deleted_slug(organizations),
        "name": DELETED_NAME,
        "deleted_at": now,
        "retired_slug": hash_secret(org_slug),
        "sso_enforced": False,
        "user_tokens_blocked": False,
        "break_glass_id": None,
    }
    await connection.execute(organizations.update().where(organizations.c.id == by.org_id).values(values))
    return erasure


async def _live_project_ids(connection: AsyncConnection, org_id: str) -> Sequence[int]:
    live = (projects.c.org_id == org_id) & projects.c.deleted_at.is_(None)
    return (await connection.scalars(sa.select(projects.c.id).where(live).order_by(projects.c.id))).all()


async def _hide_projects(connection: AsyncConnection, where: sa.ColumnElement[bool], now: datetime) -> None:
    values: dict[str, Any] = {
        "slug": deleted_slug(projects),
        "name": DELETED_NAME,
        "sensitive_words": [],
        "exempt_keys": [],
        "retention_days": None,
        "deleted_at": now,
    }
    await connection.execute(projects.update().where(where).values(values))


async def _revoke_keys(connection: AsyncConnection, where: sa.ColumnElement[bool], now: datetime) -> None:
    await connection.execute(project_keys.update().where(where, active_at(now)).values(revoked_at=now))


async def _delete_channels(connection: AsyncConnection, where: sa.ColumnElement[bool], now: datetime) -> None:
    """Erase configs, and cancel waiting deliveries. Attempts in flight are finished."""
    live = where & notification_channels.c.deleted_at.is_(None)
    of_channels = deliveries.c.channel_id.in_(sa.select(notification_channels.c.id).where(live))
    waiting = deliveries.update().where(of_channels, deliveries.c.state == State.READY.value)
    cancelled = {"state": State.CANCELLED.value, "next_at": None, "ended_at": now, "detail": CHANNEL_DELETED}
    await connection.execute(waiting.values(cancelled))
    values = {"config": None, "enabled": False, "deleted_at": now, "updated_at": now}
    await connection.execute(notification_channels.update().where(live).values(values))


async def _revoke_credentials(connection: AsyncConnection, org_id: str, now: datetime) -> None:
    """Revoke tokens, sessions, open invitations and chat links. The guards refuse them anyway, because the organization
    is deleted.
    """
    await end_access(connection, org_id)
    for table in (access_tokens, sessions, invitations, scim_tokens):
        live = (table.c.org_id == org_id) & table.c.revoked_at.is_(None)
        await connection.execute(table.update().where(live).values(revoked_at=now))
