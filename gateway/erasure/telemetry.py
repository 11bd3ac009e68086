"""Counts and deletes the rows of an erasure in ClickHouse.

A deletion is a mutation (`ALTER TABLE ... DELETE`): it rewrites the parts that contain such rows, and leaves all others
as they are. ClickHouse keeps the files of a replaced part for a while (`old_parts_lifetime`),
and those of an idle table until something happens to it, so an erasure is only done when these are gone too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from proto.storage.tables import ERROR_OCCURRENCES, LOGS, SPANS, TABLES

PROJECT: Final = "project_id = {project:UInt64}"
NO_DAY: Final = "1970-01-01"  # no item is older than 2000
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


class Condition(NamedTuple):
    """Rows to erase: an SQL condition of ours for each table, in the order in which they are deleted, and the values
    bound in them.
    """

    by_table: Mapping[str, str]
    parameters: Mapping[str, object]

    @property
    def tables(self) -> Sequence[str]:
        """The tables, in order."""
        return list(self.by_table)

    def parameters_of(self, table: str) -> dict[str, object]:
        """The values that the condition of a table uses."""
        sql = self.by_table[table]
        return {name: value for name, value in self.parameters.items() if f"{{{name}:" in sql}


def of_project(project_id: int) -> Condition:
    """All rows of a project."""
    return Condition(dict.fromkeys(ALL_TABLES, PROJECT), {"project": project_id})


def of_items(project_id: int, spans: str, logs: str, parameters: Mapping[str, object]) -> Condition:
    """Spans and log records of a project that meet an SQL condition, and their error occurrences. Those go first: they
    are found by their items. Items of one request that share ids and time share their occurrences.
    """
    ids = "batch_id, trace_id, span_id"
    occurrences = (
        f"(source = 'span' AND ({ids}, time) IN"
        f" (SELECT {ids}, start_time FROM {SPANS.name} WHERE {PROJECT} AND {spans})"
        f" OR source = 'log' AND ({ids}, time) IN (SELECT {ids}, time FROM {LOGS.name} WHERE {PROJECT} AND {logs}))"
    )
    by_table = {ERROR_OCCURRENCES.name: occurrences, SPANS.name: spans, LOGS.name: logs}
    conditions = {table: f"{PROJECT} AND {sql}" for table, sql in by_table.items()}
    return Condition(conditions, {**parameters, "project": project_id})


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
            ((rows,),) = await self._read(f"SELECT count() FROM {table} WHERE {sql}", **condition.parameters_of(table))
            if rows:
                counts[table] = int(rows)
        return counts

    async def delete(self, condition: Condition, tables: Sequence[str]) -> None:
        """Begin to delete the rows of some tables. Repeating it is harmless."""
        for table in tables:
            sql = f"ALTER TABLE {table} DELETE WHERE {condition.by_table[table]}"
            await self._clickhouse.command(sql, condition.parameters_of(table), {"mutations_sync": 0})

    async def running(self, tables: Sequence[str]) -> Sequence[str]:
        """What mutations of the tables are still to do, with the reason of a failure."""
        found = await self._read(_MUTATIONS_SQL, tables=list(tables))
        return [f"{table}: {reason or command}" for table, command, reason in found]

    async def now(self) -> int:
        """ClickHouse's time, in seconds since 1970."""
        ((now,),) = await self._read(_NOW_SQL)
        return int(now)

    async def remove_old_parts(self, tables: Sequence[str], before: int) -> bool:
        """Remove the files of parts that existed before a time and were replaced since, as far as ClickHouse does not
        keep them on purpose; returns whether all are gone.
        """
        if not await self._count_old_parts(tables, before):
            return True
        for table in tables:  # no such partition exists, but what follows dropping one is what an idle table lacks
            await self._clickhouse.command(f"ALTER TABLE {table} DROP PARTITION '{NO_DAY}'")
        return not await self._count_old_parts(tables, before)

    async def _count_old_parts(self, tables: Sequence[str], before: int) -> int:
        ((count,),) = await self._read(_OLD_PARTS_SQL, tables=list(tables), before=before)
        return int(count)

    async def _read(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)
