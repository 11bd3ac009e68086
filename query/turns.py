"""A few places that many want: principals that wait for one take turns."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chassis.errors import ServiceUnavailable


class Turns:
    """`places`, of which one principal holds `per_principal` at most (0: no limit of its own); `max_waiting` wait,
    `max_waiting_of_one` of them for one principal (0: no limit of its own).

    Principals take turns, whatever the number of places that each waits for; whoever has used up his share is passed by
    the others. Those of one principal go in the order in which they came.
    """

    def __init__(self, places: int, per_principal: int, max_waiting: int, max_waiting_of_one: int = 0) -> None:
        self._free = places
        self._per_principal = per_principal or places
        self._held = Counter[str]()
        self._max_waiting = max_waiting
        self._max_waiting_of_one = max_waiting_of_one or max_waiting
        # The principal that is next first. None of these could start: whenever one can, it is taken out.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, principal: str) -> None:
        """Take a place, to be given back. ServiceUnavailable when too many wait already, of all or of `principal`."""
        if self._may_start(principal):
            self._start(principal)
        else:
            await self._wait(principal)

    def give_back(self, principal: str) -> None:
        """A place is free; the next has it at once."""
        self._free += 1
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        self._to_the_end(principal)
        self._call_next()

    @asynccontextmanager
    async def turn(self, principal: str) -> AsyncIterator[None]:
        """A place while inside; raises like `take`."""
        await self.take(principal)
        try:
            yield
        finally:
            self.give_back(principal)

    def _may_start(self, principal: str) -> bool:
        return self._free > 0 and self._held[principal] < self._per_principal

    def _start(self, principal: str) -> None:
        self._free -= 1
        self._held[principal] += 1

    def _call_next(self) -> None:
        """Give the place to the first principal that may have it."""
        for principal, waiting in self._waiting.items():
            # One that is being cancelled leaves by itself.
            turn = next((each for each in waiting if not each.done()), None)
            if turn is not None and self._may_start(principal):
                self._forget(principal, turn)
                self._to_the_end(principal)
                self._start(principal)
                turn.set_result(None)
                return

    def _to_the_end(self, principal: str) -> None:
        """All others that wait are before who has just had a place."""
        if principal in self._waiting:
            self._waiting[principal] = self._waiting.pop(principal)

    async def _wait(self, principal: str) -> None:
        self._refuse_beyond_bounds(principal)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(principal, turn)
            else:  # it came in the moment of the cancellation
                self.give_back(principal)
            raise

    def _refuse_beyond_bounds(self, principal: str) -> None:
        if sum(map(len, self._waiting.values())) >= self._max_waiting:
            raise ServiceUnavailable("Too many requests are waiting; ask again later.")
        if len(self._waiting.get(principal, ())) >= self._max_waiting_of_one:
            raise ServiceUnavailable("Too many requests of this principal are waiting; ask again later.")

    def _forget(self, principal: str, turn: asyncio.Future[None]) -> None:
        self._waiting[principal].remove(turn)
        if not self._waiting[principal]:
            del self._waiting[principal]
