"""Exchange with Redis, where processes see what each other accepted before the record has it.

A counter for each organization and month, which each process adds to. It is raised to what the record is known to have,
so that one that was lost, or is new, begins there.
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

# KEYS: counters. ARGV, for each of them: what to add, what it has at least, when it expires. Returns what they have.
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
    """Tells Redis what was accepted here, and learns what all have told it."""

    def __init__(self, accounts: Accounts, redis: Redis, metrics: QuotaMetrics) -> None:
        self._accounts = accounts
        self._redis = redis
        self._metrics = metrics

    async def sync(self) -> None:
        """Exchange all that have news, and those that somebody asked about."""
        due = [one for one in self._accounts.all() if one.unshared or (one.has_quota and one.needs_refresh)]
        for start in range(0, len(due), ACCOUNTS_PER_CALL):
            await self._exchange(due[start : start + ACCOUNTS_PER_CALL])

    async def _exchange(self, accounts: Sequence[Account]) -> None:
        told = [(account, account.unshared) for account in accounts]
        keys = [f"{KEY_PREFIX}:{account.org_id}:{account.month.name}" for account in accounts]
        arguments = [
            argument
            for account, items in told
            for argument in (items, account.recorded, account.month.ends + KEY_RETENTION_S)
        ]
        try:
            totals = await self._redis.run(_ADD, keys, arguments)
        except RedisUnavailable:  # it may have been told: what it lacks it gets from the record
            self._metrics.failures.labels("redis").inc()
            totals = [account.shared for account in accounts]
        for (account, items), total in zip(told, totals, strict=True):
            account.share(int(total), items)
