"""Erasures in either store: tombstones, leases, acknowledgements, and when an erasure is completed."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chassis.db.database import Database
from chassis.erasures import export, leases, repository
from chassis.erasures.leases import AcknowledgementMissing, ErasureLease
from chassis.erasures.repository import NewErasure, StoredErasure, Tombstone
from chassis.erasures.tables import ErasureKind, ErasureState, erasures
from control.identity.organizations import organization_store
from tests.chassis.auth.tenants import Tenant, new_tenant

pytestmark = pytest.mark.both_stores

NOW = datetime(2026, 11, 20, 12, 0, 0, 123000, UTC)
LATER = NOW + timedelta(minutes=5)
FILTERS = [{"key": "user.id", "op": "eq", "value": "4711"}]


@pytest.fixture
async def acme(database: Database) -> Tenant:
    return await new_tenant(database, "acme")


async def created(
    database: Database, acme: Tenant, kind: ErasureKind = ErasureKind.FILTER, **more: Any
) -> StoredErasure:
    of_project = {} if kind is ErasureKind.ORGANIZATION else {"project_id": acme.project.id}
    if kind is ErasureKind.FILTER:
        more = {"filters": FILTERS, "purged": True} | more
    async with database.write() as connection:
        wanted = NewErasure(kind=kind, org_id=acme.organization.id, **(of_project | more))
        return await repository.create(connection, wanted, NOW)


async def claimed(database: Database, owner: str = "one", now: datetime = NOW) -> ErasureLease | None:
    async with database.write() as connection:
        return await leases.claim(connection, owner, now)


async def held(database: Database, owner: str = "one", now: datetime = NOW) -> ErasureLease:
    found = await claimed(database, owner, now)
    assert found is not None
    return found


async def state(database: Database, erasure: StoredErasure) -> StoredErasure:
    async with database.read() as connection:
        return await repository.get(connection, erasure.id)


async def test_tombstones_are_read_from_a_version_on(database: Database, acme: Tenant) -> None:
    first = await created(database, acme, from_ns=1, to_ns=2**63 - 1)
    await created(database, acme, dry_run=True)
    await created(database, acme, ErasureKind.ORGANIZATION)
    last = await created(database, acme, ErasureKind.PROJECT)
    async with database.read() as connection:
        assert await repository.tombstone_version(connection) == last.number == 4
        found = await repository.list_tombstones(connection)
        assert await repository.list_tombstones(connection, first.number) == found[1:]
        assert await repository.list_tombstones(connection, last.number) == []
        assert await repository.list_tombstones(connection, 0, 1) == found[:1]
    project_id = acme.project.id
    assert found == [
        Tombstone(1, first.id, project_id, FILTERS, 1, 2**63 - 1, NOW, NOW),
        Tombstone(4, last.id, project_id, None, None, None, NOW, None),
    ]


async def test_one_worker_claims_an_erasure_and_another_resumes_it(database: Database, acme: Tenant) -> None:
    erasure = await created(database, acme)
    found = await asyncio.gather(*(claimed(database, f"worker {number}") for number in range(5)))
    [lease] = [one for one in found if one is not None]
    assert (lease.erasure.id, lease.attempt, lease.erasure.state) == (erasure.id, 1, ErasureState.RUNNING)
    async with database.write() as connection:
        assert await leases.renew(connection, lease, NOW + timedelta(seconds=30))
    assert await claimed(database, "late", NOW + timedelta(seconds=89)) is None
    successor = await held(database, "late", NOW + timedelta(seconds=90))
    assert (successor.erasure.id, successor.attempt) == (erasure.id, 2)
    async with database.write() as connection:
        assert not await leases.renew(connection, lease, LATER)
        assert not await leases.report_progress(connection, lease, {"spans": 1}, LATER)
        assert not await leases.complete(connection, lease, {"spans": 1}, LATER)
        assert not await leases.fail(connection, lease, "x")
        assert not await leases.release(connection, lease)
        assert await leases.report_progress(connection, successor, {"spans": 7}, LATER, "deleting spans")
        assert await leases.report_progress(connection, successor, {"logs": 2}, LATER, "x" * 1_000)
    now = await state(database, erasure)
    assert (now.counts, now.message) == ({"spans": 7, "logs": 2}, "x" * 500)
    async with database.write() as connection:
        assert await leases.complete(connection, successor, {"spans": 9}, LATER)
    now = await state(database, erasure)
    assert (now.state, now.counts, now.completed_at, now.lease_owner) == (
        ErasureState.COMPLETED,
        {"spans": 9, "logs": 2},
        LATER,
        None,
    )
    assert await claimed(database, "late", LATER + timedelta(days=1)) is None


async def test_organizations_take_turns(database: Database, acme: Tenant) -> None:
    """However many projects one of them has deleted before."""
    globex = await new_tenant(database, "globex")
    for number in range(3):
        await created(database, acme, ErasureKind.PROJECT, project_id=number + 1)
    other = await created(database, globex)
    claims: list[str] = []
    for _ in range(4):
        async with database.write() as connection:
            found = await leases.claim(connection, "one", NOW, after_org_id=claims[-1] if claims else "")
        assert found is not None
        claims.append(found.erasure.org_id)
    assert other.org_id in claims[:2]
    assert sorted(claims) == sorted([other.org_id, *[acme.organization.id] * 3])


async def test_an_erasure_that_is_given_back_waits_until_its_retry(database: Database, acme: Tenant) -> None:
    erasure = await created(database, acme)
    lease = await held(database)
    async with database.write() as connection:
        assert await leases.release(connection, lease, LATER, "ClickHouse is unavailable.")
    assert (await state(database, erasure)).message == "ClickHouse is unavailable."
    assert await claimed(database, now=LATER - timedelta(milliseconds=1)) is None
    assert (await held(database, now=LATER)).attempt == 2


async def test_a_failed_erasure_begins_again_when_the_operator_says_so(database: Database, acme: Tenant) -> None:
    erasure = await created(database, acme)
    lease = await held(database)
    async with database.write() as connection:
        assert await leases.fail(connection, lease, "The filters cannot be compiled.")
        assert not await repository.retry(connection, "ers_none")
    assert await claimed(database, now=LATER) is None
    async with database.read() as connection:
        assert [one.erasure_id for one in await repository.list_tombstones(connection)] == [erasure.id]
        unfinished = await repository.count_unfinished(connection)
        assert (unfinished.open, unfinished.failed, unfinished.oldest) == (0, 1, NOW)
    async with database.write() as connection:
        assert await repository.retry(connection, erasure.id)
        assert not await repository.retry(connection, erasure.id)
    assert (await held(database, now=LATER)).erasure.id == erasure.id


async def test_it_completes_only_when_no_journal_holds_older_requests(database: Database, acme: Tenant) -> None:
    async with database.write() as connection:
        for journal in ("a", "b", "gone"):
            await repository.register_journal(connection, journal, NOW - timedelta(days=1))
        await repository.register_journal(connection, "b", NOW)
    erasure = await created(database, acme)
    async with database.write() as connection:
        await repository.register_journal(connection, "young", LATER)
        assert list(await repository.list_journals(connection)) == ["a", "b", "gone", "young"]
        await repository.acknowledge(connection, [erasure.id], "b", LATER)
        await repository.acknowledge(connection, [erasure.id, erasure.id], "b", LATER)
        assert await repository.missing_acknowledgements(connection, erasure.id) == ["a", "gone"]
        assert await repository.list_unacknowledged(connection, "a") == [erasure.id]
        assert await repository.list_unacknowledged(connection, "b") == []
    lease = await held(database)
    async with database.write() as connection:
        with pytest.raises(AcknowledgementMissing) as refused:
            await leases.complete(connection, lease, {}, LATER)
        assert refused.value.journals == ("a", "gone")
        await repository.acknowledge(connection, [erasure.id], "a", LATER)
        assert await repository.remove_journal(connection, "gone")
        assert not await repository.remove_journal(connection, "gone")
        assert await leases.complete(connection, lease, {}, LATER)
    assert (await state(database, erasure)).state is ErasureState.COMPLETED


async def test_a_dry_run_waits_for_no_journal(database: Database, acme: Tenant) -> None:
    async with database.write() as connection:
        await repository.register_journal(connection, "a", NOW)
    erasure = await created(database, acme, dry_run=True)
    lease = await held(database)
    async with database.write() as connection:
        assert await leases.complete(connection, lease, {"spans": 3}, LATER)
    assert (await state(database, erasure)).counts == {"spans": 3}


@pytest.mark.parametrize("telemetry_first", [False, True])
async def test_a_project_is_completed_when_both_halves_are(
    database: Database, acme: Tenant, telemetry_first: bool
) -> None:
    erasure = await created(database, acme, ErasureKind.PROJECT)

    async def erase() -> None:
        lease = await held(database)
        async with database.write() as connection:
            assert await leases.complete(connection, lease, {"spans": 1}, LATER)

    async def purge() -> None:
        async with database.write() as connection:
            [unpurged] = await repository.list_unpurged(connection, 10)
            await repository.add_counts(connection, unpurged.id, {"project_keys": 1})
            await repository.add_counts(connection, unpurged.id, {"project_keys": 1})
            await repository.mark_purged(connection, unpurged, LATER)

    for half in (erase, purge) if telemetry_first else (purge, erase):
        assert (await state(database, erasure)).completed_at is None
        await half()
    done = await state(database, erasure)
    assert (done.state, done.completed_at) == (ErasureState.COMPLETED, LATER)
    assert done.counts == {"spans": 1, "project_keys": 2}
    assert await claimed(database, now=LATER + timedelta(days=1)) is None


async def test_an_organization_is_completed_with_its_last_project(database: Database, acme: Tenant) -> None:
    organization = await created(database, acme, ErasureKind.ORGANIZATION)
    projects = [await created(database, acme, ErasureKind.PROJECT, purged=True) for _ in range(2)]
    async with database.write() as connection:
        await repository.begin_purge(connection, organization.id)
        await repository.add_counts(connection, organization.id, {"memberships": 3})
        await repository.mark_purged(connection, organization, LATER)
    assert (await state(database, organization)).state is ErasureState.RUNNING
    for project in projects:
        assert (await state(database, organization)).completed_at is None
        lease = await held(database)
        assert lease.erasure.id == project.id
        async with database.write() as connection:
            assert await leases.complete(connection, lease, {}, LATER)
    done = await state(database, organization)
    assert (done.state, done.counts) == (ErasureState.COMPLETED, {"memberships": 3})


async def test_filters_expire_with_their_tombstones(database: Database, acme: Tenant) -> None:
    erasure, waiting = await created(database, acme), await created(database, acme)
    lease = await held(database)
    async with database.write() as connection:
        assert await leases.complete(connection, lease, {"spans": 3}, LATER)
        assert not await repository.has_filters_from_before(connection, LATER)
        assert await repository.expire_filters(connection, LATER, LATER) == 0
        after = LATER + timedelta(milliseconds=1)
        assert await repository.has_filters_from_before(connection, after)
        assert await repository.expire_filters(connection, after, after) == 1
        assert [one.erasure_id for one in await repository.list_tombstones(connection)] == [waiting.id]
    done = await state(database, erasure)
    assert (done.filters, done.expired_at, done.counts) == (None, after, {"spans": 3})
    assert not export.is_exported(done)


async def test_completed_erasures_begin_again_after_a_restore(database: Database, acme: Tenant) -> None:
    earlier, later, dry, expired = [await created(database, acme, dry_run=number == 2) for number in range(4)]
    for erasure, ended in ((earlier, NOW), (later, LATER), (dry, LATER), (expired, LATER)):
        lease = await held(database)
        assert lease.erasure.id == erasure.id
        async with database.write() as connection:
            assert await leases.complete(connection, lease, {"spans": 3}, ended)
    async with database.write() as connection:
        hidden = erasures.update().where(erasures.c.id == expired.id)
        await connection.execute(hidden.values(filters=None, expired_at=LATER))
        assert await repository.repeat_completed(connection, LATER) == 1
    assert [(await state(database, one)).state for one in (earlier, dry, expired)] == [ErasureState.COMPLETED] * 3
    again = await held(database)
    assert (again.erasure.id, again.erasure.counts) == (later.id, {"spans": 3})
    async with database.write() as connection:
        assert await leases.complete(connection, again, {"spans": 5}, LATER)
    assert (await state(database, later)).state is ErasureState.COMPLETED


async def test_filters_of_a_deleted_project_are_superseded(database: Database, acme: Tenant) -> None:
    done, running, waiting = [await created(database, acme) for _ in range(3)]
    first = await held(database)
    async with database.write() as connection:
        assert await leases.complete(connection, first, {}, NOW)
    second = await held(database)
    async with database.write() as connection:
        await repository.supersede_filters(connection, acme.organization.id, acme.project.id, LATER)
        assert not await leases.complete(connection, second, {}, LATER)
    for erasure in (done, running, waiting):
        now = await state(database, erasure)
        assert (now.state, now.filters, now.expired_at) == (ErasureState.COMPLETED, None, LATER)
    assert (await state(database, done)).completed_at == NOW
    assert await claimed(database, now=LATER + timedelta(days=1)) is None


async def test_an_export_has_what_is_in_force(database: Database, acme: Tenant) -> None:
    erasure = await created(database, acme, from_ns=5)
    organization = await created(database, acme, ErasureKind.ORGANIZATION)
    assert not export.is_exported(await created(database, acme, dry_run=True))
    line = export.decode_line(export.encode_line(erasure))
    assert (line.id, line.org_id, line.project_id) == (erasure.id, acme.organization.id, str(acme.project.id))
    assert (line.filters, line.from_ns, line.to_ns, line.requested_time) == (FILTERS, 5, None, NOW)
    assert export.decode_line(export.encode_line(organization)).project_id is None
    for bad in (b"", b"{}", b"\xff", b"[]"):
        with pytest.raises(ValueError, match="not an exported erasure"):
            export.decode_line(bad)


async def test_retention_of_live_projects_is_listed(database: Database, acme: Tenant) -> None:
    async with database.write() as connection:
        for slug, days in (("short", 7), ("usual", None)):
            await organization_store.create_project(connection, acme.organization.id, slug, "x", retention_days=days)
        found = await organization_store.find_project(connection, acme.organization.id, "short")
        assert found is not None
        assert await repository.list_retention_days(connection) == {found.id: 7}
