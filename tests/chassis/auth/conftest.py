import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import CollectorRegistry

from chassis.auth.cache import CacheMetrics
from chassis.auth.credential_guards import BearerGuard, ProjectKeyGuard
from chassis.db.database import Database
from tests.chassis.auth.tenants import Clock, Tenant, new_tenant
from tests.databases import WAIT_S


@pytest.fixture
async def acme(database: Database) -> Tenant:
    return await new_tenant(database, "acme", ("iban", "tax_id"))


@pytest.fixture
async def globex(database: Database) -> Tenant:
    return await new_tenant(database, "globex")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def keys(database: Database, metrics: CollectorRegistry, clock: Clock) -> AsyncIterator[ProjectKeyGuard]:
    guard = ProjectKeyGuard(database, CacheMetrics(metrics), clock=clock)
    yield guard
    await guard.close()


@pytest.fixture
async def bearer(database: Database, clock: Clock) -> AsyncIterator[BearerGuard]:
    guard = BearerGuard(database, CacheMetrics(None), clock=clock, now=clock.now)
    yield guard
    await guard.close()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """A loop for tests that hypothesis calls many times."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def running_bearer(runner: asyncio.Runner, migrated_url: str) -> Iterator[BearerGuard]:
    database = Database(migrated_url, max_wait_s=WAIT_S)
    runner.run(database.start())
    guard = BearerGuard(database, CacheMetrics(None))
    yield guard
    runner.run(guard.close())
    runner.run(database.close())


@pytest.fixture
def tenants(runner: asyncio.Runner, running_bearer: BearerGuard) -> tuple[Tenant, Tenant]:
    """Acme and Globex in the store of `running_bearer`."""
    database = running_bearer._database
    return runner.run(new_tenant(database, "acme")), runner.run(new_tenant(database, "globex"))
