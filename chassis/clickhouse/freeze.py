"""Frozen tables of the embedded engine: hard links of all active parts at one moment, for a backup.

    FrozenTables.prepare    freezes all partitions, while inserts continue
    FrozenTables.complete   while no insert runs: freezes the partitions that have changed since `prepare` again, and
                            copies the files that the engine keeps beside the parts; does not touch other partitions
    FrozenTables.settle     merges both freezes into one tree, as the engine's directory would be if the engine had
                            stopped when `complete` ran

An active part never changes, so a hard link is as good as a copy. Merges may replace parts at any time, but they keep
all rows, and a freeze sees the active parts of a partition at one moment.

Source: clickhouse.com/docs "ALTER TABLE ... FREEZE PARTITION".
"""

import asyncio
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from chassis.clickhouse.client import ClickHouse, QueryLimits
from chassis.clickhouse.errors import StoreUnavailable

ALL: Final = "sluice_backup"  # names of freezes, and of their directories below `shadow`
CHANGED: Final = "sluice_backup_changed"
SHADOW: Final = "shadow"
CONCURRENT: Final = 4  # freezes at once

_LIMITS: Final = QueryLimits(max_seconds=60, max_result_rows=0)
_OURS: Final = "database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')"
_TABLES_SQL: Final = f"SELECT database, name FROM system.tables WHERE engine LIKE '%MergeTree' AND {_OURS}"
_PARTS_SQL: Final = f"SELECT database, table, partition_id, path FROM system.parts WHERE active AND {_OURS}"
_PARTITION_ID: Final = re.compile(r"[0-9A-Za-z-]+")


class _Partition(NamedTuple):
    database: str
    table: str
    partition_id: str


class FrozenTables:
    """One freeze of all tables. The methods raise StoreError and OSError."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        if clickhouse.directory is None:
            raise ValueError("only the embedded engine's files can be frozen")
        self._clickhouse = clickhouse
        self._engine = clickhouse.directory
        self._active: set[Path] = set()  # parts of unchanged partitions, relative to the engine's directory
        self._changed: set[tuple[Path, str]] = set()  # directory of the table, and partition

    @property
    def directory(self) -> Path:
        """The directory of the links after `settle`."""
        return self._engine / SHADOW / ALL

    async def prepare(self) -> None:
        """Link all active parts, while inserts and merges continue."""
        for database, table in await self._clickhouse.query(_TABLES_SQL, {}, limits=_LIMITS):
            await self._clickhouse.command(f"ALTER TABLE {_quoted(str(database), str(table))} FREEZE WITH NAME '{ALL}'")

    async def complete(self) -> None:
        """Link the parts of the partitions that have changed since `prepare`, and copy the engine's other files. No
        insert may run.
        """
        parts: defaultdict[_Partition, set[Path]] = defaultdict(set)
        for database, table, partition_id, path in await self._clickhouse.query(_PARTS_SQL, {}, limits=_LIMITS):
            parts[_Partition(str(database), str(table), str(partition_id))].add(_relative(str(path)))
        changed = await asyncio.to_thread(self._find_changed, parts)
        slots = asyncio.Semaphore(CONCURRENT)
        try:
            async with asyncio.TaskGroup() as tasks:
                for partition in changed:
                    tasks.create_task(self._freeze_partition(partition, slots))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the others are of the same kind
        await asyncio.to_thread(copy_table_files, self._engine, self.directory)

    async def settle(self) -> None:
        """Replace the parts of changed partitions with the parts that `complete` linked, and remove links of parts that
        were no longer active then.
        """
        await asyncio.to_thread(self._settle)

    async def release(self) -> None:
        """Remove all links, including links of an earlier process."""
        await asyncio.to_thread(self._remove)

    def _find_changed(self, parts: dict[_Partition, set[Path]]) -> list[_Partition]:
        changed = []
        for partition, paths in parts.items():
            if all((self.directory / path).is_dir() for path in paths):
                self._active |= paths
            else:
                changed.append(partition)
                self._changed.add((next(iter(paths)).parent, partition.partition_id))
        return changed

    async def _freeze_partition(self, partition: _Partition, slots: asyncio.Semaphore) -> None:
        if not _PARTITION_ID.fullmatch(partition.partition_id):
            raise StoreUnavailable(f"The partition {partition.partition_id!r} of {partition.table} is not supported.")
        table = _quoted(partition.database, partition.table)
        async with slots:
            await self._clickhouse.command(
                f"ALTER TABLE {table} FREEZE PARTITION ID '{partition.partition_id}' WITH NAME '{CHANGED}'"
            )

    def _settle(self) -> None:
        for part in list(_parts(self.directory)):
            if (part.parent, _partition_id(part)) in self._changed or part not in self._active:
                shutil.rmtree(self.directory / part)
        changed = self._engine / SHADOW / CHANGED
        for part in list(_parts(changed)):
            (self.directory / part.parent).mkdir(parents=True, exist_ok=True)
            (changed / part).rename(self.directory / part)

    def _remove(self) -> None:
        for name in (ALL, CHANGED):
            directory = self._engine / SHADOW / name
            if directory.exists():
                shutil.rmtree(directory)


def copy_table_files(engine: Path, target: Path) -> None:
    """Copy the files that the engine keeps beside the parts of its tables: CREATE statements, mutations, deduplication
    logs, and the symbolic links from names to ids. Raises OSError.
    """
    for directory in (engine / "metadata", engine / "data"):
        for path in _walk(directory):
            _copy(path, target / path.relative_to(engine))
    for table in (engine / "store").glob("*/*"):
        logs = table / "deduplication_logs"
        for path in (*table.iterdir(), *(logs.iterdir() if logs.is_dir() else ())):
            if path.is_file():
                _copy(path, target / path.relative_to(engine))


def _walk(directory: Path) -> Iterator[Path]:
    """All files and symbolic links below a directory."""
    for root, directories, files in os.walk(directory):
        for name in (*files, *directories):
            path = Path(root, name)
            if path.is_symlink() or path.is_file():
                yield path


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target, follow_symlinks=False)


def _parts(tree: Path) -> Iterator[Path]:
    """The part directories of a frozen tree, relative to it."""
    for path in tree.glob("store/*/*/*"):
        if path.is_dir() and (path / "checksums.txt").exists():
            yield path.relative_to(tree)


def _partition_id(part: Path) -> str:
    """The partition id in the name of a part's directory: `20261122` for `20261122_1_6_2`."""
    return part.name.partition("_")[0]


def _relative(path: str) -> Path:
    """A part's path relative to the engine's directory: `store/5fa/UUID/PART`. Raises StoreUnavailable."""
    relative = Path(*Path(path).parts[-4:])
    if relative.parts[0] != "store":
        raise StoreUnavailable(f"The part {path} is not in the embedded engine's directory for parts.")
    return relative


def _quoted(database: str, table: str) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in (database, table))
