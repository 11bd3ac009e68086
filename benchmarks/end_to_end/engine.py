"""The engine by itself, in a process of its own: tables, inserts of blocks, and counts of rows.

Blocks (`benchmarks.end_to_end.blocks`) are inserted one after the other, with the settings that the gateway sends with
an insert. CPU is read from outside.
"""

import asyncio
from functools import cache
from pathlib import Path
from typing import Final

from chdb.state.sqlitelike import Connection, connect

from benchmarks.stores import tables
from chassis.clickhouse.client import INSERT_SETTINGS, INSERT_SETTINGS_IF_KNOWN
from chassis.runtime.settings import ChassisSettings
from proto.storage.tables import TABLES

_COLUMNS: Final = {table.name: ", ".join(table.column_names) for table in TABLES}
_SETTINGS: Final = {**INSERT_SETTINGS, **INSERT_SETTINGS_IF_KNOWN}


def make_tables(directory: Path) -> None:
    """The empty tables."""
    asyncio.run(_make_tables(directory))
    _connected(directory)


def insert(directory: Path, folder: Path) -> int:
    """All blocks of a folder; their rows. Raises what the engine says."""
    rows = 0
    for path in sorted(folder.iterdir()):
        _, token, table = path.name.split(".")
        settings = ", ".join(
            f"{name} = '{value}'" for name, value in {**_SETTINGS, "insert_deduplication_token": token}.items()
        )
        statement = f"INSERT INTO {table} ({_COLUMNS[table]}) FROM INFILE '{path}' SETTINGS {settings} FORMAT Native"
        rows += _connected(directory).query(statement, "TabSeparated").rows_read()
    return rows


def count(directory: Path, table: str) -> int:
    """Rows of a table."""
    return int(_connected(directory).query(f"SELECT count() FROM {table}", "TabSeparated").bytes())


@cache
def _connected(directory: Path) -> Connection:
    return connect(str(directory))


async def _make_tables(directory: Path) -> None:
    async with tables(directory, ChassisSettings().retention_days):
        pass
