"""Divides a day of a table into chunks of bounded size, along its sort key: project, then five minutes."""

from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from gateway.repair.statements import Source, weight_by_bucket, weight_by_project

SECONDS_PER_DAY: Final = 86_400
BUCKET_S: Final = 300
_EPOCH: Final = date(1970, 1, 1)
_LIMITS: Final = QueryLimits(max_seconds=3_600, max_result_rows=0)


class Chunk(NamedTuple):
    """Rows of the projects `first` to `last` from `since` up to and excluding `until` (seconds since 1970), of these
    those whose hash modulo `shares` is `share`.
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
    """The rows of a day to divide (`condition`), the `weight` of a row, and about how much a chunk may weigh."""

    source: Source
    condition: str
    weight: str
    max_weight: int


async def split_day(clickhouse: ClickHouse, day: date, sizing: ChunkSizing) -> AsyncIterator[Chunk]:
    """Small projects share a chunk, a large one has its own, and five minutes that weigh too much are split by hash."""
    midnight = (day - _EPOCH).days * SECONDS_PER_DAY
    tomorrow = midnight + SECONDS_PER_DAY
    first = last = chunk_weight = 0
    sql = weight_by_project(sizing.source, sizing.condition, sizing.weight)
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
    """Chunks of one project, of whole five minutes where possible."""
    since = until = chunk_weight = 0
    sql = weight_by_bucket(sizing.source, sizing.condition, sizing.weight)
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
