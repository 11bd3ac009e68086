"""A queue in memory in which every holder has its turn: nobody waits for all that another one has put in."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """At most `limit` items, and `limit_of_one` of one holder."""

    def __init__(self, limit: int, limit_of_one: int) -> None:
        self._limit = limit
        self._limit_of_one = limit_of_one
        self._size = 0
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()  # whose turn is next comes first; none is empty
        self._filled = asyncio.Event()

    def put(self, holder: str, item: T) -> None:
        """Raises asyncio.QueueFull."""
        if self._size >= self._limit or len(self._waiting.get(holder, ())) >= self._limit_of_one:
            raise asyncio.QueueFull
        self._of(holder).append(item)

    def put_back(self, items: Iterable[tuple[str, T]]) -> None:
        """What was taken with its holders, to be taken next, in this order."""
        for holder, item in reversed(list(items)):
            self._of(holder).appendleft(item)
            self._waiting.move_to_end(holder, last=False)

    async def take(self, most: int) -> list[T]:
        """Wait for an item; returns at most so many, one of each holder in turn."""
        await self._filled.wait()
        taken: list[T] = []
        while self._waiting and len(taken) < most:
            holder, of_holder = self._waiting.popitem(last=False)
            taken.append(of_holder.popleft())
            if of_holder:
                self._waiting[holder] = of_holder
        self._size -= len(taken)
        if not self._waiting:
            self._filled.clear()
        return taken

    def take_all(self) -> list[T]:
        """Everything that waits."""
        taken = [item for of_holder in self._waiting.values() for item in of_holder]
        self._waiting.clear()
        self._filled.clear()
        self._size = 0
        return taken

    def _of(self, holder: str) -> deque[T]:
        """The items of a holder, one of which will be added."""
        self._size += 1
        self._filled.set()
        return self._waiting.setdefault(holder, deque())
