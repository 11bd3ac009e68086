"""Processes that tell one record what they accepted, and learn from it what the others did."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable
from control.identity import organization_repository
from gateway.admission.quota import db_sync
from gateway.admission.quota.db_sync import MAX_WRITE_DELAY_S, UNLIMITED_INTERVAL_S
from tests.gateway.admission.quota.conftest import NEXT_MONTH, Clock, Process, month, recorded

NewProcess = Callable[..., Process]


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
def flaky(database: Database) -> Flaky:
    return Flaky(database)


async def test_what_one_accepts_the_others_know_after_two_rounds(
    new_process: NewProcess, database: Database, org: str
) -> None:
    first, second = new_process(), new_process()
    first.accept(org, 10)
    first.accept(org, 5)
    second.accept(org, 1)
    await first.recorder.sync()
    assert (first.used(org), await recorded(database, org)) == (15, 15)
    await second.recorder.sync()
    assert second.used(org) == await recorded(database, org) == 16
    await first.recorder.sync()
    assert first.used(org) == 16
    for each in (first, second, first):
        await each.recorder.sync()
    assert await recorded(database, org) == 16, "nothing is told twice"


async def test_a_process_that_starts_begins_with_what_the_record_has(
    new_process: NewProcess, database: Database, org: str
) -> None:
    first, second = new_process(), new_process()
    first.accept(org, 10)
    await first.recorder.close()
    account = second.accounts.get(org)
    await asyncio.gather(*(second.recorder.look_up(account) for _ in range(20)))
    assert (account.is_looked_up, account.used) == (True, 10)


async def test_items_accepted_while_the_record_is_told_are_told_the_next_time(
    new_process: NewProcess, database: Database, org: str
) -> None:
    process = new_process()

    class Meanwhile:
        def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
            process.accept(org, 100)
            return database.write()

    process.accept(org, 1)
    process.recorder._database = Meanwhile()  # type: ignore[assignment]
    await process.recorder.sync()
    assert (process.used(org), await recorded(database, org)) == (101, 1)
    process.recorder._database = database
    await process.recorder.sync()
    assert (process.used(org), await recorded(database, org)) == (101, 101)


async def test_a_record_that_is_away_is_told_when_it_is_back(
    new_process: NewProcess, database: Database, flaky: Flaky, org: str
) -> None:
    process = new_process(over=flaky)
    flaky.away = True
    await process.recorder.look_up(process.account(org))
    process.accept(org, 10)
    await process.recorder.sync()
    assert (process.used(org), process.failures("database")) == (10, 2.0)
    flaky.away = False
    await process.recorder.sync()
    assert (process.used(org), await recorded(database, org), process.left) == (10, 10, 0.0)


async def test_one_that_hangs_holds_up_the_first_request_for_a_moment_and_no_other(
    new_process: NewProcess, flaky: Flaky, org: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_sync, "LOOK_UP_TIMEOUT_S", 0.02)
    process = new_process(over=flaky)
    flaky.hangs = True
    account = process.accounts.get(org)
    async with asyncio.timeout(10):
        await process.recorder.look_up(account)
    assert account.is_looked_up
    flaky.hangs = False
    await process.recorder.close()


async def test_what_may_have_been_told_is_not_told_again(
    new_process: NewProcess, database: Database, flaky: Flaky, org: str
) -> None:
    process = new_process(over=flaky)
    flaky.loses_answers = True
    process.accept(org, 10)
    await process.recorder.sync()
    assert (process.used(org), process.left, await recorded(database, org)) == (10, 10.0, 10)
    flaky.loses_answers = False
    process.accept(org, 1)
    await process.recorder.sync()
    assert (process.used(org), await recorded(database, org)) == (11, 11)


async def test_what_could_not_be_told_for_long_is_left_to_the_count(
    new_process: NewProcess, database: Database, flaky: Flaky, org: str, clock: Clock
) -> None:
    process = new_process(over=flaky)
    flaky.away = True
    process.accept(org, 10)
    clock.s += MAX_WRITE_DELAY_S - 1
    process.accept(org, 1)
    await process.recorder.sync()
    assert process.left == 0.0
    clock.s += 1
    await process.recorder.sync()
    assert (process.left, process.used(org)) == (11.0, 11), "it is believed here"
    process.accept(org, 2)
    flaky.away = False
    await process.recorder.sync()
    assert (await recorded(database, org), process.used(org)) == (2, 2)


async def test_usage_without_a_quota_is_told_once_a_minute(
    new_process: NewProcess, database: Database, org: str, clock: Clock
) -> None:
    process = new_process()
    account = process.accounts.get(org)
    account.accept(10, clock.s)
    clock.s += UNLIMITED_INTERVAL_S - 1
    await process.recorder.sync()
    assert await recorded(database, org) == 0
    clock.s += 1
    await process.recorder.sync()
    assert await recorded(database, org) == 10
    account.accept(5, clock.s)
    await process.recorder.close()
    assert await recorded(database, org) == 15


async def test_the_end_of_a_month_is_told_in_the_next(
    new_process: NewProcess, database: Database, org: str, clock: Clock
) -> None:
    process = new_process()
    clock.s = month().ends - 1
    process.accept(org, 10)
    clock.s += 1
    process.accept(org, 1)
    await process.recorder.sync()
    assert (await recorded(database, org), await recorded(database, org, NEXT_MONTH)) == (10, 1)


async def test_many_organizations_are_told_in_several_transactions(
    new_process: NewProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_sync, "ACCOUNTS_PER_TRANSACTION", 3)
    async with database.write() as connection:
        orgs = [(await organization_repository.create_organization(connection, f"o{n}", f"O{n}")).id for n in range(8)]
    process = new_process()
    for items, org in enumerate(orgs, 1):
        process.accept(org, items)
    await process.recorder.sync()
    assert [await recorded(database, org) for org in orgs] == list(range(1, 9))


async def test_nothing_is_asked_of_the_record_while_nothing_happens(
    new_process: NewProcess, flaky: Flaky, org: str
) -> None:
    process = new_process(over=flaky)
    process.accept(org, 1)
    await process.recorder.sync()
    flaky.away = True
    for _ in range(3):
        await process.recorder.sync()
    assert process.failures("database") == 0.0
