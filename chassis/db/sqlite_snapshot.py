"""A snapshot of a SQLite database in use: pinned at one moment, copied afterwards while others write."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

WAIT_S: Final = 5.0  # for a writer that is about to change the journal mode, or for recovery


class SqliteSnapshot:
    """An open read transaction. In WAL mode it keeps its state of the database, and delays no writer."""

    def __init__(self, file: Path) -> None:
        """Begin the transaction. Raises sqlite3.Error."""
        self._connection = sqlite3.connect(
            f"file:{quote(str(file))}?mode=rw", uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on it is pinned
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def revision(self) -> str:
        """The revision of the schema (Alembic's). Raises sqlite3.Error."""
        row = self._connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0])

    def copy_to(self, target: Path) -> None:
        """Copy the pinned state to a new file, mode 0600, which is on disk when this returns. Blocks, without the
        interpreter's lock. Raises sqlite3.Error, OSError.
        """
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(target)) as copy:
            self._connection.backup(copy)
        with target.open("rb") as file:
            os.fsync(file.fileno())
