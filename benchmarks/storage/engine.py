"""ClickHouse in this process, on one directory, with its CPU time and the size of what it keeps."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import clickhouse_connect

_COMMENT: Final = re.compile(r"--[^\n]*")
# What a repeated read would otherwise remember of the one before.
_COLD: Final = {"use_query_condition_cache": 0, "use_query_cache": 0, "precise_float_parsing": 1, "max_threads": 2}


def sql_file(name: str, **places: object) -> str:
    """A statement of this benchmark without its comments, its `{places}` filled in."""
    text = _COMMENT.sub("", files(__package__).joinpath(f"sql/{name}.sql").read_text("utf-8"))
    for place, value in places.items():
        text = text.replace(f"{{{place}}}", str(value))
    return text


class Engine:
    """One client; CPU is that of the whole process, merges included."""

    def __init__(self, directory: Path) -> None:
        self._client = clickhouse_connect.get_client(interface="chdb", path=str(directory))

    def command(self, sql: str) -> None:
        self._client.command(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._client.query(sql).result_rows]

    def read(self, sql: str) -> bytes:
        """The whole answer of a query, as tab-separated text."""
        return bytes(self._client.raw_query(sql, fmt="TabSeparated", settings=_COLD))

    def tables(self) -> set[str]:
        return {name for (name,) in self.rows("SHOW TABLES")}

    def insertable(self, table: str) -> dict[str, str]:
        """The columns of an insert and their types."""
        where = f"database = currentDatabase() AND table = '{table}' AND default_kind = ''"
        return dict(self.rows(f"SELECT name, type FROM system.columns WHERE {where} ORDER BY position"))

    def disk_bytes(self, table: str) -> int:
        """Of the parts that count, indices included."""
        where = f"active AND database = currentDatabase() AND table = '{table}'"
        ((size,),) = self.rows(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE {where}")
        return int(size)


class Spent:
    """CPU time of a block, in seconds."""

    cpu = 0.0


@contextmanager
def spending() -> Iterator[Spent]:
    """The CPU of this process, the engine's threads included."""
    spent, cpu = Spent(), time.process_time()
    yield spent
    spent.cpu = time.process_time() - cpu
