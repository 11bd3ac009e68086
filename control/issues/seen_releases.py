"""The releases that occurrences name, noted once in a while: a process remembers what it has noted."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.releases import repository
from control.issues.releases.order import ReleaseOrder, load_order

MAX_REMEMBERED: Final = 100_000  # releases of projects
REMEMBER_S: Final = 300.0  # some are not kept, or make room for others, and occur again


class SeenReleases:
    """Implements `control.issues.counting.KnownReleases`."""

    def __init__(self) -> None:
        self._noted: dict[tuple[int, str], datetime] = {}
        self._pending: dict[tuple[int, str], datetime] = {}
        self._since = time.monotonic()

    async def note_seen(
        self, connection: AsyncConnection, org_id: str, project_id: int, seen: Mapping[str, datetime], now: datetime
    ) -> None:
        """Note the releases of a project with the earliest time of each, unless that is noted."""
        new = {
            version: at
            for version, at in seen.items()
            if (known := self._noted.get((project_id, version))) is None or at < known
        }
        if not new:
            return
        added = await repository.note_seen(connection, org_id, project_id, new, now)
        if added:
            await repository.settle_next_release(connection, project_id, added, now)
        self._pending |= {(project_id, version): at for version, at in new.items()}

    async def load_order(self, connection: AsyncConnection, project_id: int, versions: Sequence[str]) -> ReleaseOrder:
        """The order of these releases."""
        return await load_order(connection, project_id, versions)

    def committed(self) -> None:
        """What was noted since the last call is stored."""
        is_over = time.monotonic() - self._since > REMEMBER_S
        if is_over or len(self._noted) + len(self._pending) > MAX_REMEMBERED:
            self._noted, self._since = {}, time.monotonic()
        self._noted |= self._pending
        self._pending = {}

    def rolled_back(self) -> None:
        """What was noted since the last call is not stored."""
        self._pending = {}
