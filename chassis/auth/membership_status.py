"""How principals stand in an organization right now, and what a credential of theirs reaches.

Whoever holds it, those who act before him, the one for whom they act, and the owners of all of these: each must be in
the organization and not be disabled, and nothing reaches further than the role of any of them. So an agent never does
what its owner may not, and stops with him.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships, principals
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
    """`role` is None for who is no member."""

    kind: PrincipalKind
    owner_id: str | None
    is_disabled: bool
    role: Role | None


async def load_membership_statuses(
    connection: AsyncConnection, org_id: str, ids: Iterable[str]
) -> dict[str, MembershipStatus]:
    """Those with these ids, and their owners, and the owners of these."""
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


def with_owner_chain(ids: Iterable[str], found: Mapping[str, MembershipStatus]) -> frozenset[str]:
    """These, their owners, the owners of those and so on, as `found` has them."""
    every, fresh = set(ids), set(ids)
    while fresh:
        fresh = {owner for one in fresh if (owner := found[one].owner_id) is not None} - every
        every |= fresh
    return frozenset(every)


def owning_user(principal_id: str, found: Mapping[str, MembershipStatus]) -> str:
    """Who is at the end of the row of its owners, as `found` has them: a user, who may be the principal itself."""
    while (owner := found[principal_id].owner_id) is not None:
        principal_id = owner
    return principal_id


def owned_principals(owner_id: str) -> sa.Select[tuple[str]]:
    """Its id, and of all that it owns, in whatever organization, and what that owns."""
    own = sa.select(principals.c.id).where(principals.c.id == owner_id).cte("estate", recursive=True)
    return sa.select(own.union(sa.select(principals.c.id).join(own, principals.c.owner_id == own.c.id)).c.id)


def any_disabled(found: Mapping[str, MembershipStatus]) -> bool:
    """Whether what depends on all of them works no more."""
    return any(standing.is_disabled for standing in found.values())


def common_scopes(found: Mapping[str, MembershipStatus], granted: frozenset[Scope] | None) -> frozenset[Scope] | None:
    """What all their roles have, of what was granted (None: everything). None when one of them is no member."""
    held = [None if standing.role is None else ROLE_SCOPES[standing.role] for standing in found.values()]
    if not held or None in held:
        return None
    every = frozenset(Scope) if granted is None else granted
    return reduce(frozenset.intersection, (scopes for scopes in held if scopes is not None), every)
