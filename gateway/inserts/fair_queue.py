"""Requests that wait, and in which order they leave."""

import heapq
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from proto.otlp.policy import DecodedPayload


class QueueItem(Protocol):
    """What waits for a batch. One that is abandoned stays out of it."""

    @property
    def decoded(self) -> DecodedPayload: ...
    @property
    def is_abandoned(self) -> bool: ...


R = TypeVar("R", bound=QueueItem)


class FairQueue(Generic[R]):
    """Requests that wait for a batch. Projects share its bytes: next is a request of the one that has fewest in it, of
    equal ones the one that was served longest ago, so that nobody waits behind all that another one has sent.
    """

    def __init__(self) -> None:
        self._projects: OrderedDict[int, OrderedDict[R, None]] = OrderedDict()
        self.items = 0
        self.nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._projects)

    def add(self, request: R) -> None:
        """Let a request wait, behind those of its project."""
        self._projects.setdefault(request.decoded.project_id, OrderedDict())[request] = None
        self._count(request, 1)

    def discard(self, request: R) -> None:
        """Take a request out, unless it has left already."""
        queue = self._projects.get(request.decoded.project_id)
        if queue is None or request not in queue:
            return
        del queue[request]
        self._count(request, -1)
        if not queue:
            del self._projects[request.decoded.project_id]

    def take(self, items: int, nbytes: int, days: int) -> list[R]:
        """The requests of one batch: whole ones, until it holds so many items, bytes or days, or nothing is left."""
        batch: list[R] = []
        rest = self.items - items, self.nbytes - nbytes
        held: set[int] = set()
        turns = [(0, turn, project) for turn, project in enumerate(self._projects)]
        while turns and self.items > rest[0] and self.nbytes > rest[1] and len(held) < days:
            share, turn, project = turns[0]
            queue = self._projects[project]
            request, _ = queue.popitem(last=False)
            if queue:
                self._projects.move_to_end(project)
                heapq.heapreplace(turns, (share + request.decoded.nbytes, turn, project))
            else:
                del self._projects[project]
                heapq.heappop(turns)
            self._count(request, -1)
            batch.append(request)
            held.update(request.decoded.days)
        return batch

    def _count(self, request: R, sign: int) -> None:
        self.items += sign * request.decoded.accepted
        self.nbytes += sign * request.decoded.nbytes
