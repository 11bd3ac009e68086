"""The engine by itself: `python -m benchmarks.end_to_end.engine DIRECTORY` makes the tables, then inserts blocks.

A line on standard input names a folder of blocks (`benchmarks.end_to_end.blocks`): they are inserted one after the
other, with the settings that the gateway sends with an insert, and answered with a line of their rows. CPU is read from
outside. `--count TABLE` prints the rows of a table instead.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from chdb.state.sqlitelike import Connection, connect

from chassis.clickhouse import ClickHouse, migrations
from chassis.clickhouse.client import INSERT_SETTINGS, INSERT_SETTINGS_IF_KNOWN
from chassis.runtime.settings import ChassisSettings
from proto.storage.tables import TABLES

_COLUMNS: Final = {table.name: ", ".join(table.column_names) for table in TABLES}
_SETTINGS: Final = {**INSERT_SETTINGS, **INSERT_SETTINGS_IF_KNOWN}


def insert(connection: Connection, folder: Path) -> int:
    """All blocks of a folder; their rows. Raises what the engine says."""
    rows = 0
    for path in sorted(folder.iterdir()):
        _, token, table = path.name.split(".")
        settings = ", ".join(
            f"{name} = '{value}'" for name, value in {**_SETTINGS, "insert_deduplication_token": token}.items()
        )
        statement = f"INSERT INTO {table} ({_COLUMNS[table]}) FROM INFILE '{path}' SETTINGS {settings} FORMAT Native"
        rows += connection.query(statement, "TabSeparated").rows_read()
    return rows


async def _make_tables(directory: Path) -> None:
    clickhouse = ClickHouse(f"chdb://{directory}")
    await clickhouse.start()
    await migrations.migrate(clickhouse, retention_days=ChassisSettings().retention_days)
    await clickhouse.close()


def main() -> None:
    """Serve standard input until it ends, or count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", default="", help="a table")
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    if not arguments.count:
        asyncio.run(_make_tables(arguments.directory))
    connection = connect(str(arguments.directory))
    if arguments.count:
        _say(int(connection.query(f"SELECT count() FROM {arguments.count}", "TabSeparated").bytes()))
    else:
        _say(0)
        for line in sys.stdin:
            _say(insert(connection, Path(line.rstrip("\n"))))
    connection.close()


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
