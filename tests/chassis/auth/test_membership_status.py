"""What acts for somebody reaches as far as everyone it depends on, whoever owns whom and whatever changes."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.auth.credential_guards import BearerGuard
from chassis.auth.tables import delegations
from chassis.db.database import Database
from chassis.errors import ApiError
from control.identity.organizations import organization_store
from proto.identity import ROLE_SCOPES, PrincipalKind, Role, Scope
from tests.chassis.auth.tenants import Tenant
from tests.selection import scaled


@dataclass(frozen=True)
class Someone:
    """A principal as it is made: `owner` is a place in the list of those made before (None: a user)."""

    owner: int | None
    role: Role | None
    disabled: bool


roles = st.sampled_from([None, *Role, Role.ADMIN, Role.OWNER, Role.OWNER, Role.OWNER])


@st.composite
def populations(draw: st.DrawFn) -> list[Someone]:
    found: list[Someone] = []
    for place in range(draw(st.integers(1, 6))):
        owner = draw(st.none() | st.integers(0, place - 1)) if place else None
        found.append(Someone(owner, draw(roles), draw(st.integers(0, 7)) == 0))
    return found


def lineage(people: list[Someone], place: int) -> set[int]:
    """Who it is, and the owners."""
    owner = people[place].owner
    return {place} | (set() if owner is None else lineage(people, owner))


@pytest.mark.sized
@settings(max_examples=scaled(25, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    people=populations(),
    granted=st.none() | st.frozensets(st.sampled_from(Scope)),
    data=st.data(),
)
def test_a_token_reaches_as_far_as_everyone_it_depends_on(
    people: list[Someone],
    granted: frozenset[Scope] | None,
    data: st.DataObject,
    runner: asyncio.Runner,
    running_bearer: BearerGuard,
    tenants: tuple[Tenant, Tenant],
) -> None:
    places = st.integers(0, len(people) - 1)
    holder = data.draw(places)
    subject = data.draw(st.none() | places)
    chain = [holder, *data.draw(st.lists(places, max_size=3))] if subject is not None else []
    involved = set().union(
        *(lineage(people, place) for place in {holder, *chain, *([] if subject is None else [subject])})
    )
    scope = data.draw(st.sampled_from(Scope))

    async def status() -> int:
        database, org_id = running_bearer._database, tenants[0].organization.id
        ids, secret = await populate(database, org_id, people, holder, granted)
        if subject is not None:
            async with database.write() as connection:
                row: dict[str, object] = {"token_id": secret[0], "org_id": org_id, "subject_id": ids[subject]}
                row |= {"chain": [ids[place] for place in chain], "created_at": tenants[0].organization.created_at}
                await connection.execute(delegations.insert().values(row))
        try:
            grant = await running_bearer.authenticate(f"Bearer {secret[1]}")
            reach = await running_bearer.authorize(grant, "acme", None, [scope])
        except ApiError as error:
            return error.status
        assert reach.principal_id == ids[holder]
        assert reach.on_behalf_of == (None if subject is None else ids[subject])
        assert reach.act_chain == tuple(ids[place] for place in chain)
        return 200

    assert runner.run(status()) == expected([people[place] for place in involved], granted, scope)


def expected(involved: list[Someone], granted: frozenset[Scope] | None, scope: Scope) -> int:
    if any(one.disabled for one in involved):
        return 401
    if any(one.role is None for one in involved):
        return 404
    reach = frozenset(Scope) if granted is None else granted
    for one in involved:
        if one.role is not None:
            reach &= ROLE_SCOPES[one.role]
    return 200 if scope in reach else 403


async def populate(
    database: Database, org_id: str, people: list[Someone], holder: int, granted: frozenset[Scope] | None
) -> tuple[list[str], tuple[str, str]]:
    """Ids of the people, and id and secret of a token of the holder."""
    ids: list[str] = []
    async with database.write() as connection:
        for one in people:
            kind = PrincipalKind.USER if one.owner is None else PrincipalKind.AGENT
            owner = None if one.owner is None else ids[one.owner]
            made = await organization_store.create_principal(connection, kind, "x", owner)
            ids.append(made.id)
            if one.role is not None:
                await organization_store.add_membership(connection, org_id, made.id, one.role)
            if one.disabled:
                await organization_store.disable_principal(connection, made.id)
        token = await organization_store.create_token(connection, org_id, ids[holder], "x", scopes=granted)
    return ids, (token.id, token.secret)
