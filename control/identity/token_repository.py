"""Personal access tokens: who may issue which tokens for whom, and on whose behalf they act.

A principal issues tokens for itself, and for agents and services that it owns. A token never has more scopes or a later
expiry than the token that it was issued with, and is revoked together with it. A token that a user issues for its agent
acts on the user's behalf (RFC 8693): everything the agent does with it records this, and so do the tokens that the
agent issues with it. A token for a service acts for the service alone, unless its issuer already acts on behalf of
somebody.

Every function runs in the caller's transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, delegations
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, Forbidden
from control.identity import organization_repository
from control.identity.member_repository import StoredMember
from control.identity.organization_repository import IssuedToken
from control.identity.token_revocation import issuing_token
from proto.identity import MAX_ACT_CHAIN, PrincipalKind, Scope

MAX_TOKENS: Final = 100  # valid ones, of one principal in one organization


class Delegation(NamedTuple):
    """On whose behalf a token acts, and its actors: the holder first, the direct actor for the subject last."""

    subject_id: str
    chain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token without its secret; `hint` is the secret's end. `scopes` None: all scopes of the holder's role."""

    id: str
    principal_id: str
    name: str
    hint: str
    scopes: tuple[str, ...] | None
    subject_id: str | None
    chain: tuple[str, ...]
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


_TOKENS: Final = sa.select(
    *(access_tokens.c[name] for name in StoredToken.__slots__ if name not in ("subject_id", "chain")),
    delegations.c.subject_id,
    delegations.c.chain,
).outerjoin_from(access_tokens, delegations, delegations.c.token_id == access_tokens.c.id)


async def issue_token(
    connection: AsyncConnection,
    by: AuthorizationContext,
    holder: StoredMember,
    name: str,
    scopes: Iterable[Scope] | None,
    expires_at: datetime | None,
) -> IssuedToken:
    """A token for `holder`. Raises Forbidden for the tokens of another principal and for scopes that `by` lacks;
    Conflict beyond MAX_TOKENS, and for an actor chain longer than MAX_ACT_CHAIN.
    """
    require_can_issue(by, holder)
    delegation = delegation_for(by, holder)
    own = await issuing_token(connection, by)
    granted = _granted_scopes(by, scopes, unrestricted=own is None or own.scopes is None)
    if own is not None and own.expires_at is not None:
        expires_at = own.expires_at if expires_at is None else min(expires_at, own.expires_at)
    await _check_token_limit(connection, by.org_id, holder.id)
    token = await organization_repository.create_token(
        connection,
        by.org_id,
        holder.id,
        name,
        scopes=granted,
        expires_at=expires_at,
        minted_with=None if own is None else own.id,
    )
    if delegation is not None:
        row = {"token_id": token.id, "org_id": by.org_id, "created_at": _now()}
        row |= {"subject_id": delegation.subject_id, "chain": list(delegation.chain)}
        await connection.execute(delegations.insert().values(row))
    return token


def require_can_issue(by: AuthorizationContext, holder: StoredMember) -> None:
    """Raises Forbidden unless the holder is `by` or is owned by it."""
    if by.principal_id not in (holder.id, holder.owner_id):
        raise Forbidden("You can create tokens only for yourself and for agents and services that you own.")


def delegation_for(by: AuthorizationContext, holder: StoredMember) -> Delegation | None:
    """The delegation of a token that `by` issues for `holder`, or None. Raises Conflict beyond MAX_ACT_CHAIN."""
    if by.on_behalf_of is not None:
        chain = by.act_chain if holder.id == by.principal_id else (holder.id, *by.act_chain)
        if len(chain) > MAX_ACT_CHAIN:
            raise Conflict(f"A delegation chain can have at most {MAX_ACT_CHAIN} principals.")
        return Delegation(by.on_behalf_of, chain)
    if holder.kind is PrincipalKind.AGENT and holder.id != by.principal_id:
        return Delegation(by.principal_id, (holder.id,))
    return None


async def list_tokens(
    connection: AsyncConnection, org_id: str, principal_id: str, before_id: str | None, limit: int
) -> list[StoredToken]:
    """At most `limit` tokens of the principal including revoked and expired ones, newest first."""
    page = _TOKENS.where(access_tokens.c.org_id == org_id, access_tokens.c.principal_id == principal_id)
    if before_id is not None:
        page = page.where(access_tokens.c.id < before_id)
    rows = await connection.execute(page.order_by(access_tokens.c.id.desc()).limit(limit))
    return [_token(row) for row in rows.mappings()]


async def find_token(connection: AsyncConnection, org_id: str, principal_id: str, token_id: str) -> StoredToken | None:
    """The principal's token with this id."""
    of_principal = (access_tokens.c.org_id == org_id) & (access_tokens.c.principal_id == principal_id)
    row = (
        (await connection.execute(_TOKENS.where(of_principal, access_tokens.c.id == token_id))).mappings().one_or_none()
    )
    return None if row is None else _token(row)


def _granted_scopes(
    by: AuthorizationContext, scopes: Iterable[Scope] | None, *, unrestricted: bool
) -> frozenset[Scope] | None:
    if scopes is None:
        return None if unrestricted else by.scopes
    requested = frozenset(scopes)
    missing = sorted(requested - by.scopes)
    if missing:
        raise Forbidden(f"A token cannot have scopes that your credential lacks: {', '.join(missing)}.")
    return requested


async def _check_token_limit(connection: AsyncConnection, org_id: str, principal_id: str) -> None:
    now = _now()
    valid = access_tokens.c.revoked_at.is_(None) & (
        access_tokens.c.expires_at.is_(None) | (access_tokens.c.expires_at > now)
    )
    of_principal = (access_tokens.c.org_id == org_id) & (access_tokens.c.principal_id == principal_id)
    if (await connection.scalar(sa.select(sa.func.count()).where(of_principal, valid)) or 0) >= MAX_TOKENS:
        raise Conflict(f"A principal can have at most {MAX_TOKENS} valid tokens. Revoke some first.")


def _token(row: sa.RowMapping) -> StoredToken:
    found = {name: row[name] for name in StoredToken.__slots__}
    found["scopes"] = None if row["scopes"] is None else tuple(row["scopes"])
    return StoredToken(**found | {"chain": tuple(row["chain"] or ())})


def _now() -> datetime:
    return to_milliseconds(datetime.now(UTC))
