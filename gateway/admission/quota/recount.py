"""Recounts the month in the telemetry store, and raises the record to the accepted items of `ingest_outcomes`.

The record is raised, never lowered, because the count has at most what was accepted: its rows lag behind the items, by
hours while the telemetry store is unavailable; they expire after the retention, which may be shorter than a month; and
the items of the last RECOUNT_LAG_S are excluded, because they may still be written to the record and would count twice.
The recount repairs the record after a process was killed before it wrote its last second, after the database was
unavailable, and after it was restored from a backup.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from chassis.auth.usage import claim_recount, list_project_ids, set_usage_at_least
from chassis.clickhouse import QueryLimits, StoreError
from chassis.db.database import Database, DatabaseUnavailable
from gateway.admission.quota.accounts import Account, Accounts
from gateway.admission.quota.db_sync import MAX_WRITE_DELAY_S
from gateway.admission.quota.metrics import QuotaMetrics

POLL_INTERVAL_S: Final = 5.0  # between two checks which accounts are due
RECOUNT_INTERVAL: Final = timedelta(minutes=15)  # for each organization, by one of all processes
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
        due = [one for one in self._accounts.all() if one.has_quota and one.recount_at <= now_s < one.month.ends]
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
            account.observe_total(await set_usage_at_least(connection, month, org_id, counted))

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
