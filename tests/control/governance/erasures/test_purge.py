"""The background work of deletions: what it does when, and that nothing stops it."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from chassis.db.database import Database, DatabaseUnavailable, sqlite_file
from chassis.erasures import repository
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind
from control.audit.record import Actor
from control.governance.erasures.deletion import delete_project
from control.governance.erasures.housekeeping import ErasureHousekeeping
from control.governance.erasures.purge import COMPACTION_SHARE, Purger
from control.identity.organizations import organization_store, project_key_store
from tests.chassis.auth.tenants import Clock, Tenant, new_tenant
from tests.control.governance.erasures.conftest import erase_telemetry


@pytest.fixture
async def acme(database: Database) -> Tenant:
    return await new_tenant(database, "acme")


async def deleted(database: Database, acme: Tenant, slug: str, keys: int = 1) -> StoredErasure:
    """A project that is created and deleted."""
    org_id, now = acme.organization.id, datetime.now(UTC)
    async with database.write() as connection:
        project = await organization_store.create_project(connection, org_id, slug, "x")
        for _ in range(keys):
            await project_key_store.create_project_key(connection, org_id, project.id, "x")
        return await delete_project(connection, Actor(org_id), project.id, slug, "r", now)


async def unpurged(database: Database) -> list[str]:
    async with database.read() as connection:
        return [one.id for one in await repository.list_unpurged(connection, 10)]


@pytest.fixture
def compactions(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[float]:
    """Times of rewrites of the file, each of which takes ten seconds."""
    times: list[float] = []
    compact = Database.compact

    async def counted(database: Database) -> None:
        times.append(clock.seconds)
        clock.seconds += 10
        await compact(database)

    monkeypatch.setattr(Database, "compact", counted)
    return times


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_many_deletions_rewrite_the_file_once_and_seldom(
    database: Database, acme: Tenant, compactions: list[float], clock: Clock
) -> None:
    purger = Purger(database, pause_s=0, clock=clock)
    for slug in ("a", "b", "c"):
        await deleted(database, acme, slug)
    await purger.poll_once()
    assert (compactions, await unpurged(database)) == ([1_000.0], [])
    await purger.poll_once()
    later = await deleted(database, acme, "d")
    await purger.poll_once()
    clock.seconds += 10 / COMPACTION_SHARE - 1
    await purger.poll_once()
    assert (len(compactions), await unpurged(database)) == (1, [later.id])
    clock.seconds += 1
    await purger.poll_once()
    assert (len(compactions), await unpurged(database)) == (2, [])


@pytest.mark.background
async def test_the_service_purges_by_itself(database: Database, acme: Tenant) -> None:
    await deleted(database, acme, "a")
    running = Purger(database, pause_s=0).running()
    await anext(running)
    async with asyncio.timeout(30):
        while await unpurged(database):
            await asyncio.sleep(0.01)
    await anext(running, None)


@pytest.mark.both_stores
async def test_a_failure_stops_no_other_erasure(
    database: Database, acme: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = await deleted(database, acme, "a"), await deleted(database, acme, "b")
    delete_rows = Purger._delete_rows

    async def failing(purger: Purger, erasure: StoredErasure) -> None:
        if erasure.id == broken.id:
            raise ValueError("a row holds something")
        await delete_rows(purger, erasure)

    purger = Purger(database, pause_s=0, clock=clock)
    with monkeypatch.context() as patched:
        patched.setattr(Purger, "_delete_rows", failing)
        await purger.poll_once()
    assert await unpurged(database) == [broken.id]
    await purger.poll_once()
    assert await unpurged(database) == []
    assert await erase_telemetry(database) == 2
    async with database.read() as connection:
        assert (await repository.get(connection, sound.id)).counts == {"spans": 1, "project_keys": 1}


async def test_rows_are_counted_once_whenever_the_process_ends(
    database: Database, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after so many batches, between two transactions."""
    for batches in range(1, 6):
        erasure, left = await deleted(database, acme, f"a{batches}", keys=5), itertools.count(1)

        async def ending(_seconds: float, left: Any = left, batches: int = batches) -> None:
            if next(left) == batches:
                raise SystemExit

        with monkeypatch.context() as patched:
            patched.setattr("control.governance.erasures.purge.asyncio.sleep", ending)
            with pytest.raises(SystemExit):
                await Purger(database, batch=1, pause_s=0).poll_once()
        await Purger(database, batch=2, pause_s=0).poll_once()
        async with database.read() as connection:
            assert (await repository.get(connection, erasure.id)).counts == {"project_keys": 5}, batches


async def test_a_file_in_use_is_compacted_later(database: Database, acme: Tenant, migrated_url: str) -> None:
    if sqlite_file(migrated_url) is None:
        return
    await deleted(database, acme, "a")
    other = Database(migrated_url, max_wait_s=0.2)
    await other.start()
    async with database.read() as connection:
        await repository.tombstone_version(connection)  # a snapshot that the write-ahead log has to keep
        with pytest.raises(DatabaseUnavailable):
            await other.compact()
    await other.close()
    await Purger(database, pause_s=0).poll_once()
    assert await unpurged(database) == []


async def test_housekeeping_counts_and_expires(database: Database, acme: Tenant) -> None:
    registry, clock = CollectorRegistry(), Clock()
    housekeeping = ErasureHousekeeping(database, registry, filter_days=90, now=clock.now)
    await housekeeping.run_once()

    def measured() -> list[float | None]:
        states = [registry.get_sample_value("sluice_erasures_open", {"state": one}) for one in ("open", "failed")]
        return [*states, registry.get_sample_value("sluice_erasures_oldest_seconds")]

    assert measured() == [0.0, 0.0, 0.0]
    wanted = NewErasure(
        kind=ErasureKind.FILTER,
        org_id=acme.organization.id,
        project_id=acme.project.id,
        filters=[{"key": "a", "op": "exists", "value": None}],
        purged=True,
    )
    async with database.write() as connection:
        erasure = await repository.create(connection, wanted, clock.now() - timedelta(seconds=60))
    await housekeeping.run_once()
    assert measured()[:2] == [1.0, 0.0]
    assert measured()[2] == pytest.approx(60, abs=1)
    await erase_telemetry(database)
    for days, is_kept in ((89, True), (2, False)):
        clock.seconds += days * 86_400
        await housekeeping.run_once()
        async with database.read() as connection:
            assert ((await repository.get(connection, erasure.id)).filters is not None) is is_kept
    assert measured() == [0.0, 0.0, 0.0]
