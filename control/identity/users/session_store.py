"""Dashboard sessions: families of refresh tokens, each of which can be used once.

    start     creates a session and its first refresh token
    refresh   consumes a refresh token and returns the next one. If the token was consumed before, the caller ends the
              session, because one of the token's two holders stole it. Within REUSE_GRACE the token is accepted again,
              because a browser repeats a request whose response it did not receive

Every function runs in the caller's transaction. After a session has ended, the caller notifies the guards.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED
from chassis.auth.tables import (
    memberships,
    new_id,
    new_refresh_token,
    organizations,
    principals,
    refresh_tokens,
    sessions,
    users,
)
from chassis.db.database import to_milliseconds
from chassis.errors import Forbidden
from proto.identity import REFRESH_PREFIX, Role, hash_secret, is_token

ABSOLUTE_TIMEOUT: Final = timedelta(days=90)  # even if the session is refreshed
IDLE_TIMEOUT: Final = timedelta(days=14)  # without a refresh
REUSE_GRACE: Final = timedelta(seconds=10)
KEEP_ENDED_FOR: Final = timedelta(days=30)  # ended sessions are kept to investigate a theft


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `methods`: how the user was authenticated (RFC 8176: pwd, otp, mfa; fed: through an identity provider;
    rc: a recovery code).
    """

    id: str
    org_id: str
    principal_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IssuedSession:
    """A session and, only here, its next refresh token."""

    session: Session
    refresh_token: str = field(repr=False)


async def start(
    connection: AsyncConnection,
    org_id: str,
    principal_id: str,
    methods: tuple[str, ...],
    now: datetime,
    *,
    expires_at: datetime | None = None,
) -> IssuedSession:
    """Start a session. Returns it with its first refresh token. `expires_at`: its end, if that is before
    ABSOLUTE_TIMEOUT.
    """
    now = to_milliseconds(now)
    await _remove_old(connection, principal_id, now)
    session = Session(new_id("ses"), org_id, principal_id, methods)
    row = {
        "id": session.id,
        "org_id": org_id,
        "principal_id": principal_id,
        "methods": list(methods),
        "created_at": now,
        "expires_at": min(now + ABSOLUTE_TIMEOUT, to_milliseconds(expires_at or now + ABSOLUTE_TIMEOUT)),
    }
    await connection.execute(sessions.insert().values(row))
    return IssuedSession(session, await _next_token(connection, session, now))


async def refresh(connection: AsyncConnection, refresh_token: str, now: datetime) -> IssuedSession | Session | None:
    """The session with its next token. If the token was used before, the session alone, for the caller to end. None for
    a token that is unknown or has expired, and for a token of an ended session. The caller commits in any case.
    """
    now = to_milliseconds(now)
    row = await _token(connection, refresh_token)
    if row is None or row.revoked_at is not None or min(row.expires_at, row.session_expires_at) <= now:
        return None
    if row.used_at is not None and now - row.used_at > REUSE_GRACE:
        return _session(row)
    unused = (refresh_tokens.c.hash == hash_secret(refresh_token)) & refresh_tokens.c.used_at.is_(None)
    await connection.execute(refresh_tokens.update().where(unused).values(used_at=now))
    return IssuedSession(_session(row), await _next_token(connection, _session(row), now))


async def find_by_token(connection: AsyncConnection, refresh_token: str) -> Session | None:
    """The session of a refresh token, even if the token or the session is no longer valid."""
    row = await _token(connection, refresh_token)
    return None if row is None else _session(row)


async def replace(
    connection: AsyncConnection, session_id: str, now: datetime, *, org_id: str = "", method: str | None = None
) -> IssuedSession:
    """Replace the session by a session of another organization of its principal, or by one with an additional
    authentication method. The old session ends, because another holder of its tokens has not shown the additional
    factor. The new session ends no later than the old session would have.
    """
    row = (await connection.execute(sa.select(sessions).where(sessions.c.id == session_id))).one()
    await end(connection, session_id, now)
    methods = tuple(dict.fromkeys((*row.methods, *([method] if method else []))))
    return await start(connection, org_id or row.org_id, row.principal_id, methods, now, expires_at=row.expires_at)


async def add_method(connection: AsyncConnection, session_id: str, method: str) -> None:
    """Add an authentication method to the session. Its tokens stay valid."""
    row = (await connection.execute(sa.select(sessions.c.methods).where(sessions.c.id == session_id))).one()
    methods = {"methods": list(dict.fromkeys((*row.methods, method)))}
    await connection.execute(sessions.update().where(sessions.c.id == session_id).values(methods))


async def end(connection: AsyncConnection, session_id: str, now: datetime) -> bool:
    """End the session permanently. False if it had ended before."""
    live = (sessions.c.id == session_id) & sessions.c.revoked_at.is_(None)
    return (await connection.execute(sessions.update().where(live).values(revoked_at=now))).rowcount == 1


async def end_all(
    connection: AsyncConnection,
    principal_id: str,
    now: datetime,
    *,
    org_id: str | None = None,
    except_session_id: str | None = None,
) -> None:
    """End every session of the principal, in one organization or (None) in all, except the session
    `except_session_id`.
    """
    live = (sessions.c.principal_id == principal_id) & sessions.c.revoked_at.is_(None)
    if org_id is not None:
        live &= sessions.c.org_id == org_id
    if except_session_id is not None:
        live &= sessions.c.id != except_session_id
    await connection.execute(sessions.update().where(live).values(revoked_at=now))


async def _token(connection: AsyncConnection, refresh_token: str) -> sa.Row[*tuple[Any, ...]] | None:
    if not is_token(refresh_token, REFRESH_PREFIX):
        return None
    statement = (
        sa.select(
            refresh_tokens.c.used_at,
            refresh_tokens.c.expires_at,
            sessions.c.id,
            sessions.c.org_id,
            sessions.c.principal_id,
            sessions.c.methods,
            sessions.c.revoked_at,
            sessions.c.expires_at.label("session_expires_at"),
        )
        .join_from(refresh_tokens, sessions, sessions.c.id == refresh_tokens.c.session_id)
        .where(refresh_tokens.c.hash == hash_secret(refresh_token))
    )
    return (await connection.execute(statement)).one_or_none()


def _session(row: sa.Row[*tuple[Any, ...]]) -> Session:
    return Session(row.id, row.org_id, row.principal_id, tuple(row.methods))


async def _next_token(connection: AsyncConnection, session: Session, now: datetime) -> str:
    secret = new_refresh_token()
    row = {
        "hash": hash_secret(secret),
        "session_id": session.id,
        "org_id": session.org_id,
        "created_at": now,
        "expires_at": now + IDLE_TIMEOUT,
    }
    await connection.execute(refresh_tokens.insert().values(row))
    return secret


async def _remove_old(connection: AsyncConnection, principal_id: str, now: datetime) -> None:
    """Delete the principal's sessions that ended more than KEEP_ENDED_FOR ago."""
    ended = (sessions.c.expires_at < now - KEEP_ENDED_FOR) | (sessions.c.revoked_at < now - KEEP_ENDED_FOR)
    old = sa.select(sessions.c.id).where(sessions.c.principal_id == principal_id, ended)
    await connection.execute(refresh_tokens.delete().where(refresh_tokens.c.session_id.in_(old)))
    await connection.execute(sessions.delete().where(sessions.c.principal_id == principal_id, ended))


SSO_REQUIRED: Final = "This organization requires single sign-on."


async def requires_sso(connection: AsyncConnection, org_id: str) -> bool:
    """Whether the organization requires single sign-on."""
    return bool(await connection.scalar(sa.select(organizations.c.sso_enforced).where(organizations.c.id == org_id)))


async def blocks_user_tokens(connection: AsyncConnection, org_id: str) -> bool:
    """Whether access tokens of users do not work, because the organization requires single sign-on for these too."""
    statement = sa.select(organizations.c.user_tokens_blocked).where(organizations.c.id == org_id)
    return bool(await connection.scalar(statement))


async def find_break_glass(connection: AsyncConnection, org_id: str, *, besides: str = "") -> str | None:
    """The owner who may log in with a password, other than `besides`. None if no such owner has a password."""
    chosen = sa.select(organizations.c.break_glass_id).where(organizations.c.id == org_id).scalar_subquery()
    statement = (
        sa.select(memberships.c.principal_id)
        .join(principals, principals.c.id == memberships.c.principal_id)
        .join(users, users.c.principal_id == memberships.c.principal_id)
        .where(
            memberships.c.org_id == org_id,
            memberships.c.role == Role.OWNER.value,
            memberships.c.principal_id != besides,
            principals.c.disabled_at.is_(None),
            users.c.password_hash.is_not(None),
        )
        .order_by(
            sa.case((memberships.c.principal_id == chosen, 0), else_=1),
            memberships.c.created_at,
            memberships.c.principal_id,
        )
        .limit(1)
    )
    owner: str | None = await connection.scalar(statement)
    return owner


async def check_password_login(connection: AsyncConnection, org_id: str, user_id: str) -> bool:
    """Whether this login with a password is the exception that enforcement permits. Raises Forbidden for any other
    login with a password while single sign-on is enforced.
    """
    if not await requires_sso(connection, org_id):
        return False
    if await find_break_glass(connection, org_id) != user_id:
        raise Forbidden(SSO_REQUIRED)
    return True


async def may_continue(connection: AsyncConnection, session: Session) -> bool:
    """Whether a session may continue: a single sign-on session, or a session that enforcement permits. Another owner
    may have become the exception since the session began.
    """
    if FEDERATED in session.methods or not await requires_sso(connection, session.org_id):
        return True
    return await find_break_glass(connection, session.org_id) == session.principal_id
