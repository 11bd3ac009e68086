"""Rebuilds the trace index and the attribute keys of a project's day, after spans or logs of that day were erased.

Both only have sums, so nothing can be taken out of them: the rows of the day are deleted, and computed again from what
is left. That is exact only while the day receives no items, so a day that is still written to is left for later. Error
occurrences are not sums: they are deleted with their items.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any, Final

from chassis.clickhouse import ClickHouse, QueryLimits, StoreUnavailable
from gateway.erasure.telemetry import DAYS, PROJECT, Condition, TelemetryErasure
from gateway.repair import statements
from gateway.repair.chunks import ChunkSizing, split_project
from gateway.repair.statements import ITEM_SOURCES, SPAN_SOURCE, Source
from proto.storage.tables import ATTRIBUTE_KEYS, TRACE_INDEX

QUIET_S: Final = 10.0  # derived rows follow their items within two seconds
WAIT_S: Final = 0.5
MAX_WAITS: Final = 120  # for a mutation
CHUNK_ROWS: Final = 2_000_000
_PREFIX: Final = "repair_"  # `sluice repair` drops what a killed process leaves
_LIMITS: Final = QueryLimits(max_seconds=600, max_result_rows=0, priority=3)
_SETTINGS: Final = {
    "max_memory_usage": 2**30,
    "max_bytes_before_external_group_by": 2**29,
    "max_execution_time": 600,
}
_ITEMS: Final = " UNION ALL ".join(
    f"SELECT toDate({source.time}) AS day, 0 AS indexed, count() AS stored FROM {source.table}"
    f" WHERE {PROJECT} AND {statements.HAS_TRACE} GROUP BY day"
    for source in ITEM_SOURCES
)
_OUTDATED_SQL: Final = (
    f"SELECT day FROM (SELECT day, sum(items) AS indexed, 0 AS stored FROM {TRACE_INDEX.name} WHERE {PROJECT}"
    f" GROUP BY day UNION ALL {_ITEMS}) GROUP BY day HAVING sum(indexed) != sum(stored) ORDER BY day"
)


class DerivedRows:
    """The derived rows of one ClickHouse. `keys_per_day` attribute keys of a project and day have rows of their own (0:
    all). Its methods raise StoreError.
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
        """The days of a project whose trace index counts other items than there are."""
        return [day for (day,) in await self._read(_OUTDATED_SQL, project=project_id)]

    async def rebuild(self, project_id: int, day: date, is_held: Callable[[], Awaitable[bool]]) -> bool:
        """Rebuild one day; False if it receives items meanwhile, or if the erasure is no longer `is_held`."""
        before = await self._count_items(project_id, day)
        await self._sleep(QUIET_S)
        if before != await self._count_items(project_id, day):
            return False
        async with self._temporary_tables() as (traces, every_key, keys):
            for source in ITEM_SOURCES:
                await self._fill(statements.trace_rows(source, traces), source, project_id, day)
            await self._fill(statements.key_rows(every_key), SPAN_SOURCE, project_id, day)
            await self._name_keys(every_key, keys)
            if before != await self._count_items(project_id, day):
                return False
            # The trace index last: by it a later round sees whether the day is outdated.
            return await self._replace(project_id, day, {ATTRIBUTE_KEYS.name: keys, TRACE_INDEX.name: traces}, is_held)

    async def _fill(self, sql: str, source: Source, project_id: int, day: date) -> None:
        sizing = ChunkSizing(source, statements.EVERY_ROW, statements.ROW_WEIGHT, CHUNK_ROWS)
        async for chunk in split_project(self._clickhouse, day, project_id, sizing):
            await self._clickhouse.command(sql, chunk.parameters, _new_settings())

    async def _name_keys(self, every_key: str, keys: str) -> None:
        if self._keys_per_day:
            sql, parameters = statements.named_key_rows(every_key, keys), {"most": self._keys_per_day}
            await self._clickhouse.command(sql, parameters, _new_settings())
        else:
            await self._clickhouse.command(f"INSERT INTO {keys} SELECT * FROM {every_key}", {}, _new_settings())

    async def _replace(
        self, project_id: int, day: date, tables: dict[str, str], is_held: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Readers find no derived rows of the day for some seconds. After a crash it is outdated still."""
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
            raise StoreUnavailable("ClickHouse does not delete the derived rows of a day.")
        for table, name in tables.items():
            if not await is_held():
                return False
            await self._clickhouse.command(f"INSERT INTO {table} SELECT * FROM {name}", {}, _new_settings())
        return True

    async def _count_items(self, project_id: int, day: date) -> list[tuple[Any, ...]]:
        tomorrow = day + timedelta(days=1)
        counts = []
        for source in ITEM_SOURCES:
            sql = (
                f"SELECT count() FROM {source.table} WHERE {PROJECT} AND {source.time} >= {{day:Date}}"
                f" AND {source.time} < {{tomorrow:Date}}"
            )
            counts += await self._read(sql, project=project_id, day=day, tomorrow=tomorrow)
        return counts

    @asynccontextmanager
    async def _temporary_tables(self) -> AsyncIterator[tuple[str, str, str]]:
        """Empty tables, dropped on exit: a trace index, all attribute keys, and those with rows of their own."""
        suffix = secrets.token_hex(4)
        models = {
            f"{_PREFIX}{TRACE_INDEX.name}_{suffix}": TRACE_INDEX.name,
            f"{_PREFIX}every_key_{suffix}": ATTRIBUTE_KEYS.name,
            f"{_PREFIX}{ATTRIBUTE_KEYS.name}_{suffix}": ATTRIBUTE_KEYS.name,
        }
        traces, every_key, keys = models
        try:
            for name, table in models.items():
                await self._clickhouse.command(f"CREATE TABLE {name} AS {table}")
            yield traces, every_key, keys
        finally:
            for name in models:
                await self._clickhouse.command(f"DROP TABLE IF EXISTS {name}")

    async def _read(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)


def _new_settings() -> dict[str, str | int | float]:
    return {**_SETTINGS, "insert_deduplication_token": secrets.token_hex(16)}
