"""What is known of the month of each organization, and what of it the stores have not been told yet."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

NANOS_PER_SECOND: Final = 10**9


class Month(NamedTuple):
    """A calendar month (UTC), "2026-11"; from `begins` up to and without `ends`, seconds since 1970."""

    name: str
    begins: int
    ends: int

    @classmethod
    def at(cls, now_s: int) -> "Month":
        """The one that has this second."""
        begins = datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0)
        ends = begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
        return cls(f"{begins:%Y-%m}", int(begins.timestamp()), int(ends.timestamp()))


class Account:
    """One organization in one month. What was accepted here is, until a store has it, what that store was not told.

    What was not shared yet is not recorded either: so what is in the record is in Redis as well, and a Redis that has
    less has lost something, and may be raised to the record without counting anything twice.
    """

    __slots__ = (
        *("_recorded", "_shared", "_has_redis", "needs_refresh", "has_quota", "is_looked_up", "month", "org_id"),
        *("recount_at", "reserved", "unrecorded", "unrecorded_since", "unshared"),
    )

    def __init__(self, org_id: str, month: Month, has_redis: bool) -> None:
        self.org_id = org_id
        self.month = month
        self.has_quota = False  # whether the organization has a quota, when it was seen last
        self.needs_refresh = False  # whether somebody wanted to know since the last exchange
        self.is_looked_up = False  # whether the record was asked for, successfully or not
        self.recount_at = 0.0  # when it is this process's turn to try
        self.reserved = 0  # of requests under way
        self.unrecorded = 0
        self.unrecorded_since = 0.0
        self.unshared = 0
        self._has_redis = has_redis
        self._recorded = 0  # what the record had when it was seen last
        self._shared = 0

    @property
    def used(self) -> int:
        """As far as this process knows."""
        return max(self._recorded + self.unrecorded, self._shared + self.unshared) + self.reserved

    @property
    def recorded(self) -> int:
        """What the record had when it was seen last."""
        return self._recorded

    @property
    def shared(self) -> int:
        """What Redis had when it was seen last."""
        return self._shared

    @property
    def recordable(self) -> int:
        """What the record is to be told next."""
        return self.unrecorded - self.unshared

    @property
    def is_synced(self) -> bool:
        """Whether nothing is lost with it."""
        return not (self.reserved or self.unrecorded or self.unshared)

    def accept(self, items: int, now_s: float) -> None:
        """A request of this organization was taken."""
        if not self.unrecorded:
            self.unrecorded_since = now_s
        self.unrecorded += items
        if self._has_redis:
            self.unshared += items

    def observe_total(self, total: int) -> None:
        """The record has so many."""
        self._recorded = total

    def record(self, total: int, items: int, now_s: float) -> None:
        """The record has `total`, with `items` of ours that it was told at `now_s`."""
        self._recorded = total
        self.unrecorded -= items
        self.unrecorded_since = now_s

    def defer_to_recount(self, items: int, now_s: float) -> None:
        """The record is not told of these: it may have them already, or they are too old to tell from what others have
        counted. They are believed here until the record is seen again.
        """
        self.record(self._recorded + items, items, now_s)

    def share(self, total: int, items: int) -> None:
        """Redis has `total`, with `items` of ours that it had not before."""
        self._shared = total
        self.unshared -= items


class Accounts:
    """Those of this process: one for each organization with a key in use, of which the operator has so many."""

    def __init__(self, clock: Callable[[], int], *, has_redis: bool = False) -> None:
        """`clock` gives nanoseconds since 1970. `shares`: whether there is a Redis to tell."""
        self._clock = clock
        self._has_redis = has_redis
        self._month = Month.at(clock() // NANOS_PER_SECOND)
        self._accounts: dict[tuple[str, str], Account] = {}

    def get(self, org_id: str) -> Account:
        """The organization's account of this month."""
        month = self._month
        now_s = self._clock() // NANOS_PER_SECOND
        if not month.begins <= now_s < month.ends:
            month = self._month = Month.at(now_s)
        account = self._accounts.get((org_id, month.name))
        if account is None:
            account = self._accounts[org_id, month.name] = Account(org_id, month, self._has_redis)
        return account

    def all(self) -> Iterable[Account]:
        """Every one, those of months past as long as something of them is not told; the others are dropped."""
        past = [key for key, one in self._accounts.items() if one.month is not self._month and one.is_synced]
        for key in past:
            del self._accounts[key]
        return list(self._accounts.values())
