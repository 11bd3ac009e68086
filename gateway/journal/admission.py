"""Whether a request is taken into the journal: its quota, each project's share of that, room on the disk."""

from collections.abc import Mapping
from typing import Final

from chassis.errors import ServiceUnavailable
from gateway.shares import Shares

FULL: Final = "The journal is full; send the request again later."
SHARE: Final = "Too much of this project waits to be stored; send the request again later."
NO_ROOM: Final = "The disk of the journal is nearly full; send the request again later."


class Admission:
    """`max_bytes` of the journal are for what is not stored yet, 0: as much as there is room for. Above half of that, a
    project that has some of it may take only as much as is left free. Used on the event loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._shares: Shares[int] = Shares(max_bytes)
        self._waiting = 0  # bytes that are not written yet

    def admit(self, project_id: int, size: int, charged: int, *, low: bool) -> None:
        """Take a request of `size` bytes, when so many are `charged` already. Raises ServiceUnavailable."""
        if low:
            raise ServiceUnavailable(NO_ROOM)
        if self._max_bytes:
            total = charged + self._waiting + size
            if total > self._max_bytes:
                raise ServiceUnavailable(FULL)
            if 2 * total > self._max_bytes and not self._shares.permits(project_id, size):
                raise ServiceUnavailable(SHARE)
        self._waiting += size
        self._shares.change(project_id, size)

    def written(self, size: int) -> None:
        """So many bytes are charged from now on, or refused."""
        self._waiting -= size

    def release(self, sizes: Mapping[int, int]) -> None:
        """These projects have so much less in the journal."""
        for project_id, size in sizes.items():
            self._shares.change(project_id, -size)

    def hold(self, sizes: Mapping[int, int]) -> None:
        """They have so much, from before."""
        for project_id, size in sizes.items():
            self._shares.change(project_id, size)
