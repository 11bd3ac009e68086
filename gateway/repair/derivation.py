"""Functions that repairs and erasures share: both derive the rows of a day again, in temporary tables.

temporary_tables   empty tables, dropped at the end; `drop_leftovers` drops the tables of a process that was killed
split_day          divides a day of a table into chunks of bounded size, along its sort key: project, then five
                   minutes
derive_rows        trace index and attribute keys, chunk by chunk
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from gateway.repair import statements
from proto.storage.tables import ATTRIBUTE_KEYS, TRACE_INDEX

CHUNK_ROWS: Final = 2_000_000  # rows that ClickHouse groups at a time
QUIET_S: Final = 10.0  # time without new rows before a day is read; derived rows follow their items within two seconds
EVERY_KEY: Final = "every_key"  # temporary table of all attribute keys, from which the most frequent are chosen
SECONDS_PER_DAY: Final = 86_400
BUCKET_S: Final = 300
_PREFIX: Final = "repair_"
_ENGINES_SQL: Final = (
    "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND has({tables:Array(String)}, name)"
    " ORDER BY name"
)
_LEFTOVERS_SQL: Final = (
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, {prefix:String})"
    " AND metadata_modification_time < now() - {age:Int32}"
)
_EPOCH: Final = date(1970, 1, 1)
_LIMITS: Final = QueryLimits(max_seconds=3_600, max_result_rows=0)


class Chunk(NamedTuple):
    """Rows of the projects `first` to `last` from `since` up to and excluding `until` (seconds since 1970), restricted
    to rows whose hash modulo `shares` is `share`.
    """

    day: date
    first: int
    last: int
    since: int
    until: int
    share: int = 0
    shares: int = 1

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the statements, by name."""
        return self._asdict()


class ChunkSizing(NamedTuple):
    """The rows of a day to divide (`condition`), the `weight` of a row, and the approximate maximum weight of a
    chunk."""

    source: statements.Source
    condition: str
    weight: str
    max_weight: int


async def split_day(clickhouse: ClickHouse, day: date, sizing: ChunkSizing) -> AsyncIterator[Chunk]:
    """Divide a day: small projects share a chunk, a large project has chunks of its own, and five minutes that weigh
    too much are split by hash."""
    midnight = (day - _EPOCH).days * SECONDS_PER_DAY
    tomorrow = midnight + SECONDS_PER_DAY
    first = last = chunk_weight = 0
    sql = statements.weight_by_project(sizing.source, sizing.condition, sizing.weight)
    for project, size in await _read_weights(clickhouse, sql, {"day": day}):
        if chunk_weight and chunk_weight + size > sizing.max_weight:
            yield Chunk(day, first, last, midnight, tomorrow)
            chunk_weight = 0
        if size > sizing.max_weight:
            async for chunk in split_project(clickhouse, day, project, sizing):
                yield chunk
        else:
            first, last = (first if chunk_weight else project), project
            chunk_weight += size
    if chunk_weight:
        yield Chunk(day, first, last, midnight, tomorrow)


async def split_project(clickhouse: ClickHouse, day: date, project: int, sizing: ChunkSizing) -> AsyncIterator[Chunk]:
    """Chunks of one project, each of whole five-minute buckets if possible."""
    since = until = chunk_weight = 0
    sql = statements.weight_by_bucket(sizing.source, sizing.condition, sizing.weight)
    for bucket, size in await _read_weights(clickhouse, sql, {"day": day, "project": project}):
        if chunk_weight and chunk_weight + size > sizing.max_weight:
            yield Chunk(day, project, project, since, until)
            chunk_weight = 0
        if size > sizing.max_weight:
            shares = -(-size // sizing.max_weight)
            for share in range(shares):
                yield Chunk(day, project, project, bucket, bucket + BUCKET_S, share, shares)
        else:
            since, until = (since if chunk_weight else bucket), bucket + BUCKET_S
            chunk_weight += size
    if chunk_weight:
        yield Chunk(day, project, project, since, until)


async def _read_weights(clickhouse: ClickHouse, sql: str, parameters: Mapping[str, Any]) -> list[tuple[int, int]]:
    rows = await clickhouse.query(sql, parameters, limits=_LIMITS)
    return [(int(str(group)), int(str(weight))) for group, weight in rows]


def row_chunks(source: statements.Source) -> ChunkSizing:
    """All rows of a source, CHUNK_ROWS in a chunk."""
    return ChunkSizing(source, statements.EVERY_ROW, statements.ROW_WEIGHT, CHUNK_ROWS)


async def unsupported_engines(clickhouse: ClickHouse, tables: Sequence[str]) -> Sequence[str]:
    """Tables that are not of the MergeTree family, with their engines: a Distributed table and a view have no rows of
    their own.
    """
    found = await clickhouse.query(_ENGINES_SQL, {"tables": list(tables)}, limits=_LIMITS)
    return [f"{name} ({engine})" for name, engine in found if not str(engine).endswith("MergeTree")]


async def drop_leftovers(clickhouse: ClickHouse, age_s: int) -> None:
    """Drop temporary tables, older than `age_s`, of a repair or erasure that was killed."""
    for (name,) in await clickhouse.query(_LEFTOVERS_SQL, {"prefix": _PREFIX, "age": age_s}, limits=_LIMITS):
        await clickhouse.command(f"DROP TABLE IF EXISTS {name}")


@asynccontextmanager
async def temporary_tables(clickhouse: ClickHouse, models: Mapping[str, str]) -> AsyncIterator[Mapping[str, str]]:
    """Create empty tables with the columns of `models`; drop them on exit. Yields their names, by the same keys."""
    suffix = secrets.token_hex(4)
    names = {key: f"{_PREFIX}{key}_{suffix}" for key in models}
    try:
        for key, name in names.items():
            await clickhouse.command(f"CREATE TABLE {name} AS {models[key]}")
        yield names
    finally:
        for name in names.values():
            await clickhouse.command(f"DROP TABLE IF EXISTS {name}")


async def derive_rows(
    clickhouse: ClickHouse,
    chunks_of: Callable[[statements.Source], AsyncIterator[Chunk]],
    temporary: Mapping[str, str],
    keys_per_day: int,
    settings: Mapping[str, int],
) -> None:
    """Derive the trace index and the attribute keys of a day into the tables of these names in `temporary`. At most
    `keys_per_day` keys of a project have rows of their own (0: all keys have).
    """
    traces, keys, every_key = temporary[TRACE_INDEX.name], temporary[ATTRIBUTE_KEYS.name], temporary[EVERY_KEY]
    for source in statements.ITEM_SOURCES:
        async for chunk in chunks_of(source):
            sql = statements.trace_rows(source, traces)
            await clickhouse.command(sql, chunk.parameters, insert_settings(settings))
    async for chunk in chunks_of(statements.SPAN_SOURCE):
        sql = statements.key_rows(every_key if keys_per_day else keys)
        await clickhouse.command(sql, chunk.parameters, insert_settings(settings))
    if keys_per_day:
        sql = statements.named_key_rows(every_key, keys)
        await clickhouse.command(sql, {"most": keys_per_day}, insert_settings(settings))


def insert_settings(settings: Mapping[str, int]) -> dict[str, str | int | float]:
    """`settings` for one insert, with a token that prevents its deduplication."""
    return {**settings, "insert_deduplication_token": secrets.token_hex(16)}
