"""Repairs one day at a time: rebuilds derived rows in temporary tables, compares them, and replaces the old ones.

Error occurrences are extracted from stored spans and logs: the result is the same as the decoder's. The exceptions of a
span are its events with the name `exception`, whose attributes are JSON values. The exception of a log record is in its
attributes, whose texts are stored unchanged. All values can be told apart, except a map with the single key
`bytesValue`: it is read as bytes, because the codec stores bytes in the same way.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.errors import StartupError
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from gateway.inserts.blocks import SafeFingerprints, occurrence_row
from gateway.repair import statements
from gateway.repair.derivation import (
    EVERY_KEY,
    Chunk,
    ChunkSizing,
    derive_rows,
    drop_leftovers,
    insert_settings,
    row_chunks,
    split_day,
    temporary_tables,
    unsupported_engines,
)
from proto.otlp.native import write_block
from proto.otlp.policy import RaisedException
from proto.otlp.reference.text import compact_json
from proto.storage.tables import ATTRIBUTE_KEYS, ERROR_OCCURRENCES, FIRST_REBUILT_ROW, LOGS, SPANS, TRACE_INDEX

EXCEPTION_EVENT: Final = "exception"
_EXCEPTION_KEYS: Final = ("exception.type", "exception.message", "exception.stacktrace")
_SOURCES: Final = {SPANS.name: "span", LOGS.name: "log"}
# A rebuilt occurrence's number within its batch is computed from its row, event and table. The numbers are distinct for
# up to 256 events of a span, and higher than the gateway's numbers.
_EVENTS_PER_ROW: Final = 256


class StoredEvent(msgspec.Struct, frozen=True):
    """The fields of an event in the column `events` that describe an exception."""

    name: str
    attributes: dict[str, Any] = {}


class ExceptionSource(NamedTuple):
    """A row that may have exceptions, as `spans_with_exceptions` and `logs_with_exceptions` select it."""

    project_id: int
    time_ns: int
    trace_id: bytes
    span_id: bytes
    service_name: str
    environment: str
    release: str
    batch_id: int
    row: int
    events_or_type: str
    message: str
    stacktrace: str


_events_decoder = msgspec.json.Decoder(list[StoredEvent])


def occurrence_rows(
    table: str, rows: Iterable[ExceptionSource], source_maps: SourceMaps | None = None
) -> Iterator[tuple[object, ...]]:
    """Rows of `error_occurrences`. Each has the batch id of its item, and a number that is unique in the batch.
    `source_maps` resolve stack traces for fingerprints, which is slow: then call this in a thread.
    """
    deadline = 0.0 if source_maps is None else source_maps.deadline()
    maps: dict[int, ProjectResolver | None] = {}
    fingerprints = SafeFingerprints()
    for row in rows:
        if source_maps is not None and row.project_id not in maps:
            maps[row.project_id] = source_maps.of_project(row.project_id, deadline)
        resolver = maps.get(row.project_id)
        for number, texts in enumerate(_exceptions_of(table, row)):
            raised = RaisedException(
                row.time_ns, row.trace_id, row.span_id, *texts, row.service_name, row.environment, row.release
            )
            occurrence = ((row.row * _EVENTS_PER_ROW + number) * 2 + (table == LOGS.name)) % FIRST_REBUILT_ROW
            occurrence += FIRST_REBUILT_ROW
            yield occurrence_row(
                row.project_id,
                raised,
                fingerprints.compute(raised, resolver),
                _SOURCES[table],
                row.batch_id,
                occurrence,
            )


def _exceptions_of(table: str, row: ExceptionSource) -> Iterator[tuple[str, str, str]]:
    if table == LOGS.name:
        yield row.events_or_type, row.message, row.stacktrace
        return
    for event in _events_decoder.decode(row.events_or_type):
        if event.name == EXCEPTION_EVENT:
            kind, message, stacktrace = (canonical_text(event.attributes.get(key)) for key in _EXCEPTION_KEYS)
            yield kind, message, stacktrace


def canonical_text(value: object) -> str:
    """The text form of an attribute value (docs/codec.md 2), from its JSON form."""
    match value:
        case str():
            text = value
        case None:
            text = ""
        case float():
            text = repr(value).removesuffix(".0")
        case {"bytesValue": str(base64), **others} if not others:
            text = base64
        case _:  # true and false, integers, lists, maps
            text = compact_json(value).decode()
    return text


DERIVED_TABLES: Final = (TRACE_INDEX.name, ATTRIBUTE_KEYS.name, ERROR_OCCURRENCES.name)
# Of texts in this process at a time; as Python objects they take several times as much memory.
CHUNK_BYTES: Final = 16 * 2**20
MAX_ATTEMPTS: Final = 3
LEFTOVER_AGE_S: Final = 86_400  # age of a temporary table that a killed repair left; no repair takes this long
_MODELS: Final = {name: name for name in DERIVED_TABLES} | {
    EVERY_KEY: ATTRIBUTE_KEYS.name,
    "kept_occurrences": ERROR_OCCURRENCES.name,
}

_LIMITS: Final = QueryLimits(max_seconds=3_600, max_result_rows=0)
_STATEMENT_SETTINGS: Final[Mapping[str, int]] = {
    "max_memory_usage": 2 * 2**30,
    "max_bytes_before_external_group_by": 2**30,
    "max_bytes_before_external_sort": 2**29,
    "max_execution_time": 3_600,
}


class UnsupportedEngine(StartupError):
    """The engine of a table does not support a repair; the message is for the operator."""


class DayStillWritten(Exception):
    """The day received rows during its repair, so the rebuilt rows do not match."""


class TableChange(NamedTuple):
    """A derived table of a day: the number of its rows and their total, before and after."""

    day: date
    table: str
    rows_before: int
    total_before: int
    rows_after: int
    total_after: int


class Repair:
    """Rebuilds the derived rows of a day; without `replace`, it only reports the changes. For each project and day it
    lists the `keys_per_day` attribute keys with the most spans (0: all keys). `source_maps` resolve stack traces for
    fingerprints.
    """

    def __init__(
        self,
        clickhouse: ClickHouse,
        *,
        replace: bool,
        quiet_s: float,
        keys_per_day: int = 0,
        source_maps: SourceMaps | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clickhouse = clickhouse
        self._replace = replace
        self._quiet_s = quiet_s
        self._keys_per_day = keys_per_day
        self._source_maps = source_maps
        self._sleep = sleep

    async def check_engines(self) -> None:
        """Raises UnsupportedEngine unless every table is of the MergeTree family. Call it before anything else: a table
        that is created like a Distributed table would write to the live rows, and a view has no partitions.
        """
        tables = [*(source.table for source in statements.ITEM_SOURCES), *DERIVED_TABLES]
        others = await unsupported_engines(self._clickhouse, tables)
        if others:
            raise UnsupportedEngine(
                "`sluice repair` supports only tables of the MergeTree family. These tables have another engine: "
                f"{', '.join(others)}. Run `sluice repair` on each shard, with the database of the local tables in "
                "SLUICE_CLICKHOUSE_URL. The local tables must have the same names."
            )

    async def drop_leftovers(self) -> None:
        """Drop temporary tables, older than LEFTOVER_AGE_S, of a repair that was killed."""
        await drop_leftovers(self._clickhouse, LEFTOVER_AGE_S)

    async def repair_day(self, day: date) -> list[TableChange]:
        """Repair one day; returns no changes for a day without spans and logs. Raises DayStillWritten."""
        for _ in range(MAX_ATTEMPTS):
            before = await self._wait_until_quiet(day)
            if not sum(before):
                return []
            async with temporary_tables(self._clickhouse, _MODELS) as temporary:
                await self._fill_tables(day, temporary)
                changes = [await self._compare(day, table, temporary[table]) for table in DERIVED_TABLES]
                if before == await self._count_items(day):
                    if self._replace:
                        await self._replace_rows(day, temporary)
                    if before == await self._count_items(day):
                        return changes
        raise DayStillWritten(f"{day} still receives spans or logs; repair this day when it receives no more.")

    async def _wait_until_quiet(self, day: date) -> list[int]:
        """Wait until the day receives no items for `quiet_s`; returns its number of items by table."""
        count = await self._count_items(day)
        while self._quiet_s and sum(count):
            await self._sleep(self._quiet_s)
            previous, count = count, await self._count_items(day)
            if count == previous:
                break
        return count

    async def _count_items(self, day: date) -> list[int]:
        counts = [await self._read(statements.rows_of_day(source), day=day) for source in statements.ITEM_SOURCES]
        return [int(str(count)) for ((count,),) in counts]

    async def _fill_tables(self, day: date, temporary: Mapping[str, str]) -> None:
        def chunks_of(source: statements.Source) -> AsyncIterator[Chunk]:
            return split_day(self._clickhouse, day, row_chunks(source))

        await derive_rows(self._clickhouse, chunks_of, temporary, self._keys_per_day, _STATEMENT_SETTINGS)
        for source, sql in (
            (statements.SPAN_SOURCE, statements.spans_with_exceptions()),
            (statements.LOG_SOURCE, statements.logs_with_exceptions()),
        ):
            await self._insert_occurrences(source, sql, day, temporary[ERROR_OCCURRENCES.name])

    async def _insert_occurrences(self, source: statements.Source, sql: str, day: date, into: str) -> None:
        condition, weight = statements.EXCEPTION_CONDITIONS[source.table], statements.row_bytes(source)
        async for chunk in split_day(self._clickhouse, day, ChunkSizing(source, condition, weight, CHUNK_BYTES)):
            rows = await self._clickhouse.query(sql, chunk.parameters, limits=_LIMITS)
            read = map(ExceptionSource._make, rows)
            found = await asyncio.to_thread(list, occurrence_rows(source.table, read, self._source_maps))
            if found:
                block = write_block(ERROR_OCCURRENCES, found)
                await self._clickhouse.insert(into, ERROR_OCCURRENCES.column_names, block, token=secrets.token_hex(16))

    async def _compare(self, day: date, table: str, temporary: str) -> TableChange:
        (before,) = await self._read(statements.total_of_day(table, table), day=day)
        (after,) = await self._read(statements.total_of_day(temporary, table), day=day)
        return TableChange(day, table, *(int(str(number)) for number in (*before, *after)))

    async def _replace_rows(self, day: date, temporary: Mapping[str, str]) -> None:
        for table in DERIVED_TABLES:
            if table == ERROR_OCCURRENCES.name:
                await self._correct_occurrences(day, temporary[table], temporary["kept_occurrences"])
            else:
                await self._replace_partition(day, table, temporary[table])

    async def _correct_occurrences(self, day: date, rebuilt: str, kept: str) -> None:
        """Insert missing rows, with the current time as stored time, and remove surplus rows. All other rows keep their
        place in storage order."""
        sql, parameters = statements.missing_occurrences(rebuilt), {"day": day}
        await self._clickhouse.command(sql, parameters, insert_settings(_STATEMENT_SETTINGS), stores_rows=True)
        ((surplus,),) = await self._read(statements.surplus_occurrences(rebuilt), day=day)
        if surplus:
            await self._clickhouse.command(
                statements.kept_occurrences(rebuilt, kept), parameters, insert_settings(_STATEMENT_SETTINGS)
            )
            await self._replace_partition(day, ERROR_OCCURRENCES.name, kept)

    async def _replace_partition(self, day: date, table: str, name: str) -> None:
        ((rows,),) = await self._read(f"SELECT count() FROM {name}")
        if rows:
            await self._clickhouse.command(f"ALTER TABLE {table} REPLACE PARTITION '{day}' FROM {name}")
        else:  # ClickHouse cannot replace a partition with an empty one
            await self._clickhouse.command(f"ALTER TABLE {table} DROP PARTITION '{day}'")

    async def _read(self, sql: str, **parameters: object) -> list[tuple[object, ...]]:
        return await self._clickhouse.query(sql, parameters, limits=_LIMITS)
