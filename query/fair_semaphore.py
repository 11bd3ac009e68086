"""Something scarce that many want: organizations take turns, and within one the users."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from chassis.errors import ServiceUnavailable

K = TypeVar("K")


class Requester(NamedTuple):
    """Who waits: a user in an organization, with all agents and services that are his in the end."""

    org: str
    user: str


class QueueFull(ServiceUnavailable):
    """The queue is full: of all, of the organization or of the user."""


class ShareLimits(NamedTuple):
    """The most that one user, and that one organization may have."""

    user: int
    org: int

    @classmethod
    def of(cls, total: int) -> "ShareLimits":
        """A half and three quarters: so many users that take all they may leave something to the others."""
        return cls(max(1, total // 2), max(1, total * 3 // 4))

    @classmethod
    def all_but_one(cls, total: int) -> "ShareLimits":
        """One is left for whoever comes."""
        return cls(max(1, total - 1), max(1, total - 1))


class _Waiter(NamedTuple):
    requester: Requester
    amount: int
    granted: asyncio.Future[None]


class FairSemaphore:
    """`total` places (or bytes), of which one asker has `shares` at most; `max_waiting` requests wait for some, of a
    user half of them, of an organization three quarters.

    Whoever has nothing yet may have more than his share at once, if it is that large. Organizations take turns, and the
    users of one among themselves, whatever each has waiting; who has used up his share is passed, and for one within
    his share the others wait until there is enough. What one user asked first comes first.
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
        # Who is next first, organizations and the users of each. None of these could start: who can is taken out.
        self._waiting: dict[str, dict[Requester, deque[_Waiter]]] = {}

    @property
    def in_use(self) -> int:
        """How much is taken."""
        return self._total - self._free

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting_by_org.total()

    def demand(self, requester: Requester) -> int:
        """How much the user has, and how many requests of his wait."""
        return self._in_use_by_user[requester] + len(self._waiting.get(requester.org, {}).get(requester, ()))

    async def acquire(self, requester: Requester, amount: int = 1) -> int:
        """Take so much, or all where that is less. How much it was, to be given back. Raises TooManyWait."""
        turn = _Waiter(requester, min(amount, self._total), asyncio.get_running_loop().create_future())
        self._waiting.setdefault(requester.org, {}).setdefault(requester, deque()).append(turn)
        self._waiting_by_org[requester.org] += 1
        self._wake_waiters()
        if not turn.granted.done():
            self._check_queue_limits(turn)
            await self._wait(turn)
        return turn.amount

    def release(self, requester: Requester, amount: int = 1) -> None:
        """It is free; the next have it at once."""
        self._free += amount
        _subtract(self._in_use_by_user, requester, amount)
        _subtract(self._in_use_by_org, requester.org, amount)
        self._rotate(requester)
        self._wake_waiters()

    @asynccontextmanager
    async def slot(self, requester: Requester) -> AsyncIterator[None]:
        """A place while inside; raises like `take`."""
        await self.acquire(requester)
        try:
            yield
        finally:
            self.release(requester)

    def blocks_others(self, holder: Requester) -> bool:
        """Whether somebody who waits might go on if `holder` gave something back."""
        for org, users in self._waiting.items():
            for asker, waiting in users.items():
                if asker == holder or self._is_within_limits(asker, waiting[0].amount):
                    return True
                if org == holder.org and self._in_use_by_org[org] + waiting[0].amount > self._limits.org:
                    return True
        return False

    def _is_within_limits(self, asker: Requester, amount: int) -> bool:
        """Whether it is within the shares, free or not."""
        user, org = self._in_use_by_user[asker], self._in_use_by_org[asker.org]
        return (not user or user + amount <= self._limits.user) and (not org or org + amount <= self._limits.org)

    def _wake_waiters(self) -> None:
        while (turn := self._next_waiter()) is not None:
            self._free -= turn.amount
            self._in_use_by_user[turn.requester] += turn.amount
            self._in_use_by_org[turn.requester.org] += turn.amount
            self._remove_waiter(turn)
            self._rotate(turn.requester)
            turn.granted.set_result(None)

    def _next_waiter(self) -> _Waiter | None:
        """The first that may have what it waits for, if there is as much."""
        for users in self._waiting.values():
            for asker, waiting in users.items():
                # One that is being cancelled leaves by itself.
                turn = next((each for each in waiting if not each.granted.done()), None)
                if turn is not None and self._is_within_limits(asker, turn.amount):
                    return turn if turn.amount <= self._free else None
        return None

    def _rotate(self, asker: Requester) -> None:
        """All others that wait are before who has just had something."""
        users = self._waiting.get(asker.org)
        if users is not None:
            self._waiting[asker.org] = self._waiting.pop(asker.org)
            if asker in users:
                users[asker] = users.pop(asker)

    async def _wait(self, turn: _Waiter) -> None:
        try:
            await turn.granted
        except asyncio.CancelledError:
            if turn.granted.cancelled():
                self._remove_waiter(turn)
                self._wake_waiters()  # what it waited for may be enough for others
            else:  # it came in the moment of the cancellation
                self.release(turn.requester, turn.amount)
            raise

    def _check_queue_limits(self, turn: _Waiter) -> None:
        """The turn counts among those that wait, which is why it may be one more than it may."""
        asker = turn.requester
        if self.waiting > self._max_waiting:
            these = f"{self._max_waiting} requests"
        elif self._waiting_by_org[asker.org] > self._queue_limits.org:
            these = f"{self._queue_limits.org} requests of this organization"
        elif len(self._waiting[asker.org][asker]) > self._queue_limits.user:
            these = f"{self._queue_limits.user} requests of this user"
        else:
            return
        self._remove_waiter(turn)
        raise QueueFull(f"{these} wait already; ask again later.")

    def _remove_waiter(self, turn: _Waiter) -> None:
        users = self._waiting[turn.requester.org]
        users[turn.requester].remove(turn)
        if not users[turn.requester]:
            del users[turn.requester]
        if not users:
            del self._waiting[turn.requester.org]
        _subtract(self._waiting_by_org, turn.requester.org, 1)


def _subtract(counts: Counter[K], key: K, amount: int) -> None:
    """Leave no key behind that counts nothing."""
    counts[key] -= amount
    if not counts[key]:
        del counts[key]
