"""Counts and deletes the rows of an erasure in ClickHouse.

A deletion is a mutation (`ALTER TABLE ... DELETE`), which writes the parts that hold such rows anew, without them, and
leaves all other parts as they are. ClickHouse keeps the files of a replaced part for some minutes
(`old_parts_lifetime`), so an erasure is only done when these are gone too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chassis.clickhouse import ClickHouse, QueryLimits
from proto.storage.tables import TABLES

PROJECT: Final = "project_id = {project:UInt64}"
ALL_TABLES: Final = tuple(table.name for table in TABLES)

_LIMITS: Final = QueryLimits(max_seconds=600, max_result_rows=0, priority=3)
_ENGINES_SQL: Final = (
    "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND has({tables:Array(String)}, name)"
    " ORDER BY name"
)
_MUTATIONS_SQL: Final = (
    "SELECT table, command, latest_fail_reason FROM system.mutations WHERE database = currentDatabase()"
    " AND has({tables:Array(String)}, table) AND NOT is_done ORDER BY create_time"
)
# Inactive parts of these tables that a mutation or merge has replaced since a time.
_OLD_PARTS_SQL: Final = (
    "SELECT count() FROM system.parts WHERE database = currentDatabase() AND has({tables:Array(String)}, table)"
    " AND NOT active AND modification_time <= toDateTime({before:UInt32})"
)
_NOW_SQL: Final = "SELECT toUInt32(toUnixTimestamp(now()))"


class Condition:
    """Rows to erase: an SQL condition of ours for each table, and the parameters bound in it."""

    def __init__(self, by_table: Mapping[str, str], parameters: Mapping[str, object]) -> None:
        self.by_table = by_table
        self.parameters = parameters

    @property
    def tables(self) -> Sequence[str]:
        """The tables in the order in which rows are deleted."""
        return list(self.by_table)


def of_project(project_id: int) -> Condition:
    """All rows of a project."""
    return Condition(dict.fromkeys(ALL_TABLES, PROJECT), {"project": project_id})


class TelemetryErasure:
    """Deletes rows of the tables of one ClickHouse. Its methods raise StoreError."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse

    async def unsupported_engines(self) -> Sequence[str]:
        """Tables that are not of the MergeTree family: a Distributed table and a view have no rows of their own."""
        found = await self._read(_ENGINES_SQL, tables=list(ALL_TABLES))
        return [f"{name} ({engine})" for name, engine in found if not str(engine).endswith("MergeTree")]

    async def count(self, condition: Condition) -> dict[str, int]:
        """The rows that are there now, by table; without the tables that have none."""
        counts = {}
        for table, sql in condition.by_table.items():
            ((rows,),) = await self._read(f"SELECT count() FROM {table} WHERE {sql}", **condition.parameters)
            if rows:
                counts[table] = int(rows)
        return counts

    async def delete(self, condition: Condition, tables: Sequence[str]) -> None:
        """Begin to delete the rows of some tables. Repeating it is harmless."""
        for table in tables:
            sql = f"ALTER TABLE {table} DELETE WHERE {condition.by_table[table]}"
            await self._clickhouse.command(sql, condition.parameters, {"mutations_sync": 0})

    async def running(self, tables: Sequence[str]) -> Sequence[str]:
        """What mutations of the tables are still to do, with the reason of a failure."""
        found = await self._read(_MUTATIONS_SQL, tables=list(tables))
        return [f"{table}: {reason or command}" for table, command, reason in found]

    async def now(self) -> int:
        """ClickHouse's time, in seconds since 1970."""
        ((now,),) = await self._read(_NOW_SQL)
        return int(now)

    async def has_old_parts(self, tables: Sequence[str], before: int) -> bool:
        """Whether files of parts that existed before a time, and were replaced since, are still there."""
        ((count,),) = await self._read(_OLD_PARTS_SQL, tables=list(tables), before=before)
        return bool(count)

    async def _read(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)
