"""One day after the other: its derived tables are made beside the old ones, compared, and put in their place."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.errors import StartupError
from gateway.repair import statements
from gateway.repair.occurrences import Raising, occurrences
from gateway.repair.pieces import Piece, Weighing, of_day
from gateway.repair.statements import ITEM_SOURCES, LOG_SOURCE, SPAN_SOURCE, Source
from proto.otlp.native import write_block
from proto.storage.tables import ATTRIBUTE_KEYS, ERROR_OCCURRENCES, TRACE_INDEX

DERIVED: Final = (TRACE_INDEX.name, ATTRIBUTE_KEYS.name, ERROR_OCCURRENCES.name)
PIECE_ROWS: Final = 2_000_000  # that ClickHouse groups at once
PIECE_BYTES: Final = 16 * 2**20  # of texts that are in this process at once; as Python objects some times as much
QUIET_S: Final = 10.0  # how long a day has no new rows before it is read; derived rows follow theirs within two
ATTEMPTS: Final = 3
LEFT_OVER_S: Final = 86_400  # a table of a repair that was killed; none takes so long
_PREFIX: Final = "repair_"

_LIMITS: Final = QueryLimits(max_seconds=3_600, max_result_rows=0)
_WORK: Final[Mapping[str, int]] = {
    "max_memory_usage": 2 * 2**30,
    "max_bytes_before_external_group_by": 2**30,
    "max_bytes_before_external_sort": 2**29,
    "max_execution_time": 3_600,
}

_ENGINES: Final = (
    "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND has({tables:Array(String)}, name)"
    " ORDER BY name"
)
_LEFT_OVERS: Final = (
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, {prefix:String})"
    " AND metadata_modification_time < now() - {age:Int32}"
)


class OtherEngine(StartupError):
    """Tables that are made otherwise than a repair can deal with; the message is one sentence for an operator."""


class StillWritten(Exception):
    """The day got rows while it was repaired; what was made would not fit them."""


class Change(NamedTuple):
    """A derived table of a day: its rows, and what they add up to, before and after."""

    day: date
    table: str
    rows_before: int
    total_before: int
    rows_after: int
    total_after: int


class Repair:
    """Makes the derived rows of a day anew. `replace` False: only shows what would become of them. Of a project's day
    `keys_per_day` attribute keys are named, those of most spans (0: all).
    """

    def __init__(
        self,
        clickhouse: ClickHouse,
        *,
        replace: bool,
        quiet_s: float,
        keys_per_day: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clickhouse = clickhouse
        self._replace = replace
        self._quiet_s = quiet_s
        self._keys_per_day = keys_per_day
        self._sleep = sleep

    async def look(self) -> None:
        """Raises OtherEngine unless every table keeps its rows itself. Nothing may be made before: one that is made as
        a Distributed table is one more door to the live rows, and a view has no partitions.
        """
        found = await self._read(_ENGINES, tables=[*(source.table for source in ITEM_SOURCES), *DERIVED])
        others = [f"{name} ({engine})" for name, engine in found if not str(engine).endswith("MergeTree")]
        if others:
            raise OtherEngine(
                "`sluice repair` can deal with tables of the MergeTree family alone, and these are not: "
                f"{', '.join(others)}. Run it on each shard, with the database of the local tables (under these same "
                "names) in SLUICE_CLICKHOUSE_URL."
            )

    async def sweep(self) -> None:
        """Drop the tables of a repair that was killed."""
        found = await self._read(_LEFT_OVERS, prefix=_PREFIX, age=LEFT_OVER_S)
        for (name,) in found:
            await self._clickhouse.command(f"DROP TABLE IF EXISTS {name}")

    async def day(self, day: date) -> list[Change]:
        """One day; nothing for one without spans and logs. Raises StillWritten."""
        for _ in range(ATTEMPTS):
            before = await self._settled(day)
            if not sum(before):
                return []
            async with self._tables() as (*made, every_key):
                await self._make(day, made, every_key)
                changes = [await self._change(day, table, name) for table, name in zip(DERIVED, made, strict=True)]
                if before == await self._items(day):
                    if self._replace:
                        await self._put(day, made, changes)
                    if before == await self._items(day):
                        return changes
        raise StillWritten(f"{day} still gets spans or logs; repair it when nothing writes to it.")

    async def _settled(self, day: date) -> list[int]:
        """How many items the day has, once that stays so."""
        count = await self._items(day)
        while self._quiet_s and sum(count):
            await self._sleep(self._quiet_s)
            previous, count = count, await self._items(day)
            if count == previous:
                break
        return count

    async def _items(self, day: date) -> list[int]:
        counts = [await self._read(statements.rows_of_day(source), day=day) for source in ITEM_SOURCES]
        return [int(str(count)) for ((count,),) in counts]

    @asynccontextmanager
    async def _tables(self) -> AsyncIterator[list[str]]:
        """Empty tables of the shape of the derived ones, and one for all attribute keys; dropped in the end."""
        suffix = secrets.token_hex(4)
        names = [*(f"{_PREFIX}{table}_{suffix}" for table in DERIVED), f"{_PREFIX}every_key_{suffix}"]
        try:
            for name, table in zip(names, (*DERIVED, ATTRIBUTE_KEYS.name), strict=True):
                await self._clickhouse.command(f"CREATE TABLE {name} AS {table}")
            yield names
        finally:
            for name in names:
                await self._clickhouse.command(f"DROP TABLE IF EXISTS {name}")

    async def _make(self, day: date, made: Sequence[str], every_key: str) -> None:
        traces, keys, errors = made
        for source in ITEM_SOURCES:
            async for piece in self._pieces(source, day):
                await self._insert(statements.trace_rows(source, traces), piece)
        async for piece in self._pieces(SPAN_SOURCE, day):
            await self._insert(statements.key_rows(every_key if self._keys_per_day else keys), piece)
        if self._keys_per_day:
            sql = statements.named_key_rows(every_key, keys)
            await self._clickhouse.command(sql, {"most": self._keys_per_day}, _WORK)
        for source, sql in ((SPAN_SOURCE, statements.raising_spans()), (LOG_SOURCE, statements.raising_logs())):
            await self._raise(source, sql, day, errors)

    def _pieces(self, source: Source, day: date) -> AsyncIterator[Piece]:
        return of_day(self._clickhouse, day, Weighing(source, statements.EVERY_ROW, statements.ONE, PIECE_ROWS))

    async def _raise(self, source: Source, sql: str, day: date, into: str) -> None:
        condition, weight = statements.RAISING[source.table], statements.bytes_of(source)
        async for piece in of_day(self._clickhouse, day, Weighing(source, condition, weight, PIECE_BYTES)):
            rows = await self._clickhouse.query(sql, piece.parameters, limits=_LIMITS)
            found = list(occurrences(source.table, map(Raising._make, rows)))
            if found:
                block = write_block(ERROR_OCCURRENCES, found)
                await self._clickhouse.insert(into, ERROR_OCCURRENCES.column_names, block, token=secrets.token_hex(16))

    async def _insert(self, sql: str, piece: Piece) -> None:
        settings: dict[str, str | int | float] = {**_WORK, "insert_deduplication_token": secrets.token_hex(16)}
        await self._clickhouse.command(sql, piece.parameters, settings)

    async def _change(self, day: date, table: str, made: str) -> Change:
        (before,) = await self._read(statements.total_of_day(table, table), day=day)
        (after,) = await self._read(statements.total_of_day(made, table), day=day)
        return Change(day, table, *(int(str(number)) for number in (*before, *after)))

    async def _put(self, day: date, made: Sequence[str], changes: Sequence[Change]) -> None:
        for table, name, change in zip(DERIVED, made, changes, strict=True):
            if change.rows_after:
                await self._clickhouse.command(f"ALTER TABLE {table} REPLACE PARTITION '{day}' FROM {name}")
            elif change.rows_before:  # ClickHouse takes no empty partition for a replacement
                await self._clickhouse.command(f"ALTER TABLE {table} DROP PARTITION '{day}'")

    async def _read(self, sql: str, **parameters: object) -> list[tuple[object, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)
