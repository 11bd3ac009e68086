"""Whether the journal can take more, for `/readyz`."""

from typing import Final

from chassis.errors import ServiceUnavailable
from gateway.journal import Journal

FULL: Final = "The journal is full."


class JournalHealth:
    """Whether the journal takes requests: while it takes no project's, they are better sent to another gateway."""

    name = "journal"

    def __init__(self, journal: Journal, least_room: int) -> None:
        """`least_room`: bytes that it is to have left."""
        self._journal = journal
        self._least_room = least_room

    async def probe(self) -> None:
        """Raises ServiceUnavailable while it has less room."""
        if self._journal.room_for_any_bytes < self._least_room:
            raise ServiceUnavailable(FULL)
