"""A snapshot of the data directory: everything as it is at one moment, as links and small copies.

Order within the moment, while no insert is under way: journals (their last synced group is the moment), relational
database, keys, tables. So no journal and no row has a project that the database lacks, no secret in the database has a
key that is not there, and rows that the database says are erased are not in the tables.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from chassis.clickhouse import ClickHouse, QueryLimits, StoreError
from chassis.clickhouse.freeze import FrozenTables
from chassis.db.database import sqlite_file
from chassis.db.sqlite_snapshot import SqliteSnapshot
from chassis.errors import ApiError, StartupError
from chassis.runtime.settings import ChassisSettings
from gateway.ingest.snapshots import IngestSnapshots, SnapshotFailed
from sluice import __version__
from sluice.backup.copying import remove_tree

DIRECTORY: Final = "backup.tmp"  # in the data directory
DATABASE: Final = "sluice.db"
KEY_FILES: Final = ("sealing.keys", "signing.key", "cursor.key", "bootstrap.json")
_LIMITS: Final = QueryLimits(max_seconds=30)


class Tree(msgspec.Struct, frozen=True):
    """A directory of a snapshot, and where its files are in a backup (empty: at the top)."""

    prefix: str
    directory: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was taken. `lengths`: how many bytes of a file count, by its path in a backup; those of other
    files count in full. The other fields are those of a manifest.
    """

    moment_ns: int
    held_s: float
    durability: str
    release: str
    engine: str
    clickhouse_schema: int
    database_revision: str
    trees: list[Tree]
    lengths: dict[str, int]


class BackupFailed(StartupError):
    """No backup was made; the message is one sentence for the operator."""


def require_embedded(settings: ChassisSettings) -> Path:
    """The SQLite file of the embedded mode. Raises BackupFailed with exit code 2 for settings with servers."""
    file = sqlite_file(settings.effective_database_url)
    if not settings.uses_embedded_clickhouse or file is None:
        stores = "ClickHouse" if not settings.uses_embedded_clickhouse else "PostgreSQL"
        raise BackupFailed(
            f"`sluice backup` copies the embedded stores, and the settings name a {stores} server; docs/backup.md "
            "describes how to back up servers.",
            exit_code=2,
        )
    return file


class SnapshotTaker:
    """Takes one snapshot at a time, of the stores of the settings. `clickhouse` is open."""

    def __init__(self, settings: ChassisSettings, clickhouse: ClickHouse, ingest: IngestSnapshots) -> None:
        self._settings = settings
        self._database = require_embedded(settings)
        self._directory = settings.data_dir / DIRECTORY
        self._clickhouse = clickhouse
        self._ingest = ingest

    @property
    def is_disk_low(self) -> bool:
        """Whether the snapshot must be given up: exports are refused for want of disk space."""
        return self._ingest.is_disk_low

    async def take(self) -> Snapshot:
        """A snapshot, which exists until `remove`. Raises BackupFailed; something may be left of it then."""
        with failures_of_stores():
            await self.remove()
            return await self._take()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Snapshot]:
        """A snapshot, which exists while the block runs. Raises BackupFailed; then nothing is left of it."""
        try:
            yield await self.take()
        finally:
            with suppress(StoreError, OSError):  # the next snapshot, or the next start, removes what is left
                await self.remove()

    async def remove(self) -> None:
        """Remove the last snapshot, also of a process that was killed. Raises StoreError, OSError."""
        await self._ingest.release()
        await FrozenTables(self._clickhouse).release()
        await asyncio.to_thread(remove_tree, self._directory)

    async def _take(self) -> Snapshot:
        self._directory.mkdir(mode=0o700)
        tables = FrozenTables(self._clickhouse)
        await tables.prepare()
        with ExitStack() as stack:
            pinned: list[SqliteSnapshot] = []

            async def freeze() -> None:
                pinned.append(stack.enter_context(await asyncio.to_thread(SqliteSnapshot, self._database)))
                await asyncio.to_thread(self._copy_keys)
                await tables.complete()

            ingested = await self._ingest.take(freeze)
            await tables.settle()
            (database,) = pinned
            await asyncio.to_thread(database.copy_to, self._directory / DATABASE)
            revision = await asyncio.to_thread(database.revision)
        engine, schema = await self._versions()
        return Snapshot(
            moment_ns=ingested.moment_ns,
            held_s=round(ingested.held_s, 6),
            durability=self._settings.durability,
            release=__version__,
            engine=engine,
            clickhouse_schema=schema,
            database_revision=revision,
            trees=[
                Tree("", str(self._directory)),
                Tree("clickhouse", str(tables.directory)),
                Tree("journal", str(ingested.directory)),
            ],
            lengths={f"journal/{name}": length for name, length in ingested.lengths.items()},
        )

    def _copy_keys(self) -> None:
        for name in KEY_FILES:
            with suppress(FileNotFoundError):
                shutil.copy2(self._settings.data_dir / name, self._directory / name)

    async def _versions(self) -> tuple[str, int]:
        ((engine,),) = await self._clickhouse.query("SELECT version()", {}, limits=_LIMITS)
        ((schema,),) = await self._clickhouse.query("SELECT max(version) FROM sluice_schema", {}, limits=_LIMITS)
        return str(engine), int(str(schema))


@contextmanager
def failures_of_stores() -> Iterator[None]:
    """Raises every failure of a store or a disk as BackupFailed."""
    try:
        yield
    except SnapshotFailed as error:
        raise BackupFailed(str(error)) from error
    except (StoreError, ApiError) as error:
        raise BackupFailed(f"No backup was made: {error.message}") from error
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"No backup was made: {error}.") from error
