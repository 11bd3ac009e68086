"""Whether a request is taken into the journal: its quota, each project's share of that, room on the disk."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from chassis.errors import ServiceUnavailable

JOURNAL_FULL: Final = "The journal is full; send the request again later."
PROJECT_SHARE_EXCEEDED: Final = "Too much of this project waits to be stored; send the request again later."
DISK_NEARLY_FULL: Final = "The disk of the journal is nearly full; send the request again later."
SHARE_FACTOR: Final = 8


class SpaceQuota:
    """`max_bytes` of the journal are for what is not stored yet, 0: as much as there is room for. A project that has
    some of it may have SHARE_TIMES what is left free: one alone eight ninths, two eight seventeenths each (dynamic
    thresholds, as Choudhury and Hahne have them), so that whoever comes next is not refused for them. Used on the event
    loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queued_bytes = 0  # bytes that are not written yet
        self._bytes_by_project: Counter[int] = (
            Counter()
        )  # bytes by project, those that wait among them; none that has nothing

    def reserve(self, project_id: int, size: int, charged_bytes: int, *, is_disk_low: bool) -> None:
        """Take a request of `size` bytes, when so many are `charged` already. Raises ServiceUnavailable."""
        if is_disk_low:
            raise ServiceUnavailable(DISK_NEARLY_FULL)
        if self._max_bytes:
            left = self._free_bytes(charged_bytes)
            if size > left:
                raise ServiceUnavailable(JOURNAL_FULL)
            if size > self._project_share(left, self._bytes_by_project[project_id]):
                raise ServiceUnavailable(PROJECT_SHARE_EXCEEDED)
        self._queued_bytes += size
        self._bytes_by_project[project_id] += size

    def available_bytes(self, charged_bytes: int) -> tuple[float, float]:
        """Bytes that may be taken when so many are `charged`: of who has most of it, and of who has least."""
        if not self._max_bytes:
            return math.inf, math.inf
        left = max(self._free_bytes(charged_bytes), 0)
        held = self._bytes_by_project.values()
        return self._project_share(left, max(held, default=0)), self._project_share(left, min(held, default=0))

    def dequeue(self, size: int) -> None:
        """So many bytes are charged from now on, or refused."""
        self._queued_bytes -= size

    def release(self, sizes: Mapping[int, int]) -> None:
        """These projects have so much less in the journal."""
        self._bytes_by_project.subtract(sizes)
        for project_id in sizes:
            if not self._bytes_by_project[project_id]:
                del self._bytes_by_project[project_id]

    def restore(self, sizes: Mapping[int, int]) -> None:
        """They have so much, from before."""
        self._bytes_by_project.update(sizes)

    def _free_bytes(self, charged: int) -> int:
        return self._max_bytes - charged - self._queued_bytes

    @staticmethod
    def _project_share(left: int, held: int) -> int:
        """How much more who holds so much may take of what is left."""
        return max((SHARE_FACTOR * left - held) // (SHARE_FACTOR + 1), 0) if held else left
