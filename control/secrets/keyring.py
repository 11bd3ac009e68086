"""Encrypted values of the entire database: counts them by key, and re-encrypts them under the current key.

A column declares that it is encrypted (`info={"sealed": True}`). Its values are bound to the name of the table, the
primary key of the row, its `org_id` (empty if it has none) and the name of the column. All code that encrypts follows
this rule.

`KeyringWatcher` watches the file of the key ring. It generates the file at the first start, if the database has no
encrypted value, and reports a missing file. So a ring that was lost with its disk, left out of a backup or not copied
to another machine is reported while it can still be restored.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable
from chassis.runtime.periodic import PeriodicTask
from control.secrets.secret_box import KeyFile, KeyRingMissing, SecretBox, key_id_of

BATCH_SIZE: Final = 200  # values per transaction, so that other writers do not wait long


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of encrypted values, and the columns that they are bound to."""

    table: sa.Table
    column: sa.Column[bytes]
    key: sa.Column[str]
    org: sa.Column[str] | None


def encrypted_columns(metadata: sa.MetaData) -> Iterator[EncryptedColumn]:
    """All encrypted columns. Raises ValueError for a table whose primary key is not one column."""
    for table in metadata.sorted_tables:
        for column in table.columns:
            if column.info.get("sealed"):
                (key,) = table.primary_key.columns
                yield EncryptedColumn(table, column, key, table.columns.get("org_id"))


async def has_encrypted_values(connection: AsyncConnection, metadata: sa.MetaData) -> bool:
    """Whether the database has an encrypted value."""
    for encrypted in encrypted_columns(metadata):
        statement = sa.select(encrypted.key).where(encrypted.column.is_not(None)).limit(1)
        if await connection.scalar(statement) is not None:
            return True
    return False


async def count_by_key(connection: AsyncConnection, metadata: sa.MetaData) -> Counter[str]:
    """The number of values encrypted under each key, by key id. Raises DecryptionError for a value that is not
    encrypted.
    """
    counted: Counter[str] = Counter()
    for encrypted in encrypted_columns(metadata):
        found = await connection.stream_scalars(sa.select(encrypted.column).where(encrypted.column.is_not(None)))
        async for value in found:
            counted[key_id_of(bytes(value))] += 1
    return counted


async def reencrypt(
    connection: AsyncConnection, secret_box: SecretBox, encrypted_column: EncryptedColumn, after: str
) -> tuple[int, str]:
    """Re-encrypt a batch of a column under the current key, in the order of the primary key, starting after the row
    `after`.

    Returns the number of changed values, and the last row that was read (empty at the end). Raises DecryptionError.
    """
    org = sa.literal("") if encrypted_column.org is None else encrypted_column.org
    page = (
        sa.select(encrypted_column.key.label("row"), org.label("org"), encrypted_column.column.label("value"))
        .where(encrypted_column.column.is_not(None), encrypted_column.key > after)
        .order_by(encrypted_column.key)
        .limit(BATCH_SIZE)
    )
    rows = (await connection.execute(page)).all()
    changed = 0
    for row in rows:
        if key_id_of(bytes(row.value)) == secret_box.current_key_id:
            continue
        context = {
            "table": encrypted_column.table.name,
            "row": row.row,
            "org": row.org,
            "column": encrypted_column.column.name,
        }
        value = secret_box.encrypt(secret_box.decrypt(bytes(row.value), **context), **context)
        await connection.execute(
            encrypted_column.table.update()
            .where(encrypted_column.key == row.row)
            .values({encrypted_column.column: value})
        )
        changed += 1
    return changed, rows[-1].row if len(rows) == BATCH_SIZE else ""


CHECK_INTERVAL_S: Final = 2.0

log = structlog.get_logger(__name__)


class KeyringWatcher:
    """Watches the key ring, once per process that encrypts. The caller starts `database` before the watcher and closes
    it after the watcher.
    """

    def __init__(self, keys: KeyFile, database: Database, metadata: sa.MetaData) -> None:
        self._keys = keys
        self._database = database
        self._metadata = metadata
        self._periodic_check = PeriodicTask(self.check, CHECK_INTERVAL_S, log, "key ring check failed")

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Check the ring now and periodically. Raises KeyRingUnusable at the start. If the database is unavailable at
        the start and the ring does not exist yet, the watcher tries again later, and secrets are unavailable until
        then.
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
            if self._keys.is_loaded:  # the ring is still in memory, and the removed file may be restored
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
