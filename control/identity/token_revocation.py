"""What was made with an access token and ends when that is revoked: tokens, what was made with those, and invitations
that wait. What was made in a session does not end with it.

Every function works within the transaction of its caller.
"""

from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, invitations


class RevokedCounts(NamedTuple):
    """How much ended with a token, itself not counted."""

    tokens: int
    invitations: int


async def issuing_token(connection: AsyncConnection, by: AuthorizationContext) -> sa.Row[*tuple[Any, ...]] | None:
    """Id, scopes and expiry of the token that the bearer has shown; None for a session, which has all of its user's for
    as long as that lasts.
    """
    columns = (access_tokens.c.id, access_tokens.c.scopes, access_tokens.c.expires_at)
    return (await connection.execute(sa.select(*columns).where(access_tokens.c.id == by.token_id))).one_or_none()


async def revoke_tree(connection: AsyncConnection, org_id: str, token_id: str, now: datetime) -> RevokedCounts:
    """Revoke the token, all that was made with it, and so on; what was revoked before stays as it is."""
    line = _token_tree(org_id, token_id)
    working = access_tokens.c.id.in_(line) & access_tokens.c.revoked_at.is_(None)
    waiting = (
        invitations.c.minted_with.in_(line)
        & invitations.c.accepted_at.is_(None)
        & invitations.c.revoked_at.is_(None)
        & (invitations.c.expires_at > now)
    )
    others = await _revoke(connection, access_tokens, working & (access_tokens.c.id != token_id), now)
    withdrawn = await _revoke(connection, invitations, waiting, now)
    await _revoke(connection, access_tokens, working, now)
    return RevokedCounts(others, withdrawn)


async def _revoke(connection: AsyncConnection, table: sa.Table, which: sa.ColumnElement[bool], now: datetime) -> int:
    """How many; counted apart, as sqlite3 counts no rows of what begins with WITH."""
    count = await connection.scalar(sa.select(sa.func.count()).select_from(table).where(which)) or 0
    await connection.execute(table.update().where(which).values(revoked_at=now))
    return count


def _token_tree(org_id: str, token_id: str) -> sa.Select[tuple[str]]:
    """Ids of the token and of those that were made with it, and with those."""
    first = sa.select(access_tokens.c.id).where(access_tokens.c.org_id == org_id, access_tokens.c.id == token_id)
    line = first.cte("line", recursive=True)
    made = sa.select(access_tokens.c.id).join(line, access_tokens.c.minted_with == line.c.id)
    return sa.select(line.union(made.where(access_tokens.c.org_id == org_id)).c.id)
