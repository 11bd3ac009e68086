"""The check of a bearer whose token is known: who it is, what it may do at the place of a path."""

import asyncio
import time
from argparse import Namespace
from pathlib import Path
from typing import Final

from benchmarks.report import Table
from benchmarks.stores import opened
from chassis.auth.cache import CacheMetrics
from chassis.auth.credential_guards import BearerGuard
from chassis.db.database import Database
from chassis.db.migrations import migrate
from control.identity.organizations import organization_store
from tests.chassis.auth.tenants import new_tenant

TOKENS: Final = 1_000  # that take turns, so that no processor's cache makes it faster than it is
_ROUND: Final = 10_000


def measure(directory: Path, arguments: Namespace) -> None:
    """Print one row."""
    url = f"sqlite:///{directory / 'sluice.db'}"
    migrate(url)
    asyncio.run(_measure(url, arguments.seconds))


async def _measure(url: str, seconds: float) -> None:
    async with opened(url) as database:
        headers = await _tokens(database)
        # What is known stays so: what asking again costs, every five seconds, is the store's.
        guard = BearerGuard(database, CacheMetrics(None), clock=lambda: 0.0)
        for header in headers:
            await guard.authenticate(header)
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.process_time()
            for number in range(_ROUND):
                grant = await guard.authenticate(headers[number % TOKENS])
                await guard.authorize(grant, "acme", "web", ("approvals:read",))
            best = min(best, (time.process_time() - began) / _ROUND)
            await asyncio.sleep(0.01)  # the other work of the event loop
        await guard.close()
    table = Table({"check of one of many known tokens": "", "CPU us": ".1f"})
    table.row(f"the best round of {_ROUND}, {TOKENS} tokens", best * 1e6)


async def _tokens(database: Database) -> list[str]:
    tenant = await new_tenant(database, "acme")
    async with database.write() as connection:
        made = [
            await organization_store.create_token(connection, tenant.organization.id, tenant.owner_id, "t")
            for _ in range(TOKENS)
        ]
    return [f"Bearer {one.secret}" for one in made]
