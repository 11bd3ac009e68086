"""Readiness of the journal, for `/readyz`: whether it can take more."""

from typing import Final

from chassis.runtime.health import NotReady
from gateway.journal import Journal

FULL: Final = "has less free space than a segment needs"


class JournalHealth:
    """Fails while the journal has no room for any project: requests are then better sent to another gateway."""

    name = "journal"

    def __init__(self, journal: Journal, min_free_bytes: int) -> None:
        """`min_free_bytes`: bytes that the journal must have left to be ready."""
        self._journal = journal
        self._min_free_bytes = min_free_bytes

    async def probe(self) -> None:
        """Raises NotReady while the journal has less room: before it is full, so that no request is refused here."""
        if self._journal.max_project_room_bytes < self._min_free_bytes:
            raise NotReady(FULL)
