"""Each organization's known usage of the month, and the part of it that is not written to the stores yet."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

NANOS_PER_SECOND: Final = 10**9


class Month(NamedTuple):
    """A calendar month (UTC), "2026-11"; from `begins` up to and excluding `ends`, seconds since 1970."""

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
    """Usage of one organization in one month. Items that this process accepted are `unrecorded` until the database has
    them, and `unshared` until Redis has them.

    Items that are not shared yet are not recorded either. So Redis has everything that the record has; a Redis with
    less has lost data, and can be raised to the record without counting anything twice.
    """

    __slots__ = (
        *("_recorded", "_shared", "_has_redis", "needs_refresh", "has_quota", "is_looked_up", "month", "org_id"),
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
        self._recorded = 0  # the record when it was last read or written
        self._shared = 0

    @property
    def used(self) -> int:
        """Items used in the month, as far as this process knows, including reserved ones."""
        return max(self._recorded + self.unrecorded, self._shared + self.unshared) + self.reserved

    @property
    def recorded(self) -> int:
        """The record's total when it was last read or written."""
        return self._recorded

    @property
    def shared(self) -> int:
        """Redis's total at the last synchronization."""
        return self._shared

    @property
    def recordable(self) -> int:
        """Items to add to the record next: unrecorded ones that Redis has, if there is a Redis."""
        return self.unrecorded - self.unshared

    @property
    def is_synced(self) -> bool:
        """Whether every item of this process is in the stores, so that the account can be dropped."""
        return not (self.reserved or self.unrecorded or self.unshared)

    def accept(self, items: int, now_s: float) -> None:
        """Count the items of a request that was taken."""
        if not self.unrecorded:
            self.unrecorded_since = now_s
        self.unrecorded += items
        if self._has_redis:
            self.unshared += items

    def observe_total(self, total: int) -> None:
        """The record was read, and has `total` items."""
        self._recorded = total

    def record(self, total: int, items: int, now_s: float) -> None:
        """The record has `total`, with `items` of this process that were written at `now_s`."""
        self._recorded = total
        self.unrecorded -= items
        self.unrecorded_since = now_s

    def defer_to_recount(self, items: int, now_s: float) -> None:
        """Do not write these items: the record may have them already, or they are so old that a recount may have
        counted them. This process counts them until the record is read again.
        """
        self.record(self._recorded + items, items, now_s)

    def share(self, total: int, items: int) -> None:
        """Redis has `total`, with `items` of this process that it did not have before."""
        self._shared = total
        self.unshared -= items


class Accounts:
    """The accounts of this process: one for each organization with a key in use, so bounded by their number."""

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
        """Every account; drops those of past months once they are synchronized."""
        past = [key for key, one in self._accounts.items() if one.month is not self._month and one.is_synced]
        for key in past:
            del self._accounts[key]
        return list(self._accounts.values())
