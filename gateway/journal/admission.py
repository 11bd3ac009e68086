"""Whether a request is taken into the journal: its quota, each project's share of that, room on the disk."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from chassis.errors import ServiceUnavailable

FULL: Final = "The journal is full; send the request again later."
SHARE: Final = "Too much of this project waits to be stored; send the request again later."
NO_ROOM: Final = "The disk of the journal is nearly full; send the request again later."
SHARE_TIMES: Final = 8


class Admission:
    """`max_bytes` of the journal are for what is not stored yet, 0: as much as there is room for. A project that has
    some of it may have SHARE_TIMES what is left free: one alone eight ninths, two eight seventeenths each (dynamic
    thresholds, as Choudhury and Hahne have them), so that whoever comes next is not refused for them. Used on the event
    loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting = 0  # bytes that are not written yet
        self._held: Counter[int] = Counter()  # bytes by project, those that wait among them; none that has nothing

    def admit(self, project_id: int, size: int, charged: int, *, low: bool) -> None:
        """Take a request of `size` bytes, when so many are `charged` already. Raises ServiceUnavailable."""
        if low:
            raise ServiceUnavailable(NO_ROOM)
        if self._max_bytes:
            left = self._left(charged)
            if size > left:
                raise ServiceUnavailable(FULL)
            if size > self._room(left, self._held[project_id]):
                raise ServiceUnavailable(SHARE)
        self._waiting += size
        self._held[project_id] += size

    def room(self, charged: int) -> tuple[float, float]:
        """Bytes that may be taken when so many are `charged`: of who has most of it, and of who has least."""
        if not self._max_bytes:
            return math.inf, math.inf
        left = max(self._left(charged), 0)
        held = self._held.values()
        return self._room(left, max(held, default=0)), self._room(left, min(held, default=0))

    def written(self, size: int) -> None:
        """So many bytes are charged from now on, or refused."""
        self._waiting -= size

    def release(self, sizes: Mapping[int, int]) -> None:
        """These projects have so much less in the journal."""
        self._held.subtract(sizes)
        for project_id in sizes:
            if not self._held[project_id]:
                del self._held[project_id]

    def hold(self, sizes: Mapping[int, int]) -> None:
        """They have so much, from before."""
        self._held.update(sizes)

    def _left(self, charged: int) -> int:
        return self._max_bytes - charged - self._waiting

    @staticmethod
    def _room(left: int, held: int) -> int:
        """How much more who holds so much may take of what is left."""
        return max((SHARE_TIMES * left - held) // (SHARE_TIMES + 1), 0) if held else left
