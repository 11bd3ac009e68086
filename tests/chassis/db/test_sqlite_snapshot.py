"""A pinned state of a SQLite database, copied while others write."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from chassis.db.sqlite import SqliteSnapshot


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "a ? % b.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('0007')")
        connection.execute("CREATE TABLE numbers (n INTEGER)")
    return file


def write(file: Path, number: int) -> None:
    with closing(sqlite3.connect(file, timeout=5, isolation_level=None)) as connection:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def numbers(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [number for (number,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def test_the_copy_is_as_the_database_was_when_it_was_pinned_and_writers_go_on(database: Path, tmp_path: Path) -> None:
    write(database, 1)
    with SqliteSnapshot(database) as pinned:
        for number in range(2, 50):
            write(database, number)
        assert pinned.revision() == "0007"
        pinned.copy_to(tmp_path / "copy.db")
        write(database, 50)
    assert numbers(tmp_path / "copy.db") == [1]
    assert numbers(database) == list(range(1, 51))
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert not list(tmp_path.glob("copy.db-*"))


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 1_000)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteSnapshot(tmp_path / "text")
    with pytest.raises(sqlite3.OperationalError):
        SqliteSnapshot(tmp_path / "nowhere")
