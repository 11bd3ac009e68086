"""The tables of the first release. Builds before the first release left no migration history: a database of such a
build is migrated if it has exactly these tables, and refused otherwise (`chassis.db.migrations`).
"""

from importlib.resources import files
from typing import Final

_SQLITE_TYPES: Final = {
    ' COLLATE "C"': "",
    "BYTEA": "BLOB",
    "JSONB": "JSON",
    "TIMESTAMP WITH TIME ZONE": "VARCHAR(24)",
}


def statements(dialect: str) -> list[str]:
    """The statements that create the tables in a database of this dialect, `sqlite` or `postgresql`."""
    tables = _read("tables.sql")
    if dialect == "sqlite":
        for name, other in _SQLITE_TYPES.items():
            tables = [statement.replace(name, other) for statement in tables]
    return [*tables, *_read(f"triggers.{dialect}.sql")]


def _read(name: str) -> list[str]:
    text = files("chassis.db.migrations").joinpath("sql", f"baseline_{name}").read_text("utf-8")
    return [part for part in text.split("\n\n") if not part.startswith("--")]
