"""Quotas and what is used of them, in the store."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from chassis.auth import usage
from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from tests.chassis.auth.tenants import Tenant

MONTH = "2026-11"
QUARTER = timedelta(minutes=15)
KEY = {"id": "'k'", "org_id": "'o'", "project_id": "1", "name": "'first'", "hint": "'abcd'", "enabled": "true"}


async def test_an_organization_is_made_with_a_quota_and_may_be_given_another(database: Database, acme: Tenant) -> None:
    async with database.write() as connection:
        made = await organization_store.create_organization(connection, "limited", "Limited", 7)
        assert await organization_store.find_organization(connection, "limited") == made
        await organization_store.set_quota(connection, acme.organization.id, 9)
        changed = await organization_store.find_organization(connection, "acme")
    assert (made.monthly_items, acme.organization.monthly_items) == (7, 0)
    assert changed is not None
    assert changed.monthly_items == 9


async def test_what_is_no_quota_and_no_rate_is_refused(database: Database, acme: Tenant) -> None:
    org, key = acme.organization.id, acme.key.key.id
    async with database.write() as connection:
        for number in (-1, 10**15 + 1):
            for refused in (
                organization_store.create_organization(connection, "limited", "Limited", number),
                organization_store.set_quota(connection, org, number),
                project_key_store.set_key_rate(connection, org, key, number),
            ):
                with pytest.raises(ValueError, match="must be from 0 to"):
                    await refused


@pytest.mark.both_stores
async def test_keys_with_a_rate_of_their_own_are_listed(database: Database, acme: Tenant, globex: Tenant) -> None:
    org, key = acme.organization.id, acme.key.key.id
    async with database.write() as connection:
        assert await project_key_store.list_keys_with_rate(connection, org, 10) == []
        assert await project_key_store.set_key_rate(connection, globex.organization.id, key, 5) is None, (
            "of another organization"
        )
        for rate in (5, 0):
            await project_key_store.set_key_rate(connection, org, key, rate)
            assert [one.rate for one in await project_key_store.list_keys_with_rate(connection, org, 10)] == [rate]
        await project_key_store.set_key_rate(connection, org, key, None)
        assert await project_key_store.list_keys_with_rate(connection, org, 10) == []


@pytest.mark.both_stores
async def test_usage_is_added_up_by_organization_and_month(database: Database, acme: Tenant, globex: Tenant) -> None:
    org, other = acme.organization.id, globex.organization.id
    async with database.write() as connection:
        assert [await usage.add_usage(connection, MONTH, org, items) for items in (3, 0, 10**12)] == [3, 3, 3 + 10**12]
        assert await usage.add_usage(connection, "2026-12", org, 1) == 1
        assert await usage.set_usage_at_least(connection, MONTH, other, 8) == 8
        assert [await usage.set_usage_at_least(connection, MONTH, other, items) for items in (7, 9)] == [8, 9]
    async with database.read() as connection:
        assert await usage.read_usage(connection, MONTH, [org, other, "org_none"]) == {org: 3 + 10**12, other: 9}
        assert await usage.read_usage(connection, "2026-10", [org]) == {}


async def test_what_many_add_at_once_is_all_counted(database: Database, acme: Tenant) -> None:
    async def add(items: int) -> int:
        async with database.write() as connection:
            return await usage.add_usage(connection, MONTH, acme.organization.id, items)

    totals = await asyncio.gather(*(add(items) for items in range(1, 21)))
    assert max(totals) == sum(range(1, 21))
    assert len(set(totals)) == 20


@pytest.mark.both_stores
async def test_of_many_one_is_told_to_count_and_again_when_that_is_long_ago(database: Database, acme: Tenant) -> None:
    now = datetime(2026, 11, 6, 21, 20, tzinfo=UTC)

    async def claim(later: timedelta) -> bool:
        async with database.write() as connection:
            return await usage.claim_recount(connection, MONTH, acme.organization.id, now + later, QUARTER)

    assert sorted(await asyncio.gather(*(claim(timedelta()) for _ in range(5)))) == [False] * 4 + [True]
    assert [await claim(QUARTER * part) for part in (0.99, 1, 1.99, 2)] == [False, True, False, True]
    async with database.read() as connection:
        assert await usage.read_usage(connection, MONTH, [acme.organization.id]) == {acme.organization.id: 0}


@pytest.mark.both_stores
async def test_projects_of_an_organization(database: Database, acme: Tenant, globex: Tenant) -> None:
    async with database.write() as connection:
        further = await organization_store.create_project(connection, acme.organization.id, "app", "App")
        assert await usage.list_project_ids(connection, acme.organization.id) == sorted((further.id, acme.project.id))
