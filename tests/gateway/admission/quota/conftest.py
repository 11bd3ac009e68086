"""Organizations in a real relational store, and processes that share it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from chassis.auth import usage
from chassis.auth.guards import AuthGuards
from chassis.db.database import Database
from chassis.redis import Redis, open_redis
from control.identity.organizations import organization_store
from gateway.admission.quota import NANOS_PER_SECOND, Account, Accounts, Month
from gateway.admission.quota_sync import DatabaseSync, QuotaMetrics, RedisSync
from tests.gateway.conftest import Project, make_projects

NOW_S = 2_110_000_000  # 2036-11-11T07:06:40Z: stores have clocks of their own, and drop what is over by them
MONTH = "2036-11"
NEXT_MONTH = "2036-12"


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.s = float(NOW_S)

    def ns(self) -> int:
        return round(self.s * NANOS_PER_SECOND)

    def seconds(self) -> float:
        return self.s


@dataclass
class Process:
    """One gateway, as far as quotas are concerned; its exchanges happen when a test says so."""

    accounts: Accounts
    recorder: DatabaseSync
    sharer: RedisSync | None
    metrics: CollectorRegistry
    counted: QuotaMetrics
    clock: Clock

    def account(self, org_id: str) -> Account:
        account = self.accounts.get(org_id)
        account.has_quota = account.needs_refresh = True
        return account

    def accept(self, org_id: str, items: int) -> None:
        self.account(org_id).accept(items, self.clock.s)

    def used(self, org_id: str) -> int:
        return self.account(org_id).used

    async def share(self) -> None:
        assert self.sharer is not None
        await self.sharer.sync()

    def failures(self, store: str) -> float:
        return self.metrics.get_sample_value("sluice_gateway_quota_failures_total", {"store": store}) or 0.0

    @property
    def left(self) -> float:
        return self.metrics.get_sample_value("sluice_gateway_quota_left_items_total") or 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    database = Database(migrated_url, max_wait_s=5.0)
    await database.start()
    yield database
    await database.close()


@pytest.fixture
async def org(database: Database) -> str:
    """An organization."""
    async with database.write() as connection:
        return (await organization_store.create_organization(connection, "acme", "Acme")).id


def process(database: Any, clock: Clock, redis: Redis | None = None) -> Process:
    metrics = CollectorRegistry()
    counted = QuotaMetrics(metrics)
    accounts = Accounts(clock.ns, has_redis=redis is not None)
    sharer = None if redis is None else RedisSync(accounts, redis, counted)
    recorder = DatabaseSync(accounts, database, counted, clock.seconds)
    return Process(accounts, recorder, sharer, metrics, counted, clock)


async def recorded(database: Database, org_id: str, month: str = MONTH) -> int:
    """What the record has."""
    async with database.read() as connection:
        return (await usage.read_usage(connection, month, [org_id])).get(org_id, 0)


@dataclass
class Shared:
    """The one relational store with an organization, the clock, and gateways over both."""

    database: Database
    org: str
    clock: Clock

    def process(self, redis: Redis | None = None, over: Any = None) -> Process:
        return process(over or self.database, self.clock, redis)

    async def recorded(self, month: str = MONTH) -> int:
        return await recorded(self.database, self.org, month)

    async def known(self, one: Process) -> tuple[int, int]:
        """What a process believes to be used, and what the record has."""
        return one.used(self.org), await self.recorded()


@pytest.fixture
def shared(database: Database, org: str, clock: Clock) -> Shared:
    return Shared(database, org, clock)


def month(now_s: int = NOW_S) -> Month:
    return Month.at(now_s)


Connect = Callable[[str], Awaitable[Redis]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A started Redis, closed with the test."""
    async with AsyncExitStack() as stack:

        async def connected(url: str) -> Redis:
            made = open_redis(url, 10.0)
            stack.push_async_callback(made.close)
            await made.start()
            return made

        yield connected


@pytest.fixture
async def checks(database: Database) -> AsyncIterator[AuthGuards]:
    """Guards over the store, in the place of those that other tests of the gateway have over a file."""
    checks = AuthGuards.create(database, None)
    yield checks
    await checks.bearer.close()
    await checks.project_keys.close()


@pytest.fixture
async def projects(checks: AuthGuards) -> list[Project]:
    """What `make_projects` makes, in the store of `checks`."""
    return await make_projects(checks.database)
