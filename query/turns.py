"""Something scarce that many want: organizations take turns, and within one the users."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from chassis.errors import ServiceUnavailable

K = TypeVar("K")


class Asker(NamedTuple):
    """Who waits: a user in an organization, with all agents and services that are his in the end."""

    org: str
    user: str


class TooManyWait(ServiceUnavailable):
    """The queue is full: of all, of the organization or of the user."""


class Shares(NamedTuple):
    """The most that one user, and that one organization may have."""

    user: int
    org: int

    @classmethod
    def of(cls, total: int) -> "Shares":
        """A half and three quarters: so many users that take all they may leave something to the others."""
        return cls(max(1, total // 2), max(1, total * 3 // 4))

    @classmethod
    def all_but_one(cls, total: int) -> "Shares":
        """One is left for whoever comes."""
        return cls(max(1, total - 1), max(1, total - 1))


class _Turn(NamedTuple):
    asker: Asker
    amount: int
    come: asyncio.Future[None]


class Turns:
    """`total` places (or bytes), of which one asker has `shares` at most; `max_waiting` requests wait for some, of a
    user half of them, of an organization three quarters.

    Whoever has nothing yet may have more than his share at once, if it is that large. Organizations take turns, and the
    users of one among themselves, whatever each has waiting; who has used up his share is passed, and for one within
    his share the others wait until there is enough. What one user asked first comes first.
    """

    def __init__(self, total: int, shares: Shares, max_waiting: int) -> None:
        self._total = total
        self._free = total
        self._shares = shares
        self._max_waiting = max_waiting
        self._may_wait = Shares.of(max_waiting)
        self._held_by_user = Counter[Asker]()
        self._held_by_org = Counter[str]()
        self._waiting_of_org = Counter[str]()
        # Who is next first, organizations and the users of each. None of these could start: who can is taken out.
        self._waiting: dict[str, dict[Asker, deque[_Turn]]] = {}

    @property
    def held(self) -> int:
        """How much is taken."""
        return self._total - self._free

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting_of_org.total()

    def wanted(self, asker: Asker) -> int:
        """How much the user has, and how many requests of his wait."""
        return self._held_by_user[asker] + len(self._waiting.get(asker.org, {}).get(asker, ()))

    async def take(self, asker: Asker, amount: int = 1) -> int:
        """Take so much, or all where that is less. How much it was, to be given back. Raises TooManyWait."""
        turn = _Turn(asker, min(amount, self._total), asyncio.get_running_loop().create_future())
        self._waiting.setdefault(asker.org, {}).setdefault(asker, deque()).append(turn)
        self._waiting_of_org[asker.org] += 1
        self._call_next()
        if not turn.come.done():
            self._refuse_beyond_bounds(turn)
            await self._wait(turn)
        return turn.amount

    def give_back(self, asker: Asker, amount: int = 1) -> None:
        """It is free; the next have it at once."""
        self._free += amount
        _subtract(self._held_by_user, asker, amount)
        _subtract(self._held_by_org, asker.org, amount)
        self._to_the_end(asker)
        self._call_next()

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncIterator[None]:
        """A place while inside; raises like `take`."""
        await self.take(asker)
        try:
            yield
        finally:
            self.give_back(asker)

    def in_the_way(self, holder: Asker) -> bool:
        """Whether somebody who waits might go on if `holder` gave something back."""
        for org, users in self._waiting.items():
            for asker, waiting in users.items():
                if asker == holder or self._may_have(asker, waiting[0].amount):
                    return True
                if org == holder.org and self._held_by_org[org] + waiting[0].amount > self._shares.org:
                    return True
        return False

    def _may_have(self, asker: Asker, amount: int) -> bool:
        """Whether it is within the shares, free or not."""
        user, org = self._held_by_user[asker], self._held_by_org[asker.org]
        return (not user or user + amount <= self._shares.user) and (not org or org + amount <= self._shares.org)

    def _call_next(self) -> None:
        while (turn := self._next()) is not None:
            self._free -= turn.amount
            self._held_by_user[turn.asker] += turn.amount
            self._held_by_org[turn.asker.org] += turn.amount
            self._forget(turn)
            self._to_the_end(turn.asker)
            turn.come.set_result(None)

    def _next(self) -> _Turn | None:
        """The first that may have what it waits for, if there is as much."""
        for users in self._waiting.values():
            for asker, waiting in users.items():
                # One that is being cancelled leaves by itself.
                turn = next((each for each in waiting if not each.come.done()), None)
                if turn is not None and self._may_have(asker, turn.amount):
                    return turn if turn.amount <= self._free else None
        return None

    def _to_the_end(self, asker: Asker) -> None:
        """All others that wait are before who has just had something."""
        users = self._waiting.get(asker.org)
        if users is not None:
            self._waiting[asker.org] = self._waiting.pop(asker.org)
            if asker in users:
                users[asker] = users.pop(asker)

    async def _wait(self, turn: _Turn) -> None:
        try:
            await turn.come
        except asyncio.CancelledError:
            if turn.come.cancelled():
                self._forget(turn)
                self._call_next()  # what it waited for may be enough for others
            else:  # it came in the moment of the cancellation
                self.give_back(turn.asker, turn.amount)
            raise

    def _refuse_beyond_bounds(self, turn: _Turn) -> None:
        """The turn counts among those that wait, which is why it may be one more than it may."""
        asker = turn.asker
        if self.waiting > self._max_waiting:
            these = f"{self._max_waiting} requests"
        elif self._waiting_of_org[asker.org] > self._may_wait.org:
            these = f"{self._may_wait.org} requests of this organization"
        elif len(self._waiting[asker.org][asker]) > self._may_wait.user:
            these = f"{self._may_wait.user} requests of this user"
        else:
            return
        self._forget(turn)
        raise TooManyWait(f"{these} wait already; ask again later.")

    def _forget(self, turn: _Turn) -> None:
        users = self._waiting[turn.asker.org]
        users[turn.asker].remove(turn)
        if not users[turn.asker]:
            del users[turn.asker]
        if not users:
            del self._waiting[turn.asker.org]
        _subtract(self._waiting_of_org, turn.asker.org, 1)


def _subtract(counts: Counter[K], key: K, amount: int) -> None:
    """Leave no key behind that counts nothing."""
    counts[key] -= amount
    if not counts[key]:
        del counts[key]
