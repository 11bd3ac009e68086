"""Synchronizes accounts with the record, the table `quota_usage`.

Every item is written once. A transaction with an unknown outcome (the response to its commit was lost) may have written
it, so it is not written again. Nor are items that could not be written within MAX_WRITE_DELAY_S: soon after, a recount
of the telemetry store may include them. Both are left to the recount (`recount`): the record may have too few items for
a while, and has none twice.
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

LOOK_UP_TIMEOUT_S: Final = 0.5  # how long the first request of an organization waits at most
UNLIMITED_INTERVAL_S: Final = 60.0  # between writes for an organization without a quota
MAX_WRITE_DELAY_S: Final = 200.0  # after an item is accepted
ACCOUNTS_PER_TRANSACTION: Final = 200  # a transaction blocks other writers


class DatabaseSync:
    """Writes the usage of this process to the record, and reads that of all processes."""

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
        """Read the record for the first request of an account; concurrent requests share the read. After
        LOOK_UP_TIMEOUT_S they continue without it, and a later `sync` reads it. Raises nothing.
        """
        key = (account.org_id, account.month.name)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.get_running_loop().create_task(self._look_up(account))
            lookup.add_done_callback(lambda _: self._lookups.pop(key, None))
        await asyncio.wait((lookup,), timeout=LOOK_UP_TIMEOUT_S)
        account.is_looked_up = True

    async def sync(self) -> None:
        """Write new usage, and read the record of organizations whose requests needed it."""
        now_s = self._clock()
        to_write, to_read = list[Account](), list[Account]()
        for account in self._accounts.all():
            if account.unrecorded and now_s - account.unrecorded_since >= MAX_WRITE_DELAY_S:
                self._defer_to_recount(account, account.recordable, now_s)
            if account.recordable and self._is_due(account, now_s):
                to_write.append(account)
            elif account.needs_refresh:
                to_read.append(account)
        try:
            await self._write_all(to_write)
            for _, group in groupby(sorted(to_read, key=_month), key=_month):
                await self._read(list(group))
        except DatabaseUnavailable:
            self._metrics.failures.labels("database").inc()

    async def close(self) -> None:
        """Write the remaining usage."""
        lookups = list(self._lookups.values())
        for task in lookups:
            task.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
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
        written = [(account, account.recordable) for account in accounts]
        totals: list[int] = []
        try:
            async with self._database.write() as connection:
                for account, items in written:
                    totals.append(await add_usage(connection, account.month.name, account.org_id, items))
        except BaseException:  # also a cancellation
            if len(totals) == len(written):  # the commit failed: its outcome is unknown
                for account, items in written:
                    self._defer_to_recount(account, items, now_s)
            raise
        for (account, items), total in zip(written, totals, strict=True):
            account.needs_refresh = False
            account.record(total, items, now_s)

    async def _read(self, accounts: Sequence[Account]) -> None:
        """Read the totals of accounts, all of one month."""
        for account in accounts:
            account.needs_refresh = False
        async with self._database.read() as connection:
            totals = await read_usage(connection, accounts[0].month.name, [one.org_id for one in accounts])
        for account in accounts:
            account.observe_total(totals.get(account.org_id, 0))


def _month(account: Account) -> str:
    return account.month.name
