"""Watches the file of the key ring: generates it at the first start, and reports when it is missing.

It is generated only if the database has no encrypted value. A ring that was lost with its disk, left out of a backup or
not copied to another machine is reported while it can still be restored.
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
    """One per process that encrypts. The caller starts `database` before this and closes it after."""

    def __init__(self, keys: KeyFile, database: Database, metadata: sa.MetaData) -> None:
        self._keys = keys
        self._database = database
        self._metadata = metadata
        self._periodic_check = PeriodicTask(self.check, CHECK_INTERVAL_S, log, "key ring check failed")

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Raises KeyRingUnusable at the start. An unavailable database does not prevent the start: if the ring has to
        be generated, that is retried, and secrets are unavailable until then.
        """
        try:
            await self.check()
        except DatabaseUnavailable:
            log.warning("database unavailable, key ring is created later", path=str(self._keys.path))
        self._periodic_check.start()
        yield
        await self._periodic_check.close()

    async def check(self) -> None:
        """Read the ring, or generate it. Raises KeyRingUnusable, DatabaseUnavailable."""
        try:
            self._keys.read()
        except KeyRingMissing:
            if self._keys.is_loaded:  # still in memory, and the removed file may be restored
                raise
            await self._generate()

    async def _generate(self) -> None:
        """Runs in a write transaction, so that no other process generates a ring or encrypts anything meanwhile."""
        async with self._database.write() as connection:
            if await has_encrypted_values(connection, self._metadata) and not self._keys.path.exists():
                raise KeyRingMissing(
                    f"The key ring {self._keys.path} does not exist, but the database has encrypted secrets. Restore "
                    "the file from a backup, or set SLUICE_CONTROL_SEALING_KEYS to the key ring of the other hosts. "
                    "If the key ring is lost, see docs/channels.md."
                )
            self._keys.generate()
