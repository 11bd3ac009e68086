"""Exchange with the record, the table `quota_usage`.

Every item is told once. A transaction whose end is unknown (the answer to its commit was lost) may have told it, so it
is not told again. Nor is what could not be told within TELL_WITHIN_S: soon after, somebody who counts what the
telemetry store has may count it. Both are left to that count (`recounting`): the record may have too few items for a
while, and has none twice.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from chassis.auth.usage import add_usage, read_usage
from chassis.db.database import Database, DatabaseUnavailable
from gateway.admission.quota.accounts import Account, Accounts
from gateway.admission.quota.metrics import QuotaMetrics

LOOK_UP_TIMEOUT_S: Final = 0.5  # what the first request of an organization waits at most
UNLIMITED_INTERVAL_S: Final = 60.0  # how often usage is told that no quota depends on
MAX_WRITE_DELAY_S: Final = 200.0  # of an item's being accepted
ACCOUNTS_PER_TRANSACTION: Final = 200  # accounts in a transaction, which has the turn to write


class DatabaseSync:
    """Tells what was accepted here, learns what others have told."""

    def __init__(
        self,
        accounts: Accounts,
        database: Database,
        metrics: QuotaMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since 1970."""
        self._accounts = accounts
        self._database = database
        self._metrics = metrics
        self._clock = clock
        self._lookups: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def look_up(self, account: Account) -> None:
        """What the record has, for the first request of an account; those that come meanwhile share the answer. Without
        one in time they go on, and a later round brings it.
        """
        key = (account.org_id, account.month.name)
        looking = self._lookups.get(key)
        if looking is None:
            looking = self._lookups[key] = asyncio.get_running_loop().create_task(self._look_up(account))
            looking.add_done_callback(lambda _: self._lookups.pop(key, None))
        await asyncio.wait((looking,), timeout=LOOK_UP_TIMEOUT_S)
        account.is_looked_up = True

    async def sync(self) -> None:
        """Tell, and learn of those organizations that somebody asked about."""
        now_s = self._clock()
        telling, asking = list[Account](), list[Account]()
        for account in self._accounts.all():
            if account.unrecorded and now_s - account.unrecorded_since >= MAX_WRITE_DELAY_S:
                self._defer_to_recount(account, account.recordable, now_s)
            if account.recordable and self._is_due(account, now_s):
                telling.append(account)
            elif account.needs_refresh:
                asking.append(account)
        try:
            await self._write_all(telling)
            for _, group in groupby(sorted(asking, key=_month), key=_month):
                await self._read(list(group))
        except DatabaseUnavailable:
            self._metrics.failures.labels("database").inc()

    async def close(self) -> None:
        """Tell what is left."""
        looking = list(self._lookups.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        try:
            await self._write_all([one for one in self._accounts.all() if one.recordable])
        except DatabaseUnavailable:
            self._metrics.failures.labels("database").inc()

    async def _look_up(self, account: Account) -> None:
        try:
            await self._read([account])
        except DatabaseUnavailable:
            self._metrics.failures.labels("database").inc()

    def _is_due(self, account: Account, now_s: float) -> bool:
        return account.has_quota or now_s - account.unrecorded_since >= UNLIMITED_INTERVAL_S

    def _defer_to_recount(self, account: Account, items: int, now_s: float) -> None:
        account.defer_to_recount(items, now_s)
        self._metrics.deferred_to_recount.inc(items)

    async def _write_all(self, accounts: Sequence[Account]) -> None:
        for start in range(0, len(accounts), ACCOUNTS_PER_TRANSACTION):
            await self._write(accounts[start : start + ACCOUNTS_PER_TRANSACTION])

    async def _write(self, accounts: Sequence[Account]) -> None:
        now_s = self._clock()
        told = [(account, account.recordable) for account in accounts]
        totals: list[int] = []
        try:
            async with self._database.write() as connection:
                for account, items in told:
                    totals.append(await add_usage(connection, account.month.name, account.org_id, items))
        except BaseException:  # of a cancellation as well
            if len(totals) == len(told):  # it was the commit: whether it happened is unknown
                for account, items in told:
                    self._defer_to_recount(account, items, now_s)
            raise
        for (account, items), total in zip(told, totals, strict=True):
            account.needs_refresh = False
            account.record(total, items, now_s)

    async def _read(self, accounts: Sequence[Account]) -> None:
        """Of accounts of one month."""
        for account in accounts:
            account.needs_refresh = False
        async with self._database.read() as connection:
            totals = await read_usage(connection, accounts[0].month.name, [one.org_id for one in accounts])
        for account in accounts:
            account.observe_total(totals.get(account.org_id, 0))


def _month(account: Account) -> str:
    return account.month.name
