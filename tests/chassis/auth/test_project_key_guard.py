"""The key check: where keys may stand, what they must agree on, and how long memory is believed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from chassis.auth.cache import CacheLimits, CacheMetrics
from chassis.auth.credential_guards import FRESH_S, STALE_S, ProjectKeyGuard
from chassis.auth.model import ProjectIdentity
from chassis.auth.tables import metadata, new_project_key
from chassis.db.database import Database
from chassis.errors import BadRequest, Forbidden, RateLimited, ServiceUnavailable, Unauthorized
from control.identity.organizations import organization_store, project_key_store
from proto.identity import format_dsn, hash_secret
from tests.chassis.auth.tenants import Clock, Tenant


def count(metrics: CollectorRegistry, result: str) -> float:
    labels = {"cache": "project_key", "result": result}
    return metrics.get_sample_value("sluice_identity_lookups_total", labels) or 0.0


def replace_with_garbage(directory: Path) -> None:
    for leftover in directory.glob("sluice.db*"):
        leftover.unlink()
    (directory / "sluice.db").write_bytes(b"no database" * 1_000)


def bytes_of_the_file(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob("sluice.db*"))


async def stored_bytes(database: Database, directory: Path) -> bytes:
    """All that the store keeps: the file, or every row as the server prints it, bytes in hexadecimal."""
    if found := bytes_of_the_file(directory):
        return found
    async with database.read() as connection:
        rows = [
            row
            for table in metadata.sorted_tables
            for row in await connection.scalars(text(f"SELECT CAST(t AS text) FROM {table.name} t"))
        ]
    return "\n".join(rows).encode()


async def test_each_place_of_the_key_gives_the_project(keys: ProjectKeyGuard, acme: Tenant) -> None:
    secret, project_id = acme.key.secret, acme.project.id
    dsn = format_dsn("http://127.0.0.1:4318", secret, project_id)
    expected = ProjectIdentity(
        project_id=project_id,
        project_slug="web",
        org_id=acme.organization.id,
        org_slug="acme",
        key_id=acme.key.key.id,
        sensitive_words=("iban", "tax_id"),
    )
    everywhere = {"legacy_auth": f"Legacy legacy_key={secret}", "authorization": f"DSN {dsn}", "legacy_key": secret}
    given: list[dict[str, Any]] = [{name: value} for name, value in everywhere.items()]
    given += [{"legacy_auth": f"legacy  client=x/1, legacy_key={secret} ,version=7"}, {"authorization": f"dsn {dsn}"}]
    given += [each | {"project_id": str(project_id)} for each in ({"legacy_key": secret}, everywhere)]
    assert [await keys.check(**each) for each in given] == [expected] * 7


async def test_an_authorization_of_another_scheme_is_not_ours(keys: ProjectKeyGuard, acme: Tenant) -> None:
    assert (await keys.check(legacy_key=acme.key.secret, authorization="Basic eDp5")).org_slug == "acme"
    with pytest.raises(Unauthorized, match=r"A project key is required\."):
        await keys.check(authorization=f"Bearer {acme.token.secret}")


REFUSED: list[dict[str, Any]] = [
    {},
    *({"legacy_auth": text} for text in ("", "Legacy", "Legacy legacy_key", "Legacy legacy_key=")),
    {"legacy_auth": "Bearer legacy_key=KEY"},
    {"legacy_auth": "Legacy legacy_key=KEY, legacy_key=KEY"},
    {"legacy_auth": "Legacy legacy_key=\udcff"},
    *({"authorization": f"DSN {text}"} for text in ("", "http://h/1", "KEY")),
    *({"legacy_key": text} for text in ("", "x", "x" * 128, "KEY ", "\x00" * 32, "OTHER")),
    {"legacy_key": "KEY", "legacy_auth": "Legacy legacy_key=OTHER"},
    {"legacy_key": "KEY", "authorization": "DSN http://OTHER@h/1"},
    {"legacy_key": "KEY", "authorization": "DSN nonsense"},
    {"legacy_key": "KEY", "legacy_auth": "nonsense"},
]


async def test_no_malformed_differing_or_unknown_keys_are_401(keys: ProjectKeyGuard, acme: Tenant) -> None:
    other = new_project_key()
    for credential in REFUSED:
        filled: dict[str, Any] = {
            name: value.replace("KEY", acme.key.secret).replace("OTHER", other) for name, value in credential.items()
        }
        with pytest.raises(Unauthorized) as caught:
            raise AssertionError((credential, await keys.check(**filled)))
        assert acme.key.secret not in caught.value.message
        assert "WWW-Authenticate" in caught.value.headers


async def test_a_project_that_is_not_the_keys_is_403(keys: ProjectKeyGuard, acme: Tenant, globex: Tenant) -> None:
    own = str(acme.project.id)
    for project_id in ("1", "web", "0" + own, " " + own, "x" * 64):
        with pytest.raises(Forbidden):
            raise AssertionError(await keys.check(legacy_key=acme.key.secret, project_id=project_id))
    with pytest.raises(Forbidden):
        await keys.check(authorization=f"DSN {format_dsn('http://h', acme.key.secret, globex.project.id)}")


async def test_overlong_query_values_are_400_before_any_look_up(keys: ProjectKeyGuard, database: Database) -> None:
    await database.close()
    key: dict[str, Any] = {"legacy_key": "x" * 129}
    project: dict[str, Any] = {"project_id": "1" * 65}
    for query in (key, project, key | project):
        with pytest.raises(BadRequest) as caught:
            await keys.check(**query)
        faults = [(issue.path, issue.code) for issue in caught.value.details or ()]
        assert faults == [(f"query.{name}", "too_long") for name in query]


async def test_a_known_key_is_answered_from_memory(
    keys: ProjectKeyGuard, acme: Tenant, metrics: CollectorRegistry, clock: Clock
) -> None:
    for _ in range(10):
        await keys.check(legacy_key=acme.key.secret)
    clock.seconds += FRESH_S - 0.01
    await keys.check(legacy_key=acme.key.secret)
    assert (count(metrics, "fetched"), count(metrics, "hit")) == (1, 10)


async def test_a_remembered_key_is_answered_without_suspending(keys: ProjectKeyGuard, acme: Tenant) -> None:
    await keys.check(legacy_key=acme.key.secret)
    coroutine = keys.check(legacy_key=acme.key.secret)
    with pytest.raises(StopIteration) as answer:
        coroutine.send(None)
    assert answer.value.value.org_slug == "acme"


async def test_requests_that_arrive_together_share_one_look_up(
    keys: ProjectKeyGuard, acme: Tenant, metrics: CollectorRegistry
) -> None:
    await asyncio.gather(*(keys.check(legacy_key=acme.key.secret) for _ in range(50)))
    assert count(metrics, "fetched") == 1


async def test_a_caller_that_gives_up_leaves_the_look_up_to_the_others(
    keys: ProjectKeyGuard, acme: Tenant, metrics: CollectorRegistry
) -> None:
    first, second = (asyncio.ensure_future(keys.check(legacy_key=acme.key.secret)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).org_slug == "acme"
    assert first.cancelled()
    assert count(metrics, "fetched") == 1


@pytest.mark.parametrize("how", ["revoked", "disabled"])
async def test_a_key_ended_elsewhere_stops_within_five_seconds(
    keys: ProjectKeyGuard, acme: Tenant, database: Database, clock: Clock, how: str
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    async with database.write() as connection:
        if how == "revoked":
            await project_key_store.revoke_project_key(connection, acme.project.id, acme.key.key.id)
        else:
            await project_key_store.enable_project_key(connection, acme.project.id, acme.key.key.id, enabled=False)
    clock.seconds += 5.0
    with pytest.raises(Unauthorized):
        await keys.check(legacy_key=acme.key.secret)


async def test_a_key_ended_here_stops_at_once_and_a_switched_on_one_works_at_once(
    keys: ProjectKeyGuard, acme: Tenant, database: Database
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    for enabled in (False, True):
        async with database.write() as connection:
            key_hash = await project_key_store.enable_project_key(connection, acme.project.id, acme.key.key.id, enabled)
        assert key_hash == hash_secret(acme.key.secret)
        keys.invalidate(key_hash)
        if enabled:
            assert (await keys.check(legacy_key=acme.key.secret)).org_slug == "acme"
        else:
            with pytest.raises(Unauthorized):
                await keys.check(legacy_key=acme.key.secret)


async def test_a_look_up_overtaken_by_a_change_is_not_remembered(
    keys: ProjectKeyGuard, acme: Tenant, metrics: CollectorRegistry
) -> None:
    under_way = asyncio.ensure_future(keys.check(legacy_key=acme.key.secret))
    await asyncio.sleep(0)
    keys.invalidate(hash_secret(acme.key.secret))
    await under_way
    await keys.check(legacy_key=acme.key.secret)
    assert count(metrics, "fetched") == 2


async def test_a_key_whose_project_was_changed_is_looked_up_and_works_on_without_the_database(
    keys: ProjectKeyGuard, acme: Tenant, globex: Tenant, database: Database, metrics: CollectorRegistry
) -> None:
    for tenant in (acme, globex):
        await keys.check(legacy_key=tenant.key.secret)
    keys.invalidate_project(acme.project.id)
    for tenant in (acme, globex):
        await keys.check(legacy_key=tenant.key.secret)
    assert (count(metrics, "fetched"), count(metrics, "hit")) == (3, 1)
    await database.close()
    keys.invalidate_all()
    for tenant in (acme, globex):
        await keys.check(legacy_key=tenant.key.secret, before_lookup=refused)


async def refused() -> None:
    raise AssertionError("the key is known")


async def test_known_keys_outlive_the_database_and_unknown_ones_are_503(
    keys: ProjectKeyGuard, acme: Tenant, globex: Tenant, database: Database, clock: Clock, metrics: CollectorRegistry
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    await database.close()
    for _ in range(3):
        clock.seconds += 3_600
        assert (await keys.check(legacy_key=acme.key.secret)).org_slug == "acme"
    assert count(metrics, "stale") == 3
    for secret in (globex.key.secret, new_project_key()):
        with pytest.raises(ServiceUnavailable) as caught:
            await keys.check(legacy_key=secret)
        assert 1 <= (caught.value.retry_after or 0) <= 5
    clock.seconds += STALE_S
    with pytest.raises(ServiceUnavailable):
        await keys.check(legacy_key=acme.key.secret)


async def test_a_database_that_comes_back_is_noticed_and_so_is_what_was_revoked_meanwhile(
    keys: ProjectKeyGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    await database.close()
    clock.seconds += 10
    await keys.check(legacy_key=acme.key.secret)
    await database.start()
    async with database.write() as connection:
        await project_key_store.revoke_project_key(connection, acme.project.id, acme.key.key.id)
    clock.seconds += 10

    async def refused() -> bool:
        try:
            await keys.check(legacy_key=acme.key.secret)
        except Unauthorized:
            return True
        return False

    async with asyncio.timeout(10):
        while not await refused():  # the first request after the outage starts the look-up that the next one sees
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)
async def test_a_damaged_file_is_an_outage_for_unknown_keys_only(
    keys: ProjectKeyGuard, acme: Tenant, globex: Tenant, database: Database, clock: Clock, tmp_path: Path
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    await database.close()
    replace_with_garbage(tmp_path)
    await database.start()
    clock.seconds += 10
    assert (await keys.check(legacy_key=acme.key.secret)).org_slug == "acme"
    with pytest.raises(ServiceUnavailable):
        await keys.check(legacy_key=globex.key.secret)


@pytest.mark.both_stores
async def test_a_dropped_table_is_an_outage_too(
    keys: ProjectKeyGuard, acme: Tenant, globex: Tenant, database: Database, clock: Clock
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    async with database.write() as connection:
        await connection.execute(text("DROP TABLE project_keys"))
    clock.seconds += 10
    assert (await keys.check(legacy_key=acme.key.secret)).org_slug == "acme"
    with pytest.raises(ServiceUnavailable):
        await keys.check(legacy_key=globex.key.secret)


async def test_made_up_keys_are_remembered_within_bounds_and_push_out_no_real_one(
    database: Database, acme: Tenant, metrics: CollectorRegistry, clock: Clock
) -> None:
    guard = ProjectKeyGuard(
        database, CacheMetrics(metrics), limits=CacheLimits(5.0, STALE_S, max_known=3, max_unknown=4), clock=clock
    )
    await guard.check(legacy_key=acme.key.secret)
    made_up = [new_project_key() for _ in range(20)]
    for secret in made_up:
        with pytest.raises(Unauthorized):
            await guard.check(legacy_key=secret)
    for kind, held in (("known", 1), ("unknown", 4)):
        labels = {"cache": "project_key", "kind": kind}
        assert metrics.get_sample_value("sluice_identity_cache_entries", labels) == held
    with pytest.raises(Unauthorized):
        await guard.check(legacy_key=made_up[-1])
    await guard.check(legacy_key=acme.key.secret)
    assert (count(metrics, "fetched"), count(metrics, "unknown_hit"), count(metrics, "hit")) == (21, 1, 1)


async def test_a_flood_of_made_up_keys_leaves_room_for_real_ones(
    keys: ProjectKeyGuard, acme: Tenant, clock: Clock
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    clock.seconds += 10
    flood = [asyncio.ensure_future(keys.check(legacy_key=new_project_key())) for _ in range(200)]
    await asyncio.sleep(0)
    assert (await keys.check(legacy_key=acme.key.secret)).org_slug == "acme"
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Unauthorized, ServiceUnavailable}


async def test_changed_words_and_exempt_keys_reach_the_guard(
    keys: ProjectKeyGuard, acme: Tenant, database: Database, clock: Clock
) -> None:
    await keys.check(legacy_key=acme.key.secret)
    async with database.write() as connection:
        await organization_store.change_project(
            connection,
            acme.organization.id,
            "web",
            sensitive_words=["iban", "pin", "pin"],
            exempt_keys=["Shop.token"],
        )
    assert (await keys.check(legacy_key=acme.key.secret)).exempt_keys == ()
    clock.seconds += 5.0
    found = await keys.check(legacy_key=acme.key.secret)
    assert (found.sensitive_words, found.exempt_keys) == (("iban", "pin"), ("Shop.token",))


@pytest.mark.both_stores
async def test_the_store_holds_no_secret(database: Database, acme: Tenant, tmp_path: Path) -> None:
    async with database.read() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM project_keys")) == 1
    content = await stored_bytes(database, tmp_path)
    assert acme.key.key.id.encode() in content
    for secret in (acme.key.secret, acme.token.secret):
        assert secret.encode() not in content
        assert secret.encode().hex().encode() not in content


async def test_a_changed_quota_and_rate_reach_the_guard(
    database: Database, keys: ProjectKeyGuard, acme: Tenant, clock: Clock
) -> None:
    made = await keys.check(legacy_key=acme.key.secret)
    assert (made.monthly_items, made.rate) == (0, None)
    async with database.write() as connection:
        await organization_store.set_quota(connection, acme.organization.id, 10**15)
        digest = await project_key_store.set_key_rate(connection, acme.organization.id, acme.key.key.id, 25)
    assert digest == hash_secret(acme.key.secret)
    assert await keys.check(legacy_key=acme.key.secret) == made, "from memory"
    clock.seconds += FRESH_S
    changed = await keys.check(legacy_key=acme.key.secret)
    assert (changed.monthly_items, changed.rate) == (10**15, 25)


async def test_only_a_key_that_nobody_knows_asks_to_be_looked_up(
    keys: ProjectKeyGuard, acme: Tenant, globex: Tenant, clock: Clock
) -> None:
    async def refuse() -> None:
        raise RateLimited("Too many.", 1)

    await keys.check(legacy_key=acme.key.secret)
    clock.seconds += FRESH_S
    assert (await keys.check(legacy_key=acme.key.secret, before_lookup=refuse)).org_slug == "acme", (
        "known, though not fresh"
    )
    for secret in (globex.key.secret, new_project_key()):
        with pytest.raises(RateLimited):
            await keys.check(legacy_key=secret, before_lookup=refuse)


async def test_a_good_key_is_told_of_before_its_project_is_compared(keys: ProjectKeyGuard, acme: Tenant) -> None:
    async def over_its_rate(found: ProjectIdentity) -> None:
        raise RateLimited(found.key_id, 1)

    with pytest.raises(RateLimited, match=acme.key.key.id):
        await keys.check(legacy_key=acme.key.secret, project_id="1", on_authenticated=over_its_rate)
    with pytest.raises(Unauthorized):
        await keys.check(legacy_key=new_project_key(), project_id="1", on_authenticated=over_its_rate)
