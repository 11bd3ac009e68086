"""The file of the key ring while a process runs: drawn at the first start, missed when it is gone.

It is drawn where the store has no sealed value, and nowhere else: a ring that is lost with its disk, left out of a
backup, or not brought along to another machine is told of while it can still be put back.
"""

from collections.abc import AsyncIterator
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web

from chassis.db.database import Database, DatabaseUnavailable
from chassis.runtime.periodic import PeriodicTask
from control.secrets.reencrypt import has_encrypted_values
from control.secrets.secret_box import KeyFile, KeyRingMissing

CHECK_INTERVAL_S: Final = 2.0

log = structlog.get_logger(__name__)


class KeyringWatcher:
    """One per process that seals. `database` is started and closed by whoever made it, around this."""

    def __init__(self, keys: KeyFile, database: Database, metadata: sa.MetaData) -> None:
        self._keys = keys
        self._database = database
        self._metadata = metadata
        self._periodic_check = PeriodicTask(self.check, CHECK_INTERVAL_S, log, "the key ring is not as it should be")

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Raises KeyRingUnusable at the start. A store that is away keeps nothing from starting: where the ring has to
        be drawn, that waits for it, and secrets with it.
        """
        try:
            await self.check()
        except DatabaseUnavailable:
            log.warning("database is away, the key ring is drawn when it is back", path=str(self._keys.path))
        self._periodic_check.start()
        yield
        await self._periodic_check.close()

    async def check(self) -> None:
        """Read the ring, or draw it. Raises KeyRingUnusable, DatabaseUnavailable."""
        try:
            self._keys.read()
        except KeyRingMissing:
            if self._keys.is_loaded:  # it is in memory, and whoever took the file away may bring it back
                raise
            await self._generate()

    async def _generate(self) -> None:
        """In a writing transaction: nobody draws, or seals anything, meanwhile."""
        async with self._database.write() as connection:
            if await has_encrypted_values(connection, self._metadata) and not self._keys.path.exists():
                raise KeyRingMissing(
                    f"The key ring {self._keys.path} does not exist, but the database has secrets that were encrypted "
                    "with one: put it back from the backup, or share that of the other machine in "
                    "SLUICE_CONTROL_SEALING_KEYS. docs/channels.md says what to do when it is lost."
                )
            self._keys.generate()
