"""Synchronizes the accounts of quotas (`gateway.admission.quota`) in the background, with each store in its own way.

`DatabaseSync`: the record, the table `quota_usage`. Every item is written once. If the result of a transaction is
unknown (the response to its commit was lost), it may have written its items, so they are not written again. Items that
could not be written within MAX_WRITE_DELAY_S are not written either: soon after, a recount of the telemetry store may
include them. The recount adds the items of both cases: the record may have too few items for a while, but never counts
an item twice.

`RedisSync`: one counter for each organization and month, to which each process adds, so that processes see each other's
usage before it is in the record. The counter is raised to the known total of the record: a new or lost counter starts
at that total.

`Recounter`: raises the record to the accepted items of `ingest_outcomes`, and never lowers it, because the count may be
too low. Its rows lag behind the items, by hours while the telemetry store is unavailable. Rows expire after the
retention, which may be shorter than a month. And the items of the last RECOUNT_LAG_S are excluded, because they may
still be written to the record and would count twice. The recount repairs the record after a process was killed before
it wrote its last second, after the database was unavailable, and after it was restored from a backup.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, Self

import structlog
from prometheus_client import CollectorRegistry, Counter

from chassis.auth.usage import add_usage, claim_recount, list_project_ids, read_usage, set_usage_at_least
from chassis.clickhouse import QueryLimits, StoreError
from chassis.db.database import Database, DatabaseUnavailable
from chassis.redis import Redis, RedisUnavailable, Script
from chassis.runtime.periodic import PeriodicTask, cancel_tasks
from gateway.admission.quota import NANOS_PER_SECOND, Account, Accounts, Quota


class QuotaMetrics:
    """Failures of synchronization and their effect; without labels of organizations."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.failures = Counter(
            "sluice_gateway_quota_failures",
            "Failed synchronizations of quota usage, by store. Until one succeeds, the last known usage applies.",
            ("store",),
            registry=registry,
        )
        self.deferred_to_recount = Counter(
            "sluice_gateway_quota_left_items",
            "Items that were not written to the quota record in time. They count after the next recount in ClickHouse.",
            registry=registry,
        )
        for store in ("database", "redis", "clickhouse"):
            self.failures.labels(store)


LOOK_UP_TIMEOUT_S: Final = 0.5  # the longest that the first request of an organization waits
UNLIMITED_INTERVAL_S: Final = 60.0  # between writes for an organization without a quota
MAX_WRITE_DELAY_S: Final = 200.0  # after an item is accepted
ACCOUNTS_PER_TRANSACTION: Final = 200  # a transaction blocks other writers


class DatabaseSync:
    """Writes the usage of this process to the record, and reads the usage of all processes."""

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
            for month in sorted({account.month.name for account in to_read}):
                await self._read([account for account in to_read if account.month.name == month])
        except DatabaseUnavailable:
            self._metrics.failures.labels("database").inc()

    async def close(self) -> None:
        """Write the remaining usage."""
        await cancel_tasks(*self._lookups.values())
        try:
            await self._write_all([account for account in self._accounts.all() if account.recordable])
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
            if len(totals) == len(written):  # the commit failed: its result is unknown
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
            totals = await read_usage(connection, accounts[0].month.name, [account.org_id for account in accounts])
        for account in accounts:
            account.recorded = totals.get(account.org_id, 0)


SYNC_INTERVAL_S: Final = 0.2
ACCOUNTS_PER_CALL: Final = 100  # accounts in a call
KEY_RETENTION_S: Final = 86_400  # after the end of the month
KEY_PREFIX: Final = "sluice:quota"

# KEYS: counters. ARGV, for each of them: increment, minimum, expiry (seconds since 1970). Returns the totals.
_ADD: Final = Script(
    """
local totals = {}
for i, key in ipairs(KEYS) do
  local add, least, expires = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local total = redis.call('INCRBY', key, add)
  if total < tonumber(least) then
    redis.call('SET', key, least)
    total = tonumber(least)
  end
  redis.call('EXPIREAT', key, expires)
  totals[i] = string.format('%.0f', total)
end
return totals
"""
)


class RedisSync:
    """Adds the usage of this process to Redis, and reads the usage of all processes."""

    def __init__(self, accounts: Accounts, redis: Redis, metrics: QuotaMetrics) -> None:
        self._accounts = accounts
        self._redis = redis
        self._metrics = metrics

    async def sync(self) -> None:
        """Synchronize accounts with new usage, and those with a quota whose requests needed the usage."""
        due = [
            account
            for account in self._accounts.all()
            if account.unshared or (account.has_quota and account.needs_refresh)
        ]
        for start in range(0, len(due), ACCOUNTS_PER_CALL):
            await self._exchange(due[start : start + ACCOUNTS_PER_CALL])

    async def _exchange(self, accounts: Sequence[Account]) -> None:
        increments = [(account, account.unshared) for account in accounts]
        keys = [f"{KEY_PREFIX}:{account.org_id}:{account.month.name}" for account in accounts]
        arguments = [
            argument
            for account, items in increments
            for argument in (items, account.recorded, account.month.ends + KEY_RETENTION_S)
        ]
        try:
            totals = await self._redis.run(_ADD, keys, arguments)
        except RedisUnavailable:  # it may have added the items; if not, raising it to the record repairs it
            self._metrics.failures.labels("redis").inc()
            totals = [account.shared for account in accounts]
        for (account, items), total in zip(increments, totals, strict=True):
            account.share(int(total), items)


POLL_INTERVAL_S: Final = 5.0  # between two checks of which accounts are due
RECOUNT_INTERVAL: Final = timedelta(minutes=15)  # for each organization, by one process for all
RECOUNT_LAG_S: Final = MAX_WRITE_DELAY_S + 100.0
PROJECTS_PER_QUERY: Final = 1_000  # in one statement

_LIMITS: Final = QueryLimits(max_seconds=30)
_COUNT_SQL: Final = (
    "SELECT toInt64(sum(items)) FROM ingest_outcomes WHERE project_id IN {projects:Array(UInt64)}"
    " AND outcome = 'accepted' AND time >= fromUnixTimestamp64Milli({begins:Int64}, 'UTC')"
    " AND time < fromUnixTimestamp64Milli({ends:Int64}, 'UTC')"
)


class OutcomeReader(Protocol):
    """The operations of the telemetry store that a recount uses. They raise StoreError."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class Recounter:
    """Recounts the month of organizations that have a quota and a key in use in this process."""

    def __init__(
        self,
        accounts: Accounts,
        database: Database,
        reader: OutcomeReader,
        metrics: QuotaMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since 1970."""
        self._accounts = accounts
        self._database = database
        self._reader = reader
        self._metrics = metrics
        self._clock = clock

    async def recount_due(self) -> None:
        """Recount the accounts that are due, unless another process has claimed the recount."""
        now_s = self._clock()
        due = [
            account
            for account in self._accounts.all()
            if account.has_quota and account.recount_at <= now_s < account.month.ends
        ]
        for account in due:
            account.recount_at = now_s + RECOUNT_INTERVAL.total_seconds()
            try:
                await self._recount(account, now_s)
            except DatabaseUnavailable:
                self._metrics.failures.labels("database").inc()
            except StoreError:
                self._metrics.failures.labels("clickhouse").inc()

    async def _recount(self, account: Account, now_s: float) -> None:
        month, org_id = account.month.name, account.org_id
        async with self._database.write() as connection:
            if not await claim_recount(connection, month, org_id, datetime.fromtimestamp(now_s, UTC), RECOUNT_INTERVAL):
                return
            projects = await list_project_ids(connection, org_id)
        counted = await self._count(projects, account.month.begins, now_s - RECOUNT_LAG_S)
        async with self._database.write() as connection:
            account.recorded = await set_usage_at_least(connection, month, org_id, counted)

    async def _count(self, projects: Sequence[int], begins_s: float, ends_s: float) -> int:
        total = 0
        for start in range(0, len(projects), PROJECTS_PER_QUERY):
            bound = {
                "projects": list(projects[start : start + PROJECTS_PER_QUERY]),
                "begins": round(begins_s * 1_000),
                "ends": round(ends_s * 1_000),
            }
            ((items,),) = await self._reader.query(_COUNT_SQL, bound, limits=_LIMITS)
            total += int(str(items))
        return total


CLOSE_S: Final = 3.0  # for a synchronization in progress, on shutdown


@dataclass(frozen=True, slots=True)
class QuotaService:
    """The checks of requests (`quota`), and the synchronization of accounts with the stores."""

    quota: Quota
    database_sync: DatabaseSync
    redis_sync: RedisSync | None
    periodic_tasks: tuple[PeriodicTask, ...]

    @classmethod
    def build(
        cls,
        database: Database,
        reader: OutcomeReader,
        redis: Redis | None,
        registry: CollectorRegistry,
        *,
        sync_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> Self:
        """Build it over stores that the caller starts and closes. `clock` gives nanoseconds since 1970."""

        def seconds() -> float:
            return clock() / NANOS_PER_SECOND

        metrics = QuotaMetrics(registry)
        accounts = Accounts(clock, has_redis=redis is not None)
        database_sync = DatabaseSync(accounts, database, metrics, seconds)
        recounter = Recounter(accounts, database, reader, metrics, seconds)

        def periodic(work: Callable[[], Awaitable[None]], every_s: float) -> PeriodicTask:
            return PeriodicTask(work, every_s, log, "quota synchronization failed", close_timeout_s=CLOSE_S)

        periodic_tasks = [periodic(database_sync.sync, sync_s), periodic(recounter.recount_due, POLL_INTERVAL_S)]
        redis_sync = None if redis is None else RedisSync(accounts, redis, metrics)
        if redis_sync is not None:
            periodic_tasks.append(periodic(redis_sync.sync, min(SYNC_INTERVAL_S, sync_s)))
        return cls(Quota(accounts, database_sync.look_up, clock), database_sync, redis_sync, tuple(periodic_tasks))

    def start(self) -> None:
        """Start synchronizing."""
        for task in self.periodic_tasks:
            task.start()

    async def close(self) -> None:
        """Stop, and write the remaining usage. To be called when no request is in flight."""
        for task in self.periodic_tasks:
            await task.close()
        if self.redis_sync is not None:
            await self.redis_sync.sync()
        await self.database_sync.close()
