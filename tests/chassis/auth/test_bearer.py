"""The bearer check: its order, its pinning, and how soon a change counts."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from chassis.auth.credential_guards import BearerGuard
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, new_token
from chassis.db.database import Database, to_milliseconds
from chassis.errors import ApiError, Forbidden, NotFound, ServiceUnavailable, Unauthorized
from control.identity.organizations import organization_store
from proto.identity import ROLE_SCOPES, PrincipalKind, Role, Scope
from tests.chassis.auth.tenants import Clock, Tenant, new_member_token
from tests.selection import scaled


async def check(
    guard: BearerGuard, authorization: str | None, org: str, project: str | None, scope: str
) -> AuthorizationContext:
    """Both steps, as a request takes them."""
    return await guard.authorize(await guard.authenticate(authorization), org, project, [scope])


async def outcome(
    guard: BearerGuard, token: str, org: str = "acme", project: str | None = None, scope: str = "projects:read"
) -> int:
    """The HTTP status of a check; 200 for a pass."""
    try:
        await check(guard, f"Bearer {token}", org, project, scope)
    except ApiError as error:
        return error.status
    return 200


async def test_a_token_reaches_what_its_holders_role_has(bearer: BearerGuard, acme: Tenant) -> None:
    reach = await check(bearer, f"Bearer {acme.token.secret}", "acme", "web", "keys:write")
    assert (reach.org_id, reach.org_slug) == (acme.organization.id, "acme")
    assert (reach.project_id, reach.project_slug) == (acme.project.id, "web")
    assert (reach.principal_id, reach.token_id, reach.role) == (acme.owner_id, acme.token.id, Role.OWNER)
    assert reach.scopes == ROLE_SCOPES[Role.OWNER]
    assert (await check(bearer, f"bearer  {acme.token.secret} ", "acme", None, "keys:write")).project_id is None


NO_TOKENS = [
    *(None, "", "Bearer", "Bearer ", "TOKEN", "Basic TOKEN", "DSN TOKEN", "Bearer TOKENx", "Bearer TOKEN TOKEN"),
    *("Bearer scim_" + "0" * 49, "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "Bearer \udcff", "Bearer OTHER"),
    "Bearer pat_" + "0" * 49,
]


async def test_anything_but_a_valid_token_is_401(bearer: BearerGuard, acme: Tenant) -> None:
    for text in NO_TOKENS:
        authorization = text and text.replace("TOKEN", acme.token.secret).replace("OTHER", new_token())
        for org, project, scope in (("acme", "web", "projects:read"), ("nowhere", "nothing", "nonsense")):
            with pytest.raises(Unauthorized) as caught:
                raise AssertionError((text, await check(bearer, authorization, org, project, scope)))
            assert caught.value.headers["WWW-Authenticate"] == "Bearer"


async def test_the_order_is_401_then_404_then_403(
    bearer: BearerGuard, acme: Tenant, globex: Tenant, database: Database
) -> None:
    _, viewer = await new_member_token(database, acme, Role.VIEWER)
    assert await outcome(bearer, new_token(), "nowhere", "nothing", "keys:write") == 401
    assert await outcome(bearer, viewer, "globex", "web", "keys:write") == 404
    assert await outcome(bearer, viewer, "acme", "nothing", "keys:write") == 404
    assert await outcome(bearer, viewer, "acme", "web", "keys:write") == 403
    assert await outcome(bearer, viewer, "acme", "web", "projects:read") == 200


async def test_a_token_is_pinned_to_its_organization_even_when_its_holder_is_in_two(
    bearer: BearerGuard, acme: Tenant, globex: Tenant, database: Database
) -> None:
    async with database.write() as connection:
        await organization_store.add_membership(connection, globex.organization.id, acme.owner_id, Role.OWNER)
        second = await organization_store.create_token(connection, globex.organization.id, acme.owner_id, "globex")
    assert await outcome(bearer, acme.token.secret, "globex") == 404
    assert await outcome(bearer, second.secret, "globex") == 200
    assert await outcome(bearer, second.secret, "acme") == 404


@pytest.mark.sized
@settings(max_examples=scaled(25, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(org=st.text(max_size=80), project=st.none() | st.text(max_size=80))
def test_foreign_and_missing_are_the_same_refusal(
    org: str, project: str | None, runner: asyncio.Runner, running_bearer: BearerGuard, tenants: tuple[Tenant, Tenant]
) -> None:
    acme, _ = tenants

    async def refusal(org_slug: str, project_slug: str | None) -> tuple[object, ...]:
        with pytest.raises(NotFound) as caught:
            await check(running_bearer, f"Bearer {acme.token.secret}", org_slug, project_slug, "projects:read")
        return caught.value.status, caught.value.message, caught.value.details, caught.value.headers, caught.value.close

    async def compare() -> None:
        foreign = await refusal("globex", "web")
        assert await refusal("org-" + org, project) == foreign
        assert await refusal("globex", project) == foreign
        assert await refusal("acme", "x-" + (project or "")) == foreign

    runner.run(compare())


async def test_scopes_are_intersected_with_the_live_role_at_every_request(
    bearer: BearerGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    principal, token = await new_member_token(
        database, acme, Role.ADMIN, frozenset({Scope.KEYS_WRITE, Scope.PROJECTS_READ})
    )
    assert await outcome(bearer, token, scope="keys:write") == 200
    assert await outcome(bearer, token, scope="members:read") == 403
    async with database.write() as connection:
        await organization_store.set_role(connection, acme.organization.id, principal, Role.VIEWER)
    clock.seconds += 5.0
    assert await outcome(bearer, token, scope="keys:write") == 403
    assert await outcome(bearer, token, scope="projects:read") == 200
    async with database.write() as connection:
        await organization_store.set_role(connection, acme.organization.id, principal, Role.ADMIN)
    clock.seconds += 5.0
    assert await outcome(bearer, token, scope="keys:write") == 200


async def test_a_holder_who_left_does_not_see_the_organization(
    bearer: BearerGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    principal, token = await new_member_token(database, acme, Role.MEMBER)
    assert await outcome(bearer, token) == 200
    async with database.write() as connection:
        assert await organization_store.remove_membership(connection, acme.organization.id, principal)
        assert not await organization_store.remove_membership(connection, acme.organization.id, principal)
    clock.seconds += 5.0
    assert await outcome(bearer, token) == 404


@pytest.mark.parametrize("how", ["revoked", "disabled"])
@pytest.mark.both_stores
async def test_an_ended_token_counts_within_five_seconds_and_here_at_once(
    bearer: BearerGuard, acme: Tenant, database: Database, clock: Clock, how: str
) -> None:
    principal, token = await new_member_token(database, acme, Role.MEMBER)
    assert await outcome(bearer, token) == 200
    async with database.write() as connection:
        if how == "revoked":
            token_id = await connection.scalar(
                select(access_tokens.c.id).where(access_tokens.c.principal_id == principal)
            )
            assert await organization_store.revoke_token(connection, acme.organization.id, str(token_id))
        else:
            await organization_store.disable_principal(connection, principal)
    clock.seconds += 4.9
    assert await outcome(bearer, token) == 200
    clock.seconds += 0.1
    assert await outcome(bearer, token) == 401


async def test_a_change_made_in_this_process_counts_at_once(
    bearer: BearerGuard, acme: Tenant, database: Database
) -> None:
    assert await outcome(bearer, acme.token.secret) == 200
    async with database.write() as connection:
        await organization_store.revoke_token(connection, acme.organization.id, acme.token.id)
    bearer.invalidate(acme.organization.id)
    assert await outcome(bearer, acme.token.secret) == 401


async def test_a_change_in_one_organization_costs_others_nothing(
    bearer: BearerGuard, acme: Tenant, globex: Tenant, database: Database
) -> None:
    assert await outcome(bearer, acme.token.secret, project="web") == 200
    bearer.invalidate(globex.organization.id)
    await database.close()
    assert await outcome(bearer, acme.token.secret, project="web") == 200, "it is remembered still"
    bearer.invalidate(acme.organization.id)
    assert await outcome(bearer, acme.token.secret, project="web") == 503


async def test_expiry_counts_to_the_moment_also_from_memory(
    bearer: BearerGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    async with database.write() as connection:
        expires = to_milliseconds(clock.now()) + timedelta(seconds=2)
        token = await organization_store.create_token(
            connection, acme.organization.id, acme.owner_id, "brief", expires_at=expires
        )
    assert await outcome(bearer, token.secret) == 200
    clock.seconds += 1.5
    assert await outcome(bearer, token.secret) == 200
    clock.seconds += 0.5
    assert await outcome(bearer, token.secret) == 401


async def test_a_token_without_scopes_of_its_own_or_with_none_at_all(
    bearer: BearerGuard, acme: Tenant, database: Database
) -> None:
    _, everything = await new_member_token(database, acme, Role.BILLING)
    _, nothing = await new_member_token(database, acme, Role.OWNER, frozenset())
    assert await outcome(bearer, everything, scope="projects:read") == 200
    assert await outcome(bearer, everything, scope="explore:read") == 403
    assert await outcome(bearer, nothing, scope="projects:read") == 403


async def test_an_agent_holds_tokens_like_anyone(bearer: BearerGuard, acme: Tenant, database: Database) -> None:
    async with database.write() as connection:
        agent = await organization_store.create_principal(connection, PrincipalKind.AGENT, "bot", acme.owner_id)
        await organization_store.add_membership(connection, acme.organization.id, agent.id, Role.MEMBER)
        token = await organization_store.create_token(connection, acme.organization.id, agent.id, "bot")
    assert (await check(bearer, f"Bearer {token.secret}", "acme", None, "projects:read")).principal_id == agent.id


async def test_what_is_remembered_outlives_the_database_for_five_seconds(
    bearer: BearerGuard, acme: Tenant, globex: Tenant, database: Database, clock: Clock
) -> None:
    assert await outcome(bearer, acme.token.secret, project="web") == 200
    await database.close()
    assert await outcome(bearer, acme.token.secret, project="web") == 200
    assert await outcome(bearer, acme.token.secret, project="other") == 503
    assert await outcome(bearer, globex.token.secret, "globex") == 503
    clock.seconds += 5.0
    with pytest.raises(ServiceUnavailable):
        await check(bearer, f"Bearer {acme.token.secret}", "acme", "web", "projects:read")


async def last_use(database: Database, token_id: str) -> datetime | None:
    async with database.read() as connection:
        found: datetime | None = await connection.scalar(
            select(access_tokens.c.last_used_at).where(access_tokens.c.id == token_id)
        )
        return found


@pytest.mark.both_stores
async def test_the_last_use_is_written_once_a_minute(
    bearer: BearerGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    assert await last_use(database, acme.token.id) is None
    used = []
    for _ in range(4):
        await outcome(bearer, acme.token.secret)
        await asyncio.gather(*bearer._writes)
        used.append(await last_use(database, acme.token.id))
        clock.seconds += 25.0
    started = to_milliseconds(clock.started.astimezone(UTC))
    assert used == [started, started, started, started + timedelta(seconds=75)]


async def test_a_new_project_is_seen_once_the_guard_is_told(
    bearer: BearerGuard, acme: Tenant, database: Database
) -> None:
    assert await outcome(bearer, acme.token.secret, project="api") == 404
    async with database.write() as connection:
        await organization_store.create_project(connection, acme.organization.id, "api", "API")
    bearer.invalidate(acme.organization.id)
    assert await outcome(bearer, acme.token.secret, project="api") == 200


async def test_the_refusal_names_the_missing_scope(bearer: BearerGuard, acme: Tenant, database: Database) -> None:
    _, viewer = await new_member_token(database, acme, Role.VIEWER)
    with pytest.raises(Forbidden, match="keys:write"):
        await check(bearer, f"Bearer {viewer}", "acme", None, "keys:write")
