"""Quotas: how many items an organization may send in a calendar month (UTC).

    Quota.admit      before a byte of the body is read: is anything left                       -> 429 quota_exceeded
    Quota.reserve    once the items are known: do they fit; counted when request is accepted  -> 429 quota_exceeded

Both check only the organization's `Account` in memory. Accounts are synchronized in the background: `DatabaseSync` adds
their usage to the record (a row of the relational store) every second, and reads the usage that other processes have
added. If there is a Redis, `RedisSync` does the same in Redis every fifth of a second, so that processes learn of each
other's usage sooner. `Recounter` counts the month's items in the telemetry store every 15 minutes, and raises the
record to that count.

A single process never exceeds a quota. Several processes together can exceed a quota by the items that they accept
between two synchronizations. An unavailable store causes no refusals: a process continues with the usage that it knows.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, NamedTuple

from chassis.errors import ApiError
from chassis.http.access import PROJECT
from chassis.limits.limiter import LimitResult
from chassis.limits.rate_limits import LIMIT_RESULT, ClientRequest
from proto.errors import ErrorCode

NANOS_PER_SECOND: Final = 10**9


class Month(NamedTuple):
    """A calendar month (UTC), such as "2026-11": from `begins` up to and excluding `ends`, in seconds since 1970."""

    name: str
    begins: int
    ends: int

    @classmethod
    def at(cls, now_s: int) -> "Month":
        """The month that contains a time in seconds since 1970."""
        begins = datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0)
        ends = begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
        return cls(f"{begins:%Y-%m}", int(begins.timestamp()), int(ends.timestamp()))


class Account:
    """Usage of one organization in one month. Items that this process accepted are `unrecorded` until they are in the
    database, and `unshared` until they are in Redis.

    Items are recorded only after they are shared. So Redis has all items that the record has. If Redis has fewer, it
    has lost data, and can be raised to the record without counting any item twice.
    """

    __slots__ = (
        *("recorded", "shared", "_has_redis", "needs_refresh", "has_quota", "is_looked_up", "month", "org_id"),
        *("recount_at", "reserved", "unrecorded", "unrecorded_since", "unshared"),
    )

    def __init__(self, org_id: str, month: Month, has_redis: bool) -> None:
        self.org_id = org_id
        self.month = month
        self.has_quota = False  # whether the organization had a quota at its last request
        self.needs_refresh = False  # whether a request needed the usage since the last synchronization
        self.is_looked_up = False  # whether a read of the record was tried, successfully or not
        self.recount_at = 0.0  # when this process next tries to recount
        self.reserved = 0  # items of requests in flight
        self.unrecorded = 0
        self.unrecorded_since = 0.0
        self.unshared = 0
        self._has_redis = has_redis
        self.recorded = 0  # the record when it was last read or written
        self.shared = 0  # the total in Redis at the last synchronization

    @property
    def used(self) -> int:
        """Items used in the month, as far as this process knows, including reserved ones."""
        return max(self.recorded + self.unrecorded, self.shared + self.unshared) + self.reserved

    @property
    def recordable(self) -> int:
        """Items to add to the record next: unrecorded items, and if there is a Redis, only those already in Redis."""
        return self.unrecorded - self.unshared

    @property
    def is_synced(self) -> bool:
        """Whether every item of this process is in the stores, so that the account can be dropped."""
        return not (self.reserved or self.unrecorded or self.unshared)

    def accept(self, items: int, now_s: float) -> None:
        """Count the items of a request that was accepted."""
        if not self.unrecorded:
            self.unrecorded_since = now_s
        self.unrecorded += items
        if self._has_redis:
            self.unshared += items

    def record(self, total: int, items: int, now_s: float) -> None:
        """Note that the record has `total`, including `items` of this process that were written at `now_s`."""
        self.recorded = total
        self.unrecorded -= items
        self.unrecorded_since = now_s

    def defer_to_recount(self, items: int, now_s: float) -> None:
        """Do not write these items: the record may have them already, or they are so old that a recount may have
        counted them. This process counts them until the record is read again.
        """
        self.record(self.recorded + items, items, now_s)

    def share(self, total: int, items: int) -> None:
        """Note that Redis has `total`, including `items` that this process has just added."""
        self.shared = total
        self.unshared -= items


class Accounts:
    """The accounts of this process: one for each organization with a key in use, so their number is bounded."""

    def __init__(self, clock: Callable[[], int], *, has_redis: bool = False) -> None:
        """`clock` gives nanoseconds since 1970. `has_redis`: whether usage is shared through a Redis."""
        self._clock = clock
        self._has_redis = has_redis
        self._month = Month.at(clock() // NANOS_PER_SECOND)
        self._accounts: dict[tuple[str, str], Account] = {}

    def get(self, org_id: str) -> Account:
        """The organization's account of the current month, created if there is none."""
        month = self._month
        now_s = self._clock() // NANOS_PER_SECOND
        if not month.begins <= now_s < month.ends:
            month = self._month = Month.at(now_s)
        account = self._accounts.get((org_id, month.name))
        if account is None:
            account = self._accounts[org_id, month.name] = Account(org_id, month, self._has_redis)
        return account

    def all(self) -> Iterable[Account]:
        """Return every account; drops accounts of past months once they are synchronized."""
        past = [
            key for key, account in self._accounts.items() if account.month is not self._month and account.is_synced
        ]
        for key in past:
            del self._accounts[key]
        return list(self._accounts.values())


class QuotaExceeded(ApiError):
    """429: the organization has used its items of the month; `retry_after` is the rest of the month, in whole
    seconds."""

    def __init__(self, message: str, retry_after: int, *, close: bool = False) -> None:
        super().__init__(ErrorCode.QUOTA_EXCEEDED, message, retry_after=retry_after, close=close)


class Quota:
    """Checks requests against the quota of their organization, by the usage in its account."""

    def __init__(
        self, accounts: Accounts, look_up: Callable[[Account], Awaitable[None]], clock: Callable[[], int]
    ) -> None:
        """`look_up` reads the record for an account that is new in this process; it must not raise."""
        self._accounts = accounts
        self._look_up = look_up
        self._clock = clock

    async def admit(self, request: ClientRequest) -> None:
        """Raises QuotaExceeded when nothing is left; then the body is not read, and the connection is closed."""
        project = request[PROJECT]
        if not project.monthly_items:
            return
        account = self._accounts.get(project.org_id)
        account.needs_refresh = account.has_quota = True
        if not account.is_looked_up:
            await self._look_up(account)
        if account.used >= project.monthly_items:
            self._refuse(request, account, "It is used up. The next month has a new quota.", close=True)

    def reserve(self, request: ClientRequest, items: int) -> "Reservation":
        """A reservation to hold while the request is submitted; its items count if the request is accepted. Raises
        QuotaExceeded when the items do not fit; then no item of the request is accepted.
        """
        project = request[PROJECT]
        account = self._accounts.get(project.org_id)
        account.has_quota = project.monthly_items > 0
        left = project.monthly_items - account.used
        if account.has_quota and items > left:
            self._refuse(request, account, f"{max(0, left)} items remain, but the request has {items} items.")
        return Reservation(account, items, self._clock)

    def _refuse(self, request: ClientRequest, account: Account, why: str, *, close: bool = False) -> None:
        monthly_items = request[PROJECT].monthly_items
        ends = account.month.ends
        retry_after = max(1, ends - self._clock() // NANOS_PER_SECOND)
        left = max(0, monthly_items - account.used)
        request[LIMIT_RESULT] = LimitResult(monthly_items, left, ends, retry_after * NANOS_PER_SECOND)
        raise QuotaExceeded(
            f"The organization's quota is {monthly_items} items per month (UTC). {why}", retry_after, close=close
        )


class Reservation:
    """Items of one request: reserved inside the `with` block, accepted when it succeeds, released when it raises."""

    __slots__ = ("_account", "_clock", "_items")

    def __init__(self, account: Account, items: int, clock: Callable[[], int]) -> None:
        self._account = account
        self._items = items
        self._clock = clock

    def __enter__(self) -> None:
        self._account.reserved += self._items

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._account.reserved -= self._items
        if kind is None and self._items:
            self._account.accept(self._items, self._clock() / NANOS_PER_SECOND)
