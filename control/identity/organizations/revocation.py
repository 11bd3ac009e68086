"""Revokes an access token with the tokens and open invitations that were created with it, directly or indirectly.
Tokens and invitations that were created in a session do not end with the session.

Every function runs in the caller's transaction.
"""

from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, invitations


class RevokedCounts(NamedTuple):
    """The numbers of other tokens and invitations that were revoked with a token."""

    tokens: int
    invitations: int


async def issuing_token(connection: AsyncConnection, by: AuthorizationContext) -> sa.Row[*tuple[Any, ...]] | None:
    """Id, scopes and expiry of the caller's access token. None for a session, which has all scopes of its user until it
    ends.
    """
    columns = (access_tokens.c.id, access_tokens.c.scopes, access_tokens.c.expires_at)
    return (await connection.execute(sa.select(*columns).where(access_tokens.c.id == by.token_id))).one_or_none()


async def revoke_tree(connection: AsyncConnection, org_id: str, token_id: str, now: datetime) -> RevokedCounts:
    """Revoke the token and everything created with it, directly or indirectly. Earlier revocations are not changed."""
    tree = _token_tree(org_id, token_id)
    valid = access_tokens.c.id.in_(tree) & access_tokens.c.revoked_at.is_(None)
    other_tokens = await _revoke(connection, access_tokens, valid & (access_tokens.c.id != token_id), now)
    created = invitations.c.minted_with.in_(tree) & is_open_invitation(now)
    revoked_invitations = await _revoke(connection, invitations, created, now)
    await _revoke(connection, access_tokens, valid, now)
    return RevokedCounts(other_tokens, revoked_invitations)


async def revoke_credentials(
    connection: AsyncConnection, org_id: str, principal_ids: sa.Select[tuple[str]], now: datetime
) -> None:
    """Revoke the principals' tokens in the organization, and the open invitations that they created."""
    tokens = access_tokens.c.principal_id.in_(principal_ids) & access_tokens.c.revoked_at.is_(None)
    created = invitations.c.created_by.in_(principal_ids) & is_open_invitation(now)
    for table, where in ((access_tokens, tokens), (invitations, created)):
        await connection.execute(table.update().where(table.c.org_id == org_id, where).values(revoked_at=now))


def is_open_invitation(now: datetime) -> sa.ColumnElement[bool]:
    """Condition: the invitation can be accepted."""
    unused = invitations.c.accepted_at.is_(None) & invitations.c.revoked_at.is_(None)
    return unused & (invitations.c.expires_at > now)


async def _revoke(
    connection: AsyncConnection, table: sa.Table, condition: sa.ColumnElement[bool], now: datetime
) -> int:
    """Revoke the rows and return their number. The rows are counted separately, because sqlite3 reports no row count
    for statements that start with WITH.
    """
    count = await connection.scalar(sa.select(sa.func.count()).select_from(table).where(condition)) or 0
    await connection.execute(table.update().where(condition).values(revoked_at=now))
    return count


def _token_tree(org_id: str, token_id: str) -> sa.Select[tuple[str]]:
    """Ids of the token and of the tokens created with it, directly or indirectly."""
    first = sa.select(access_tokens.c.id).where(access_tokens.c.org_id == org_id, access_tokens.c.id == token_id)
    tree = first.cte("line", recursive=True)
    children = sa.select(access_tokens.c.id).join(tree, access_tokens.c.minted_with == tree.c.id)
    return sa.select(tree.union(children.where(access_tokens.c.org_id == org_id)).c.id)
