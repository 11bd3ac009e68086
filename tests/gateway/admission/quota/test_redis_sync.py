"""Processes that see in a real Redis what each other accepted, before the record has it."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.auth.tables import metadata
from chassis.db.database import Database
from chassis.redis import open_redis
from control.identity.organizations import organization_store
from gateway.admission import quota_sync
from tests.gateway.admission.quota.conftest import MONTH, Clock, Connect, Process, Shared, month, process, recorded
from tests.redis_server import RedisServer


async def two(shared: Shared, connect: Connect, redis_server: RedisServer) -> tuple[Process, Process]:
    """Processes that share a Redis."""
    return shared.process(await connect(redis_server.url)), shared.process(await connect(redis_server.url))


async def share_in_turn(shared: Shared, *processes: Process) -> None:
    for each in processes:
        each.account(shared.org)
        await each.share()


async def test_what_one_accepts_the_others_know_before_the_record_does(
    shared: Shared, connect: Connect, redis_server: RedisServer
) -> None:
    """Its counter lasts a day longer than its month."""
    first, second = await two(shared, connect, redis_server)
    first.accept(shared.org, 10)
    second.accept(shared.org, 1)
    await share_in_turn(shared, first, second, first)
    assert (await shared.known(first), second.used(shared.org)) == ((11, 0), 11)
    for each in (first, second, first):
        each.account(shared.org)
        await each.recorder.sync()
        await each.share()
    assert (await shared.known(first), second.used(shared.org)) == ((11, 11), 11)
    key = f"sluice:quota:{shared.org}:{MONTH}"
    assert redis_server.ask("KEYS", "sluice:quota:*") == [key]
    expires = time.time() + redis_server.ask("TTL", key)
    assert expires == pytest.approx(month().ends + 86_400, abs=60)


async def test_one_that_forgot_begins_with_what_the_record_has(
    shared: Shared, connect: Connect, redis_server: RedisServer
) -> None:
    first, second = await two(shared, connect, redis_server)
    first.accept(shared.org, 10)
    await first.share()
    await first.recorder.sync()
    redis_server.flush()
    first.accept(shared.org, 1)
    second.accept(shared.org, 2)
    await share_in_turn(shared, first, second, first)
    counter = redis_server.ask("GET", f"sluice:quota:{shared.org}:{MONTH}")
    assert (counter, first.used(shared.org)) == ("12", 12), "10 of the record, and what came since"


async def test_without_it_the_record_is_told_and_it_is_brought_up_afterwards(
    shared: Shared, connect: Connect, own_redis: RedisServer
) -> None:
    redis = await connect(own_redis.url)
    one = shared.process(redis)
    own_redis.stop()
    one.accept(shared.org, 10)
    await one.share()
    await one.recorder.sync()
    assert (await shared.known(one), one.failures("redis")) == ((10, 10), 1.0)
    own_redis.start()
    async with asyncio.timeout(20):
        while not redis.is_up:
            await asyncio.sleep(0.01)
    one.accept(shared.org, 5)
    await one.share()
    await one.recorder.sync()
    assert await shared.known(one) == (15, 15)


async def test_many_organizations_are_exchanged_in_several_calls(
    shared: Shared, connect: Connect, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_sync, "ACCOUNTS_PER_CALL", 3)
    first, second = await two(shared, connect, redis_server)
    orgs = [f"org_{n}" for n in range(8)]
    for items, org in enumerate(orgs, 1):
        first.accept(org, items)
        second.account(org)
    for each in (first, second):
        await each.share()
    assert [second.used(org) for org in orgs] == list(range(1, 9))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.integers(0, 2), st.integers(1, 50)),
        st.tuples(st.sampled_from(["share", "record", "restart"]), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("forget"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_nobody_ever_counts_more_than_was_accepted_and_in_the_end_all_count_it(
    redis_of_the_session: RedisServer, migrated_file: Any, tmp_path: Any, steps: list[tuple[str, int, int]]
) -> None:
    """Three processes under exchanges in any order, clean restarts, and a Redis that forgets now and then."""
    file = tmp_path / "sluice.db"
    if not file.exists():
        file.write_bytes(migrated_file.read_bytes())

    async def run() -> None:
        database = Database(f"sqlite:///{file}", max_wait_s=10.0)
        await database.start()
        redis = open_redis(redis_of_the_session.url, 10.0)
        await redis.start()
        async with database.write() as connection:
            for table in reversed(metadata.sorted_tables):
                await connection.execute(table.delete())
            org = (await organization_store.create_organization(connection, "acme", "Acme")).id
        clock, accepted = Clock(), 0
        processes = [process(database, clock, redis) for _ in range(3)]
        for what, number, items in steps:
            one = processes[number]
            if what == "accept":
                one.accept(org, items)
                accepted += items
            elif what == "forget":
                redis_of_the_session.flush()
            elif what == "restart":
                await one.share()
                await one.recorder.close()
                processes[number] = process(database, clock, redis)
            else:
                one.account(org)
                await (one.share() if what == "share" else one.recorder.sync())
            assert max(each.used(org) for each in processes) <= accepted
            assert (
                sum(each.accounts.get(org).unrecorded for each in processes) + await recorded(database, org) == accepted
            )
        for each in (*processes, *processes):
            each.account(org)
            await each.share()
            each.account(org)
            await each.recorder.sync()
        assert [each.used(org) for each in processes] == [accepted] * 3
        await redis.close()
        await database.close()

    redis_of_the_session.flush()
    asyncio.run(run())
