"""Whether the journal can take more, for `/readyz`."""

from typing import Final

from chassis.runtime.health import NotReady
from gateway.journal import Journal

FULL: Final = "has less room left than a segment needs"


class JournalHealth:
    """Whether the journal takes requests: while it takes no project's, they are better sent to another gateway."""

    name = "journal"

    def __init__(self, journal: Journal, min_free_bytes: int) -> None:
        """`least_room`: bytes that it is to have left."""
        self._journal = journal
        self._min_free_bytes = min_free_bytes

    async def probe(self) -> None:
        """Raises Unready while it has less room: before it is full, so that nobody is refused here."""
        if self._journal.max_project_room_bytes < self._min_free_bytes:
            raise NotReady(FULL)
