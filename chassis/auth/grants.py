"""Load credentials from the database with their current scopes.

The guard loads a credential for requests (`chassis.auth.credential_guards`) and caches it for some seconds. Code that
writes on behalf of a credential loads the credential again inside its transaction (`reload_authorization`,
`reload_session_credential`): a body may take long to arrive, and a credential that was revoked meanwhile, in this or
another process, must not be accepted.

A credential depends on its holder, on the principals that act before the holder in a chain of actors, on the principal
on whose behalf they act, and on the owners of all of these. Each of these principals must be a member of the
organization and not disabled (`MembershipStatus`), and the credential has only scopes that the roles of all of them
have. So an agent can never do what its owner may not do, and an agent stops working when its owner is disabled.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.auth.tables import (
    access_tokens,
    delegations,
    memberships,
    organizations,
    principals,
    projects,
    sessions,
    users,
)
from chassis.errors import Forbidden, MfaRequired, NotFound, Unauthorized
from proto.identity import ROLE_SCOPES, PrincipalKind, Role, Scope

_REQUESTED: Final = sa.select(principals.c.id).where(principals.c.id.in_(sa.bindparam("ids", expanding=True)))
_OWNER_CHAIN: Final = _REQUESTED.cte("lineage", recursive=True)
_WITH_OWNERS: Final = _OWNER_CHAIN.union(
    sa.select(principals.c.owner_id)
    .join(_OWNER_CHAIN, principals.c.id == _OWNER_CHAIN.c.id)
    .where(principals.c.owner_id.is_not(None))
)
_STATUSES: Final = (
    sa.select(principals.c.id, principals.c.kind, principals.c.owner_id, principals.c.disabled_at, memberships.c.role)
    .join_from(_WITH_OWNERS, principals, principals.c.id == _WITH_OWNERS.c.id)
    .outerjoin(
        memberships,
        (memberships.c.principal_id == principals.c.id) & (memberships.c.org_id == sa.bindparam("org_id")),
    )
)


class MembershipStatus(NamedTuple):
    """`role` is None for a principal that is not a member."""

    kind: PrincipalKind
    owner_id: str | None
    is_disabled: bool
    role: Role | None


async def load_membership_statuses(
    connection: AsyncConnection, org_id: str, ids: Iterable[str]
) -> dict[str, MembershipStatus]:
    """The statuses of these principals and of all owners in their chains of owners."""
    rows = await connection.execute(_STATUSES, {"ids": sorted(set(ids)), "org_id": org_id})
    return {
        row.id: MembershipStatus(
            PrincipalKind(row.kind),
            row.owner_id,
            row.disabled_at is not None,
            None if row.role is None else Role(row.role),
        )
        for row in rows
    }


def with_owner_chain(ids: Iterable[str], memberships: Mapping[str, MembershipStatus]) -> frozenset[str]:
    """These ids and the ids of all owners in their chains of owners. `memberships` contains all of these principals."""
    all_ids, new_ids = set(ids), set(ids)
    while new_ids:
        new_ids = {
            owner for principal_id in new_ids if (owner := memberships[principal_id].owner_id) is not None
        } - all_ids
        all_ids |= new_ids
    return frozenset(all_ids)


def owning_user(principal_id: str, memberships: Mapping[str, MembershipStatus]) -> str:
    """The user at the end of the chain of owners in `memberships`. The principal itself may be this user."""
    while (owner := memberships[principal_id].owner_id) is not None:
        principal_id = owner
    return principal_id


def owned_principals(owner_id: str) -> sa.Select[tuple[str]]:
    """The ids of the principal, of all principals that it owns in any organization, and of all that these own."""
    owned = sa.select(principals.c.id).where(principals.c.id == owner_id).cte("estate", recursive=True)
    return sa.select(owned.union(sa.select(principals.c.id).join(owned, principals.c.owner_id == owned.c.id)).c.id)


def any_disabled(memberships: Mapping[str, MembershipStatus]) -> bool:
    """Whether one of the principals is disabled, so that a credential that depends on all of them does not work."""
    return any(status.is_disabled for status in memberships.values())


def common_scopes(
    memberships: Mapping[str, MembershipStatus], granted: frozenset[Scope] | None
) -> frozenset[Scope] | None:
    """The granted scopes (None: all) that the roles of all principals have. None if a principal is not a member."""
    role_scopes = [None if status.role is None else ROLE_SCOPES[status.role] for status in memberships.values()]
    if not role_scopes or None in role_scopes:
        return None
    initial = frozenset(Scope) if granted is None else granted
    return reduce(frozenset.intersection, (scopes for scopes in role_scopes if scopes is not None), initial)


INVALID_TOKEN: Final = "The access token is invalid, expired or revoked."  # noqa: S105 (a message)
FEDERATED: Final = "fed"  # amr value of Sluice: the user logged in through an identity provider
# amr values: otp and mfa of RFC 8176 (mfa: an identity provider that the organization trusts has verified several
# factors), and rc, a value of Sluice for a recovery code.
SECOND_FACTORS: Final = frozenset({"otp", "mfa", "rc"})

_TOKENS: Final = (
    sa.select(
        access_tokens.c.id,
        access_tokens.c.principal_id,
        access_tokens.c.org_id,
        organizations.c.slug.label("org_slug"),
        access_tokens.c.scopes,
        access_tokens.c.expires_at,
        access_tokens.c.last_used_at,
        organizations.c.user_tokens_blocked,
        delegations.c.subject_id,
        delegations.c.chain,
    )
    .join_from(access_tokens, organizations, organizations.c.id == access_tokens.c.org_id)
    .outerjoin(delegations, delegations.c.token_id == access_tokens.c.id)
    .where(access_tokens.c.revoked_at.is_(None), organizations.c.deleted_at.is_(None))
)
_BY_HASH: Final = _TOKENS.where(access_tokens.c.hash == sa.bindparam("hash"))
_BY_ID: Final = _TOKENS.where(access_tokens.c.id == sa.bindparam("id"))
_SESSION: Final = (
    sa.select(
        sessions.c.id,
        sessions.c.principal_id,
        sessions.c.org_id,
        organizations.c.slug.label("org_slug"),
        sessions.c.expires_at,
        sessions.c.methods,
        users.c.totp_confirmed_at,
    )
    .join_from(sessions, organizations, organizations.c.id == sessions.c.org_id)
    .join(users, users.c.principal_id == sessions.c.principal_id)
    .where(sessions.c.id == sa.bindparam("id"), sessions.c.revoked_at.is_(None), organizations.c.deleted_at.is_(None))
)
_LIVE_PROJECT: Final = sa.select(projects.c.id).where(
    projects.c.id == sa.bindparam("id"), projects.c.deleted_at.is_(None)
)


async def load_token_credential(
    connection: AsyncConnection, digest: bytes
) -> tuple[AuthenticatedCredential, datetime | None] | None:
    """The credential of the token with this hash, and the time of its last use. None if no usable token has the
    hash.
    """
    row = (await connection.execute(_BY_HASH, {"hash": digest})).one_or_none()
    found = None if row is None else await _build_token_credential(connection, row)
    return None if row is None or found is None else (found, row.last_used_at)


async def load_session_credential(connection: AsyncConnection, session_id: str) -> AuthenticatedCredential | None:
    """The credential of the session with this id. None if the session is revoked or unknown, or if a principal that
    it depends on is disabled.
    """
    row = (await connection.execute(_SESSION, {"id": session_id})).one_or_none()
    if row is None:
        return None
    mfa_pending = row.totp_confirmed_at is not None and SECOND_FACTORS.isdisjoint(row.methods)
    found = await _build_credential(connection, row)
    if found is None:
        return None
    return replace(found, is_session=True, mfa_pending=mfa_pending, is_federated=FEDERATED in row.methods)


async def reload_credential(connection: AsyncConnection, credential_id: str, now: datetime) -> AuthenticatedCredential:
    """The credential of the token or session with this id. Raises Unauthorized, MfaRequired."""
    row = (await connection.execute(_BY_ID, {"id": credential_id})).one_or_none()
    if row is None:
        found = await load_session_credential(connection, credential_id)
    else:
        found = await _build_token_credential(connection, row)
    if found is None or (found.expires_at is not None and found.expires_at <= now):
        raise Unauthorized(INVALID_TOKEN)
    if found.mfa_pending:
        raise MfaRequired
    return found


async def reload_session_credential(
    connection: AsyncConnection, session_id: str, now: datetime, *, allow_pending_mfa: bool
) -> AuthenticatedCredential:
    """The credential of the session with this id. `allow_pending_mfa` also accepts a session whose second factor is
    pending. Raises Unauthorized, MfaRequired.
    """
    found = await load_session_credential(connection, session_id)
    if found is None or (found.expires_at is not None and found.expires_at <= now):
        raise Unauthorized(INVALID_TOKEN)
    if found.mfa_pending and not allow_pending_mfa:
        raise MfaRequired
    return found


async def reload_authorization(
    connection: AsyncConnection, earlier: AuthorizationContext, wanted: Collection[str], now: datetime
) -> AuthorizationContext:
    """The current authorization of a bearer whose `earlier` authorization is known. One of the scopes `wanted` is
    required. Raises Unauthorized, MfaRequired, NotFound, Forbidden.
    """
    credential = await reload_credential(connection, earlier.token_id, now)
    if credential.role is None or not await _is_live(connection, earlier.project_id):
        raise NotFound
    require_scope(credential.scopes, wanted)
    return replace(
        earlier, role=credential.role, scopes=credential.scopes, kind=credential.kind, owner_id=credential.owner_id
    )


async def _is_live(connection: AsyncConnection, project_id: int | None) -> bool:
    """Whether the project of the path exists. True for a path without a project."""
    return project_id is None or await connection.scalar(_LIVE_PROJECT, {"id": project_id}) is not None


def require_scope(held: frozenset[Scope], wanted: Collection[str]) -> None:
    """Raises Forbidden unless `held` contains one of the scopes `wanted`."""
    if held.isdisjoint(wanted):
        raise Forbidden(f"The access token or its holder's role lacks the scope {' or '.join(sorted(wanted))}.")


async def _build_token_credential(
    connection: AsyncConnection, row: sa.Row[*tuple[Any, ...]]
) -> AuthenticatedCredential | None:
    credential = await _build_credential(connection, row, row.scopes, row.subject_id, row.chain)
    if credential is not None and credential.kind is PrincipalKind.USER and row.user_tokens_blocked:
        return None  # the organization requires single sign-on, so tokens of users do not work
    return credential


async def _build_credential(
    connection: AsyncConnection,
    row: sa.Row[*tuple[Any, ...]],
    scopes: list[str] | None = None,
    subject_id: str | None = None,
    chain: list[str] | None = None,
) -> AuthenticatedCredential | None:
    """The credential of a token's or session's row, with the statuses of all principals that the credential depends on.
    None if one of these principals is disabled.
    """
    involved = {row.principal_id, *(chain or ()), *([] if subject_id is None else [subject_id])}
    found = await load_membership_statuses(connection, row.org_id, involved)
    if any_disabled(found):
        return None
    granted = None if scopes is None else frozenset(Scope(name) for name in scopes if name in set(Scope))
    common = common_scopes(found, granted)
    holder = found[row.principal_id]
    return AuthenticatedCredential(
        token_id=row.id,
        principal_id=row.principal_id,
        org_id=row.org_id,
        org_slug=row.org_slug,
        role=None if common is None else holder.role,
        scopes=common or frozenset(),
        expires_at=row.expires_at,
        kind=holder.kind,
        owner_id=holder.owner_id,
        on_behalf_of=subject_id,
        act_chain=tuple(chain or ()),
        owning_user_id=None if holder.owner_id is None else owning_user(row.principal_id, found),
    )
