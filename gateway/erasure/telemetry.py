"""Counts and deletes the rows of an erasure in ClickHouse, and rebuilds the rows derived from them.

`TelemetryErasure`: a deletion is a mutation (`ALTER TABLE ... DELETE`). It rewrites the parts that contain such rows,
and does not change other parts. ClickHouse keeps the files of a replaced part for a while (`old_parts_lifetime`), and
in an idle table until the next change, so an erasure is only done when these files are removed too.

`DerivedRows`: the trace index and attribute keys of a project's day are sums, from which single items cannot be
removed. So their rows of the day are deleted, and computed again from the remaining items. The result is exact only
while the day receives no items, so days that still receive items are rebuilt later. Error occurrences are not sums:
they are deleted with their items.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits, StoreUnavailable
from gateway.repair import statements
from gateway.repair.derivation import (
    EVERY_KEY,
    QUIET_S,
    Chunk,
    derive_rows,
    drop_leftovers,
    insert_settings,
    row_chunks,
    split_project,
    temporary_tables,
    unsupported_engines,
)
from proto.storage.tables import (
    ATTRIBUTE_KEYS,
    ERROR_OCCURRENCES,
    INGEST_OUTCOMES,
    LOGS,
    SPANS,
    TABLES,
    TRACE_INDEX,
)

PROJECT: Final = "project_id = {project:UInt64}"
NO_DAY: Final = "1970-01-01"  # no item is older than 2000
# The day of a row, by table.
DAYS: Final[Mapping[str, str]] = {
    SPANS.name: "toDate(start_time)",
    LOGS.name: "toDate(time)",
    ERROR_OCCURRENCES.name: "toDate(time)",
    TRACE_INDEX.name: "day",
    ATTRIBUTE_KEYS.name: "toDate(bucket)",
    INGEST_OUTCOMES.name: "toDate(time)",
}
ALL_TABLES: Final = tuple(table.name for table in TABLES)

_LIMITS: Final = QueryLimits(max_seconds=600, max_result_rows=0, priority=3)
_MUTATIONS_SQL: Final = (
    "SELECT table, count(), countIf(latest_fail_reason != '') FROM system.mutations WHERE database = currentDatabase()"
    " AND has({tables:Array(String)}, table) AND NOT is_done GROUP BY table ORDER BY table"
)
# Inactive parts of these tables that a mutation or merge has replaced since a time.
_OLD_PARTS_SQL: Final = (
    "SELECT count() FROM system.parts WHERE database = currentDatabase() AND has({tables:Array(String)}, table)"
    " AND NOT active AND modification_time <= toDateTime({before:UInt32})"
)
_OF_DELETION_SQL: Final = (
    "SELECT DISTINCT table FROM system.mutations WHERE database = currentDatabase()"
    " AND has({tables:Array(String)}, table) AND position(command, concat('\\'', {deletion_id:String}, '\\'')) > 0"
)
_REMOVE_MUTATIONS: Final = (
    "KILL MUTATION WHERE database = currentDatabase() AND has({tables:Array(String)}, table) AND is_done"
    " AND position(command, 'DELETE WHERE') > 0 SYNC"  # the user may do nothing to mutations of other kinds
)
_LEFTOVERS_SQL: Final = (
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'repair_')"
    " AND metadata_modification_time < toDateTime({before:UInt32})"
)
LEFTOVER_AGE_S: Final = 86_400
_NOW_SQL: Final = "SELECT toUInt32(toUnixTimestamp(now()))"


class Condition(NamedTuple):
    """Rows to erase: an SQL condition written by Sluice for each table, in the order of deletion, and the values bound
    in the conditions.
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


def of_projects(project_ids: Sequence[int]) -> Condition:
    """All rows of several projects."""
    sql = "has({projects:Array(UInt64)}, project_id)"
    return Condition(dict.fromkeys(ALL_TABLES, sql), {"projects": list(project_ids)})


def of_items(project_id: int, spans: str, logs: str, parameters: Mapping[str, object]) -> Condition:
    """Spans and log records of a project that meet an SQL condition, and their error occurrences. Occurrences are
    deleted first, because they are found by their items. If items of one request have the same ids and time, their
    occurrences cannot be told apart.
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


def of_orphans(project_id: int, days: Sequence[date]) -> Condition:
    """Error occurrences of a project's days whose items do not exist: they were stored after their items were
    erased."""
    ids = "batch_id, trace_id, span_id"
    gone = " AND ".join(
        f"NOT (source = '{source}' AND ({ids}, time) IN (SELECT {ids}, {column} FROM {table}"
        f" WHERE {PROJECT} AND has({{days:Array(Date)}}, toDate({column}))))"
        for source, table, column in (("span", SPANS.name, "start_time"), ("log", LOGS.name, "time"))
    )
    sql = f"{PROJECT} AND has({{days:Array(Date)}}, toDate(time)) AND {gone}"
    return Condition({ERROR_OCCURRENCES.name: sql}, {"project": project_id, "days": list(days)})


class TelemetryErasure:
    """Deletes rows of the tables of one ClickHouse. Its methods raise StoreError."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse

    async def unsupported_engines(self) -> Sequence[str]:
        """Tables that are not of the MergeTree family: a Distributed table and a view have no rows of their own."""
        return await unsupported_engines(self._clickhouse, ALL_TABLES)

    async def count(self, condition: Condition) -> dict[str, int]:
        """The number of rows that meet the condition now, by table; without tables that have none."""
        counts = {}
        for table, sql in condition.by_table.items():
            ((rows,),) = await self._read(f"SELECT count() FROM {table} WHERE {sql}", **condition.parameters_of(table))
            if rows:
                counts[table] = int(rows)
        return counts

    async def days(self, condition: Condition, table: str) -> Sequence[date]:
        """The days of the rows of a table."""
        sql = f"SELECT DISTINCT {DAYS[table]} FROM {table} WHERE {condition.by_table[table]}"
        return [day for (day,) in await self._read(sql, **condition.parameters_of(table))]

    async def delete(self, condition: Condition, tables: Sequence[str], deletion_id: str = "") -> None:
        """Begin to delete the rows of some tables. Repeating a deletion is harmless. `tables_of_deletion` finds the
        statements by `deletion_id`, an id that the caller chooses.
        """
        and_id = f" AND '{deletion_id}' != ''" if deletion_id else ""
        for table in tables:
            sql = f"ALTER TABLE {table} DELETE WHERE ({condition.by_table[table]}){and_id}"
            # Without this setting replicated tables refuse subqueries. These subqueries give the same rows on every
            # replica.
            settings = {"mutations_sync": 0, "allow_nondeterministic_mutations": 1}
            await self._clickhouse.command(sql, condition.parameters_of(table), settings)

    async def tables_of_deletion(self, deletion_id: str) -> Sequence[str]:
        """The tables with a deletion of this id that has begun or ended, unless its statement was removed."""
        rows = await self._read(_OF_DELETION_SQL, tables=list(ALL_TABLES), deletion_id=deletion_id)
        return [str(table) for (table,) in rows]

    async def unfinished_mutations(self, tables: Sequence[str]) -> Sequence[str]:
        """The tables with unfinished mutations, with their number. Mutations of other tenants are counted too, so
        neither statements nor failure reasons (which quote statements) are returned.
        """
        found = await self._read(_MUTATIONS_SQL, tables=list(tables))
        return [
            f"{table}: {count} mutations{f', {failing} failing: see system.mutations' if failing else ''}"
            for table, count, failing in found
        ]

    async def now(self) -> int:
        """ClickHouse's time, in seconds since 1970."""
        ((now,),) = await self._read(_NOW_SQL)
        return int(now)

    async def remove_old_parts(self, tables: Sequence[str], before: int) -> bool:
        """Remove the files of parts that existed before a time and were replaced since, unless ClickHouse keeps them on
        purpose; returns whether all these files are removed.
        """
        if not await self._count_old_parts(tables, before):
            return True
        for table in tables:  # there is no such partition, but dropping one makes an idle table remove old parts
            await self._clickhouse.command(f"ALTER TABLE {table} DROP PARTITION '{NO_DAY}'")
        return not await self._count_old_parts(tables, before)

    async def remove_finished_mutations(self, tables: Sequence[str]) -> None:
        """Remove the statements of finished mutations, which ClickHouse keeps in files: they contain filter values."""
        await self._clickhouse.command(_REMOVE_MUTATIONS, {"tables": list(tables)})

    async def leftover_tables(self, before: datetime) -> Sequence[str]:
        """Temporary tables from before a time. A killed repair leaves them, and they may hold erased rows."""
        found = await self._read(_LEFTOVERS_SQL, before=int(before.timestamp()))
        return [str(name) for (name,) in found]

    async def drop_leftovers(self) -> None:
        """Drop temporary tables that are older than the longest possible repair."""
        await drop_leftovers(self._clickhouse, LEFTOVER_AGE_S)

    async def _count_old_parts(self, tables: Sequence[str], before: int) -> int:
        ((count,),) = await self._read(_OLD_PARTS_SQL, tables=list(tables), before=before)
        return int(count)

    async def _read(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)


WAIT_S: Final = 0.5
MAX_WAITS: Final = 120  # for a mutation
_MODELS: Final = {
    TRACE_INDEX.name: TRACE_INDEX.name,
    ATTRIBUTE_KEYS.name: ATTRIBUTE_KEYS.name,
    EVERY_KEY: ATTRIBUTE_KEYS.name,
}
_SETTINGS: Final = {
    "max_memory_usage": 2**30,
    "max_bytes_before_external_group_by": 2**29,
    "max_execution_time": 600,
}
_ITEMS: Final = " UNION ALL ".join(
    f"SELECT toDate({source.time}) AS day, 0 AS indexed, count() AS stored FROM {source.table}"
    f" WHERE {PROJECT} AND {statements.HAS_TRACE} GROUP BY day"
    for source in statements.ITEM_SOURCES
)
_OUTDATED_SQL: Final = (
    f"SELECT day FROM (SELECT day, sum(items) AS indexed, 0 AS stored FROM {TRACE_INDEX.name} WHERE {PROJECT}"
    f" GROUP BY day UNION ALL {_ITEMS}) GROUP BY day HAVING sum(indexed) != sum(stored) ORDER BY day"
)


class DerivedRows:
    """The derived rows of one ClickHouse. At most `keys_per_day` attribute keys of a project and day have rows of their
    own (0: all keys have). Its methods raise StoreError.
    """

    def __init__(
        self,
        clickhouse: ClickHouse,
        telemetry: TelemetryErasure,
        keys_per_day: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clickhouse = clickhouse
        self._telemetry = telemetry
        self._keys_per_day = keys_per_day
        self._sleep = sleep

    async def outdated_days(self, project_id: int) -> Sequence[date]:
        """The days of a project whose trace index counts a different number of items than are stored."""
        return [day for (day,) in await self._read(_OUTDATED_SQL, project=project_id)]

    async def rebuild(self, project_id: int, day: date, is_held: Callable[[], Awaitable[bool]]) -> bool:
        """Rebuild one day; False if the day receives items meanwhile, or if the lease of the erasure is no longer held
        (`is_held`)."""
        before = await self._count_items(project_id, day)
        await self._sleep(QUIET_S)
        if before != await self._count_items(project_id, day):
            return False

        def chunks_of(source: statements.Source) -> AsyncIterator[Chunk]:
            return split_project(self._clickhouse, day, project_id, row_chunks(source))

        async with temporary_tables(self._clickhouse, _MODELS) as temporary:
            await derive_rows(self._clickhouse, chunks_of, temporary, self._keys_per_day, _SETTINGS)
            if before != await self._count_items(project_id, day):
                return False
            # The trace index is rebuilt last: a later round uses it to see whether the day is outdated.
            tables = {table: temporary[table] for table in (ATTRIBUTE_KEYS.name, TRACE_INDEX.name)}
            return await self._replace(project_id, day, tables, is_held)

    async def _replace(
        self, project_id: int, day: date, tables: dict[str, str], is_held: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Replace the rows of one day. Readers find no derived rows of the day for some seconds. After a crash the day
        still counts as outdated."""
        if not await is_held():
            return False
        condition = Condition(
            {table: f"{PROJECT} AND {DAYS[table]} = {{day:Date}}" for table in tables},
            {"project": project_id, "day": day},
        )
        await self._telemetry.delete(condition, condition.tables)
        for _ in range(MAX_WAITS):
            if not await self._telemetry.count(condition):
                break
            await self._sleep(WAIT_S)
        else:
            raise StoreUnavailable("ClickHouse did not delete the derived rows of a day in time.")
        for table, name in tables.items():
            if not await is_held():
                return False
            await self._clickhouse.command(f"INSERT INTO {table} SELECT * FROM {name}", {}, insert_settings(_SETTINGS))
        return True

    async def _count_items(self, project_id: int, day: date) -> list[tuple[Any, ...]]:
        tomorrow = day + timedelta(days=1)
        counts = []
        for source in statements.ITEM_SOURCES:
            sql = (
                f"SELECT count() FROM {source.table} WHERE {PROJECT} AND {source.time} >= {{day:Date}}"
                f" AND {source.time} < {{tomorrow:Date}}"
            )
            counts += await self._read(sql, project=project_id, day=day, tomorrow=tomorrow)
        return counts

    async def _read(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)
