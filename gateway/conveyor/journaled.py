"""The mode `journal`: a request is answered once it is on disk."""

from collections.abc import Sequence

from chassis.errors import ServiceUnavailable
from chassis.health import Dependency
from gateway.conveyor.adoption import Adoption
from gateway.conveyor.conveyor import Conveyor
from gateway.intake import Accepted
from gateway.journal import Journal

FULL = "The journal is full."


class JournalHealth:
    """Whether the journal takes requests: while it does not, they are better sent to another gateway."""

    name = "journal"

    def __init__(self, journal: Journal, least_room: int) -> None:
        """`least_room`: bytes that it is to have left."""
        self._journal = journal
        self._least_room = least_room

    async def probe(self) -> None:
        """Raises ServiceUnavailable while it has less room."""
        if self._journal.room_bytes < self._least_room:
            raise ServiceUnavailable(FULL)


class JournaledIntake:
    """The conveyor of this process's journal, and of those that nobody else cares for."""

    keeps_bodies = True

    def __init__(self, health: JournalHealth, conveyor: Conveyor, adoption: Adoption) -> None:
        self._health = health
        self._conveyor = conveyor
        self._adoption = adoption

    def admit(self) -> None:
        """The journal refuses by itself when it is full."""
        self._conveyor.admit()

    def dependencies(self) -> Sequence[Dependency]:
        """The journal, and those of the conveyor."""
        return [self._health, *self._conveyor.dependencies()]

    async def take(self, accepted: Accepted) -> None:
        """Returns when the request is on disk."""
        await self._conveyor.take(accepted)

    async def start(self) -> None:
        """Open the journal."""
        await self._conveyor.start()
        self._adoption.start()

    async def close(self) -> None:
        """Store what is in memory; the journals have the rest."""
        await self._adoption.close()
        await self._conveyor.close()
