"""Admission of requests to the journal: its quota, the share of each project, the free space of the disk."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from chassis.errors import ServiceUnavailable

JOURNAL_FULL: Final = "The journal is full; retry later."
PROJECT_SHARE_EXCEEDED: Final = "The project's share of the journal is full; retry later."
DISK_NEARLY_FULL: Final = "The journal's disk is nearly full; retry later."
SHARE_FACTOR: Final = 8


class SpaceQuota:
    """Limits what is not stored yet to `max_bytes`; 0: no limit but the disk. A project that has data in the journal
    may have SHARE_FACTOR times what is left free (the dynamic thresholds of Choudhury and Hahne): a single project gets
    eight ninths, two get eight seventeenths each, so further projects are not refused because of them. Used on the
    event loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queued_bytes = 0  # reserved, not written yet
        self._bytes_by_project: Counter[int] = Counter()  # including queued ones; no entries of 0

    def reserve(self, project_id: int, size: int, charged_bytes: int, *, is_disk_low: bool) -> None:
        """Reserve `size` bytes for a request. `charged_bytes`: of unfinished segments. Raises ServiceUnavailable."""
        if is_disk_low:
            raise ServiceUnavailable(DISK_NEARLY_FULL)
        if self._max_bytes:
            free = self._free_bytes(charged_bytes)
            if size > free:
                raise ServiceUnavailable(JOURNAL_FULL)
            if size > self._project_share(free, self._bytes_by_project[project_id]):
                raise ServiceUnavailable(PROJECT_SHARE_EXCEEDED)
        self._queued_bytes += size
        self._bytes_by_project[project_id] += size

    def available_bytes(self, charged_bytes: int) -> tuple[float, float]:
        """Bytes that may still be accepted: of the project that has most in the journal, and of the one that has least.

        `math.inf` without a quota.
        """
        if not self._max_bytes:
            return math.inf, math.inf
        free = max(self._free_bytes(charged_bytes), 0)
        used = self._bytes_by_project.values()
        return self._project_share(free, max(used, default=0)), self._project_share(free, min(used, default=0))

    def dequeue(self, size: int) -> None:
        """Remove `size` bytes from the queued ones: they are written, and charged from now on, or refused."""
        self._queued_bytes -= size

    def release(self, sizes: Mapping[int, int]) -> None:
        """Subtract bytes by project that are finished or refused."""
        self._bytes_by_project.subtract(sizes)
        for project_id in sizes:
            if not self._bytes_by_project[project_id]:
                del self._bytes_by_project[project_id]

    def restore(self, sizes: Mapping[int, int]) -> None:
        """Add bytes by project that an earlier process left."""
        self._bytes_by_project.update(sizes)

    def _free_bytes(self, charged_bytes: int) -> int:
        return self._max_bytes - charged_bytes - self._queued_bytes

    @staticmethod
    def _project_share(free: int, used: int) -> int:
        """Bytes that a project with `used` bytes may still take of `free` bytes."""
        return max((SHARE_FACTOR * free - used) // (SHARE_FACTOR + 1), 0) if used else free
