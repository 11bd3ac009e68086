"""Share a limited capacity between its holders, so that no holder starves the others. The classes differ in how they
treat a request that does not fit.

`FairShare` refuses the request. A holder may have as much as is left free (`fair_share`), so no request waits.

`FairSemaphore` lets the request wait. Organizations take turns, and so do the users of an organization.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from chassis.errors import ServiceUnavailable

H = TypeVar("H", bound=Hashable)
K = TypeVar("K")


def fair_share(free: int, held: int, factor: int = 1) -> int:
    """The largest part of `free` that a holder of `held` may still take. After taking it, the holder has at most
    `factor` times as much as is left free (the dynamic thresholds of Choudhury and Hahne). A new holder, with `held` 0,
    may take all of `free`.
    """
    return max((factor * free - held) // (factor + 1), 0) if held else free


class FairShare(Generic[H]):
    """A `capacity` in any unit. A holder may hold as much as is left free: a single holder may hold half of the
    capacity, and each of two holders a third. A new holder may take everything that the others leave. The next new
    holder is then refused until some of the capacity is given back. While nothing is taken, any amount is permitted.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0
        self._held: dict[H, int] = {}

    def permits(self, holder: H, amount: int) -> bool:
        """Whether `holder` may take `amount` more. 0 and negative amounts are always permitted."""
        if amount <= 0 or not self.taken:
            return True
        return amount <= fair_share(self.capacity - self.taken, self._held.get(holder, 0))

    def held(self, holder: H) -> int:
        """The amount that `holder` holds."""
        return self._held.get(holder, 0)

    def take(self, holder: H, amount: int) -> bool:
        """Take `amount` if it is permitted. Returns whether it was permitted."""
        permitted = self.permits(holder, amount)
        if permitted:
            self.change(holder, amount)
        return permitted

    def change(self, holder: H, amount: int) -> None:
        """Take `amount` unconditionally, or give it back (negative)."""
        self.taken += amount
        held = self._held.get(holder, 0) + amount
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)


class Requester(NamedTuple):
    """The owner of a waiting request: a user in an organization. Requests of all agents and services that the user
    directly or indirectly owns belong to the same requester.
    """

    org: str
    user: str


class QueueFull(ServiceUnavailable):
    """503: the queue is full, in total, for the organization or for the user."""


class ShareLimits(NamedTuple):
    """The most that one user and one organization may hold."""

    user: int
    org: int

    @classmethod
    def of(cls, total: int) -> "ShareLimits":
        """Half of `total` for a user and three quarters for an organization, so that a single user or organization at
        its limit leaves capacity for others.
        """
        return cls(max(1, total // 2), max(1, total * 3 // 4))

    @classmethod
    def all_but_one(cls, total: int) -> "ShareLimits":
        """All of `total` except one, which stays free for the next requester."""
        return cls(max(1, total - 1), max(1, total - 1))


class _Waiter(NamedTuple):
    requester: Requester
    amount: int
    granted: asyncio.Future[None]


class FairSemaphore:
    """`total` slots (or bytes). A requester holds at most its `limits`. At most `max_waiting` requests wait, at most
    half of them from one user and three quarters from one organization.

    A requester that holds nothing may exceed its limit with one acquisition that is larger than the limit.
    Organizations take turns, and so do the users of an organization, regardless of how many requests each has waiting.
    Requesters at their limit are skipped. While a requester within its limit waits for enough capacity, all requesters
    behind it wait too. Requests of one user are served in order.
    """

    def __init__(self, total: int, limits: ShareLimits, max_waiting: int) -> None:
        self._total = total
        self._free = total
        self._limits = limits
        self._max_waiting = max_waiting
        self._queue_limits = ShareLimits.of(max_waiting)
        self._in_use_by_user = Counter[Requester]()
        self._in_use_by_org = Counter[str]()
        self._waiting_by_org = Counter[str]()
        # The organizations, and the users of each, in the order of their turns. Requests that can start are removed.
        self._waiting: dict[str, dict[Requester, deque[_Waiter]]] = {}

    @property
    def in_use(self) -> int:
        """The number of slots (or bytes) in use."""
        return self._total - self._free

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return self._waiting_by_org.total()

    def demand(self, requester: Requester) -> int:
        """The amount that the user holds, plus the number of the user's waiting requests."""
        return self._in_use_by_user[requester] + len(self._waiting.get(requester.org, {}).get(requester, ()))

    async def acquire(self, requester: Requester, amount: int = 1) -> int:
        """Acquire the lesser of `amount` and `total`. Returns the acquired amount, which the caller must release.
        Raises QueueFull.
        """
        waiter = _Waiter(requester, min(amount, self._total), asyncio.get_running_loop().create_future())
        self._waiting.setdefault(requester.org, {}).setdefault(requester, deque()).append(waiter)
        self._waiting_by_org[requester.org] += 1
        self._wake_waiters()
        if not waiter.granted.done():
            self._check_queue_limits(waiter)
            await self._wait(waiter)
        return waiter.amount

    def release(self, requester: Requester, amount: int = 1) -> None:
        """Release `amount` and wake the next waiters immediately."""
        self._free += amount
        _subtract(self._in_use_by_user, requester, amount)
        _subtract(self._in_use_by_org, requester.org, amount)
        self._rotate(requester)
        self._wake_waiters()

    @asynccontextmanager
    async def slot(self, requester: Requester) -> AsyncIterator[None]:
        """Hold one slot while inside the context. Raises QueueFull."""
        await self.acquire(requester)
        try:
            yield
        finally:
            self.release(requester)

    def blocks_others(self, holder: Requester) -> bool:
        """Whether a waiting request could start if `holder` released something."""
        for org, users in self._waiting.items():
            for requester, waiting in users.items():
                if requester == holder or self._is_within_limits(requester, waiting[0].amount):
                    return True
                if org == holder.org and self._in_use_by_org[org] + waiting[0].amount > self._limits.org:
                    return True
        return False

    def _is_within_limits(self, requester: Requester, amount: int) -> bool:
        """Whether `amount` more is within the requester's limits, regardless of the free capacity."""
        user, org = self._in_use_by_user[requester], self._in_use_by_org[requester.org]
        return (not user or user + amount <= self._limits.user) and (not org or org + amount <= self._limits.org)

    def _wake_waiters(self) -> None:
        while (waiter := self._next_waiter()) is not None:
            self._free -= waiter.amount
            self._in_use_by_user[waiter.requester] += waiter.amount
            self._in_use_by_org[waiter.requester.org] += waiter.amount
            self._remove_waiter(waiter)
            self._rotate(waiter.requester)
            waiter.granted.set_result(None)

    def _next_waiter(self) -> _Waiter | None:
        """The first waiter within its limits. None if there is no such waiter, or if its amount is not free."""
        for users in self._waiting.values():
            for requester, waiting in users.items():
                # A waiter that is being cancelled removes itself.
                waiter = next((each for each in waiting if not each.granted.done()), None)
                if waiter is not None and self._is_within_limits(requester, waiter.amount):
                    return waiter if waiter.amount <= self._free else None
        return None

    def _rotate(self, requester: Requester) -> None:
        """Move the requester that was just served behind all other waiting requesters."""
        users = self._waiting.get(requester.org)
        if users is not None:
            self._waiting[requester.org] = self._waiting.pop(requester.org)
            if requester in users:
                users[requester] = users.pop(requester)

    async def _wait(self, waiter: _Waiter) -> None:
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.cancelled():
                self._remove_waiter(waiter)
                self._wake_waiters()  # others may be able to start without this waiter
            else:  # the slot was granted at the moment of the cancellation
                self.release(waiter.requester, waiter.amount)
            raise

    def _check_queue_limits(self, waiter: _Waiter) -> None:
        """Raise QueueFull if the queue is too long. `waiter` is already queued and included in the counts, so it is
        refused if a count is one above its limit.
        """
        requester = waiter.requester
        if self.waiting > self._max_waiting:
            queued = f"{self._max_waiting} requests"
        elif self._waiting_by_org[requester.org] > self._queue_limits.org:
            queued = f"{self._queue_limits.org} requests of this organization"
        elif len(self._waiting[requester.org][requester]) > self._queue_limits.user:
            queued = f"{self._queue_limits.user} requests of this user"
        else:
            return
        self._remove_waiter(waiter)
        raise QueueFull(f"The queue is full: {queued} are waiting. Retry later.")

    def _remove_waiter(self, waiter: _Waiter) -> None:
        users = self._waiting[waiter.requester.org]
        users[waiter.requester].remove(waiter)
        if not users[waiter.requester]:
            del users[waiter.requester]
        if not users:
            del self._waiting[waiter.requester.org]
        _subtract(self._waiting_by_org, waiter.requester.org, 1)


def _subtract(counts: Counter[K], key: K, amount: int) -> None:
    """Subtract, and delete a key whose count reaches zero."""
    counts[key] -= amount
    if not counts[key]:
        del counts[key]
