"""Processes that tell one record what they accepted, and learn from it what the others did."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable
from control.identity.organizations import organization_store
from gateway.admission import quota_sync
from gateway.admission.quota_sync import MAX_WRITE_DELAY_S, UNLIMITED_INTERVAL_S
from tests.gateway.admission.quota.conftest import NEXT_MONTH, Shared, month, recorded


class Flaky:
    """A database that fails as a test says."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.away = False
        self.loses_answers = False  # to commits, which happen
        self.hangs = False

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        await self._meet()
        async with self._database.write() as connection:
            yield connection
        if self.loses_answers:
            raise DatabaseUnavailable

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        await self._meet()
        async with self._database.read() as connection:
            yield connection

    async def _meet(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise DatabaseUnavailable


@pytest.fixture
def flaky(shared: Shared) -> Flaky:
    return Flaky(shared.database)


async def test_what_one_accepts_the_others_know_after_two_rounds(shared: Shared) -> None:
    first, second = shared.process(), shared.process()
    first.accept(shared.org, 10)
    first.accept(shared.org, 5)
    second.accept(shared.org, 1)
    await first.recorder.sync()
    assert await shared.known(first) == (15, 15)
    await second.recorder.sync()
    assert await shared.known(second) == (16, 16)
    await first.recorder.sync()
    assert await shared.known(first) == (16, 16)
    for each in (first, second, first):
        await each.recorder.sync()
    assert await shared.recorded() == 16, "nothing is told twice"
    third = shared.process()
    account = third.accounts.get(shared.org)
    await asyncio.gather(*(third.recorder.look_up(account) for _ in range(20)))
    assert (account.is_looked_up, account.used) == (True, 16), "one that starts begins with what the record has"


async def test_items_accepted_while_the_record_is_told_are_told_the_next_time(shared: Shared) -> None:
    process = shared.process()

    class Meanwhile:
        def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
            process.accept(shared.org, 100)
            return shared.database.write()

    process.accept(shared.org, 1)
    process.recorder._database = Meanwhile()  # type: ignore[assignment]
    await process.recorder.sync()
    assert await shared.known(process) == (101, 1)
    process.recorder._database = shared.database
    await process.recorder.sync()
    assert await shared.known(process) == (101, 101)


async def test_a_record_that_is_away_is_told_when_it_is_back(shared: Shared, flaky: Flaky) -> None:
    process = shared.process(over=flaky)
    flaky.away = True
    await process.recorder.look_up(process.account(shared.org))
    process.accept(shared.org, 10)
    await process.recorder.sync()
    assert (process.used(shared.org), process.failures("database")) == (10, 2.0)
    flaky.away = False
    await process.recorder.sync()
    assert (await shared.known(process), process.left) == ((10, 10), 0.0)
    await process.recorder.sync()
    flaky.away = True
    for _ in range(3):
        await process.recorder.sync()
    assert process.failures("database") == 2.0, "nothing is asked of it while nothing happens"


async def test_one_that_hangs_holds_up_the_first_request_for_a_moment_and_no_other(
    shared: Shared, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_sync, "LOOK_UP_TIMEOUT_S", 0.02)
    process = shared.process(over=flaky)
    flaky.hangs = True
    account = process.accounts.get(shared.org)
    async with asyncio.timeout(10):
        await process.recorder.look_up(account)
    assert account.is_looked_up
    flaky.hangs = False
    await process.recorder.close()


async def test_what_may_have_been_told_is_not_told_again(shared: Shared, flaky: Flaky) -> None:
    process = shared.process(over=flaky)
    flaky.loses_answers = True
    process.accept(shared.org, 10)
    await process.recorder.sync()
    assert (await shared.known(process), process.left) == ((10, 10), 10.0)
    flaky.loses_answers = False
    process.accept(shared.org, 1)
    await process.recorder.sync()
    assert await shared.known(process) == (11, 11)


async def test_what_could_not_be_told_for_long_is_left_to_the_count(shared: Shared, flaky: Flaky) -> None:
    process = shared.process(over=flaky)
    flaky.away = True
    process.accept(shared.org, 10)
    shared.clock.s += MAX_WRITE_DELAY_S - 1
    process.accept(shared.org, 1)
    await process.recorder.sync()
    assert process.left == 0.0
    shared.clock.s += 1
    await process.recorder.sync()
    assert (process.left, process.used(shared.org)) == (11.0, 11), "it is believed here"
    process.accept(shared.org, 2)
    flaky.away = False
    await process.recorder.sync()
    assert await shared.known(process) == (2, 2)


async def test_usage_without_a_quota_is_told_once_a_minute(shared: Shared) -> None:
    process = shared.process()
    account = process.accounts.get(shared.org)
    account.accept(10, shared.clock.s)
    for seconds, told in ((UNLIMITED_INTERVAL_S - 1, 0), (1, 10)):
        shared.clock.s += seconds
        await process.recorder.sync()
        assert await shared.recorded() == told
    account.accept(5, shared.clock.s)
    await process.recorder.close()
    assert await shared.recorded() == 15


async def test_the_end_of_a_month_is_told_in_the_next(shared: Shared) -> None:
    process = shared.process()
    shared.clock.s = month().ends - 1
    process.accept(shared.org, 10)
    shared.clock.s += 1
    process.accept(shared.org, 1)
    await process.recorder.sync()
    assert (await shared.recorded(), await shared.recorded(NEXT_MONTH)) == (10, 1)


async def test_many_organizations_are_told_in_several_transactions(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_sync, "ACCOUNTS_PER_TRANSACTION", 3)
    async with shared.database.write() as connection:
        orgs = [(await organization_store.create_organization(connection, f"o{n}", f"O{n}")).id for n in range(8)]
    process = shared.process()
    for items, org in enumerate(orgs, 1):
        process.accept(org, items)
    await process.recorder.sync()
    assert [await recorded(shared.database, org) for org in orgs] == list(range(1, 9))
