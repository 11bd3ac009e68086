"""Audit events of a user account: recorded in every organization that the user is a member of."""

from collections.abc import Callable, Mapping
from functools import partial

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.auth.tables import memberships, organizations
from control.audit.record import Actor, record
from control.routing.arguments import SessionTransaction


def session_actor(caller: AuthenticatedCredential, org_id: str) -> Actor:
    """The audit actor of a session. Only the organization that the session is in gets the session's id."""
    return Actor(
        org_id, caller.principal_id, caller.kind, token_id=caller.token_id if org_id == caller.org_id else None
    )


async def record_in_all_orgs(
    connection: AsyncConnection,
    user_id: str,
    actor_for: Callable[[str], Actor],
    action: str,
    data: Mapping[str, object],
    request_id: str,
) -> None:
    """Record an event about a user in every organization that the user is a member of. `actor_for` gets each
    organization's id.
    """
    found = (
        sa.select(memberships.c.org_id)
        .join_from(memberships, organizations, organizations.c.id == memberships.c.org_id)
        .where(memberships.c.principal_id == user_id, organizations.c.deleted_at.is_(None))
        .order_by(memberships.c.org_id)
    )
    for org_id in (await connection.scalars(found)).all():
        await record(connection, actor_for(org_id), action, user_id, data, request_id)


async def record_change(transaction: SessionTransaction, action: str, data: Mapping[str, object]) -> None:
    """Record what the caller has done to the own account, in every organization that the caller is a member of."""
    caller = transaction.caller
    by = partial(session_actor, caller)
    await record_in_all_orgs(transaction.connection, caller.principal_id, by, action, data, transaction.request_id)
