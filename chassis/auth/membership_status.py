"""The current membership status of principals in an organization, and the scopes that a credential of theirs has.

The holder, the principals that act before it, the one on whose behalf they act, and the owners of all of these: each
must be a member of the organization and not disabled, and no scope exceeds the role of any of them. So an agent never
does what its owner may not do, and stops working with its owner.
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
    """`role` is None for a principal that is not a member."""

    kind: PrincipalKind
    owner_id: str | None
    is_disabled: bool
    role: Role | None


async def load_membership_statuses(
    connection: AsyncConnection, org_id: str, ids: Iterable[str]
) -> dict[str, MembershipStatus]:
    """The statuses of these principals, their owners, the owners of those and so on."""
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
    """These ids with those of their owners, the owners of those and so on; `found` holds all of them."""
    all_ids, new_ids = set(ids), set(ids)
    while new_ids:
        new_ids = {owner for principal_id in new_ids if (owner := found[principal_id].owner_id) is not None} - all_ids
        all_ids |= new_ids
    return frozenset(all_ids)


def owning_user(principal_id: str, found: Mapping[str, MembershipStatus]) -> str:
    """The user at the end of the chain of owners in `found`; may be the principal itself."""
    while (owner := found[principal_id].owner_id) is not None:
        principal_id = owner
    return principal_id


def owned_principals(owner_id: str) -> sa.Select[tuple[str]]:
    """The ids of the principal, of all that it owns in any organization, and of all that those own."""
    owned = sa.select(principals.c.id).where(principals.c.id == owner_id).cte("estate", recursive=True)
    return sa.select(owned.union(sa.select(principals.c.id).join(owned, principals.c.owner_id == owned.c.id)).c.id)


def any_disabled(found: Mapping[str, MembershipStatus]) -> bool:
    """Whether a principal is disabled, so that nothing that depends on all of them works."""
    return any(status.is_disabled for status in found.values())


def common_scopes(found: Mapping[str, MembershipStatus], granted: frozenset[Scope] | None) -> frozenset[Scope] | None:
    """The granted scopes (None: all) that all their roles have. None when one of them is not a member."""
    role_scopes = [None if status.role is None else ROLE_SCOPES[status.role] for status in found.values()]
    if not role_scopes or None in role_scopes:
        return None
    initial = frozenset(Scope) if granted is None else granted
    return reduce(frozenset.intersection, (scopes for scopes in role_scopes if scopes is not None), initial)
