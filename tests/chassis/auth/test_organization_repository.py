"""What the registry writes, and the first start of an empty store."""

import asyncio
import re

import msgspec
import pytest

from chassis.auth.credential_guards import BearerGuard, ProjectKeyGuard
from chassis.auth.tables import new_id, new_project_id
from chassis.db.database import Database
from chassis.errors import Conflict
from control.identity.organizations import organization_store, project_key_store
from control.identity.organizations.bootstrap import Bootstrap, bootstrap
from proto.identity import MAX_PROJECT_ID, PrincipalKind, Role, is_project_key, is_token, parse_dsn
from tests.chassis.auth.tenants import Tenant


async def test_a_first_start_makes_all_that_a_newcomer_needs(
    database: Database, bearer: BearerGuard, keys: ProjectKeyGuard
) -> None:
    made = await bootstrap(database, "http://127.0.0.1:4318")
    assert made is not None
    assert list(msgspec.json.decode(msgspec.json.encode(made))) == [
        "baseUrl", "orgSlug", "projectSlug", "projectId", "legacyKey", "dsn", "accessToken",
    ]  # fmt: skip
    assert (made.base_url, made.org_slug, made.project_slug) == ("http://127.0.0.1:4318", "default", "default")
    assert is_token(made.access_token)
    assert is_project_key(made.legacy_key)
    dsn = parse_dsn(made.dsn)
    assert (dsn.key, dsn.host, str(dsn.project_id)) == (made.legacy_key, "127.0.0.1:4318", made.project_id)
    grant = await bearer.authenticate(f"Bearer {made.access_token}")
    reach = await bearer.authorize(grant, "default", "default", ["keys:write"])
    assert (reach.role, str(reach.project_id)) == (Role.OWNER, made.project_id)
    assert str((await keys.check(authorization=f"DSN {made.dsn}")).project_id) == made.project_id


async def test_only_the_first_of_many_starts_makes_something(database: Database) -> None:
    made = await asyncio.gather(*(bootstrap(database, "http://h") for _ in range(10)))
    assert sum(one is not None for one in made) == 1


async def test_a_store_in_use_is_left_alone(database: Database, acme: Tenant) -> None:
    assert await bootstrap(database, "http://h") is None


async def test_secrets_that_could_not_be_delivered_are_not_made(database: Database) -> None:
    def full_disk(_made: Bootstrap) -> None:
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        await bootstrap(database, "http://h", full_disk)
    kept: list[Bootstrap] = []
    assert await bootstrap(database, "http://h", kept.append) == kept[0]
    assert kept[0].legacy_key not in repr(kept)
    assert kept[0].access_token not in repr(kept)


async def test_slugs_are_unique_where_they_name_something(database: Database, acme: Tenant, globex: Tenant) -> None:
    with pytest.raises(organization_store.SlugTaken, match="acme"):
        async with database.write() as connection:
            await organization_store.create_organization(connection, "acme", "Another")
    with pytest.raises(organization_store.SlugTaken, match="web"):
        async with database.write() as connection:
            await organization_store.create_project(connection, acme.organization.id, "web", "Another")
    async with database.read() as connection:
        assert await organization_store.find_organization(connection, "acme") == acme.organization
        assert await organization_store.find_organization(connection, "none") is None
        assert await organization_store.find_project(connection, acme.organization.id, "web") == acme.project
        assert await organization_store.find_project(connection, globex.organization.id, "web") == globex.project


async def test_slugs_names_and_words_that_are_none_are_refused(database: Database, acme: Tenant) -> None:
    for slug, name in (("A", "x"), ("", "x"), ("a" * 65, "x"), ("a", ""), ("a", "x" * 201), ("a", " x")):
        with pytest.raises(ValueError, match=r"a (slug|name) must have 1 to"):
            async with database.write() as connection:
                await organization_store.create_organization(connection, slug, name)
    org = acme.organization.id
    for words in ([""], ["A"], ["a b"], ["a" * 65], ["-a"], ["a\n"], ["a"] * 101):
        with pytest.raises(ValueError, match="at most 100 words"):
            async with database.write() as connection:
                await organization_store.change_project(connection, org, "web", sensitive_words=words)


async def test_owners_belong_to_agents_and_services_only(database: Database, acme: Tenant) -> None:
    for kind, owner in (
        (PrincipalKind.USER, acme.owner_id),
        (PrincipalKind.AGENT, None),
        (PrincipalKind.SERVICE, None),
    ):
        with pytest.raises(ValueError, match="owner"):
            async with database.write() as connection:
                await organization_store.create_principal(connection, kind, "x", owner)


async def test_a_member_is_added_once(database: Database, acme: Tenant) -> None:
    with pytest.raises(Conflict):
        async with database.write() as connection:
            await organization_store.add_membership(connection, acme.organization.id, acme.owner_id, Role.VIEWER)


async def test_keys_of_another_project_are_out_of_reach(database: Database, acme: Tenant, globex: Tenant) -> None:
    async with database.write() as connection:
        assert await project_key_store.revoke_project_key(connection, globex.project.id, acme.key.key.id) is None
        assert (
            await project_key_store.enable_project_key(connection, globex.project.id, acme.key.key.id, enabled=False)
            is None
        )
        assert not await organization_store.revoke_token(connection, globex.organization.id, acme.token.id)
    async with database.read() as connection:
        [key] = await project_key_store.list_project_keys(connection, acme.project.id, None, 10)
    assert (key.enabled, key.revoked_at) == (True, None)


async def test_revoking_twice_keeps_the_first_time(database: Database, acme: Tenant) -> None:
    times = []
    for _ in range(2):
        async with database.write() as connection:
            assert await project_key_store.revoke_project_key(connection, acme.project.id, acme.key.key.id)
        async with database.read() as connection:
            times.append(
                (await project_key_store.list_project_keys(connection, acme.project.id, None, 1))[0].revoked_at
            )
    assert times[0] is not None
    assert times[0] == times[1]


async def test_secrets_are_not_in_the_text_of_what_holds_them(acme: Tenant) -> None:
    assert acme.key.secret not in repr(acme)
    assert acme.token.secret not in repr(acme)


def test_ids_sort_by_time_and_project_ids_are_exact_in_json() -> None:
    ids = [new_id("key") for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert all(re.fullmatch(r"key_[0-9a-hjkmnp-tv-z]{26}", one) for one in ids)
    assert all(1 <= new_project_id() <= MAX_PROJECT_ID for _ in range(1_000))
