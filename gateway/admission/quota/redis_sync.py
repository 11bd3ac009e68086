"""Synchronizes accounts through Redis, where processes see each other's usage before the record has it.

There is one counter for each organization and month, which each process adds to. It is raised to the known total of the
record, so that a new or lost counter starts there.
"""

from collections.abc import Sequence
from typing import Final

from chassis.redis import Redis, RedisUnavailable, Script
from gateway.admission.quota.accounts import Account, Accounts
from gateway.admission.quota.metrics import QuotaMetrics

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
    """Adds the usage of this process to Redis, and reads that of all processes."""

    def __init__(self, accounts: Accounts, redis: Redis, metrics: QuotaMetrics) -> None:
        self._accounts = accounts
        self._redis = redis
        self._metrics = metrics

    async def sync(self) -> None:
        """Synchronize accounts with new usage, and those with a quota whose requests needed the usage."""
        due = [one for one in self._accounts.all() if one.unshared or (one.has_quota and one.needs_refresh)]
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
        except RedisUnavailable:  # it may have added them; if not, the record makes up for it
            self._metrics.failures.labels("redis").inc()
            totals = [account.shared for account in accounts]
        for (account, items), total in zip(increments, totals, strict=True):
            account.share(int(total), items)
