"""A queue of requests that is fair between projects."""

import heapq
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from proto.otlp.policy import DecodedPayload


class QueueItem(Protocol):
    """A request that waits for a batch. An abandoned one is not written."""

    @property
    def decoded(self) -> DecodedPayload: ...
    @property
    def is_abandoned(self) -> bool: ...


R = TypeVar("R", bound=QueueItem)


class FairQueue(Generic[R]):
    """Requests that wait for a batch. Projects share the bytes of a batch: the next request is of the project with the
    fewest bytes in it, and among equal ones of the project served longest ago, so that no project waits behind
    everything that another one has sent.
    """

    def __init__(self) -> None:
        self._projects: OrderedDict[int, OrderedDict[R, None]] = OrderedDict()
        self.items = 0
        self.nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._projects)

    def add(self, request: R) -> None:
        """Queue a request behind those of its project."""
        self._projects.setdefault(request.decoded.project_id, OrderedDict())[request] = None
        self._count(request, 1)

    def discard(self, request: R) -> None:
        """Remove a request, unless it has been taken already."""
        queue = self._projects.get(request.decoded.project_id)
        if queue is None or request not in queue:
            return
        del queue[request]
        self._count(request, -1)
        if not queue:
            del self._projects[request.decoded.project_id]

    def take(self, items: int, nbytes: int, days: int) -> list[R]:
        """Take the requests of one batch, until it reaches `items`, `nbytes` or `days` or the queue is empty. Requests
        are not split, so the last one may exceed the limits.
        """
        batch: list[R] = []
        rest = self.items - items, self.nbytes - nbytes
        batch_days: set[int] = set()
        turns = [(0, turn, project) for turn, project in enumerate(self._projects)]
        while turns and self.items > rest[0] and self.nbytes > rest[1] and len(batch_days) < days:
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
            batch_days.update(request.decoded.days)
        return batch

    def _count(self, request: R, sign: int) -> None:
        self.items += sign * request.decoded.accepted
        self.nbytes += sign * request.decoded.nbytes
