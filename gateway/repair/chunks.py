"""A day of a table in pieces of a bounded size, along its sort key: project, then five minutes."""

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
    """Projects from `first` to `last` from `since` until before `until` (seconds since 1970); of these rows every one
    whose hash is `share` of `shares`.
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
        """As the statements name them."""
        return self._asdict()


class ChunkSizing(NamedTuple):
    """Which rows of a day are cut into pieces, what one of them weighs, and how much a piece may (about)."""

    source: Source
    condition: str
    weight: str
    max_weight: int


async def split_day(clickhouse: ClickHouse, day: date, sizing: ChunkSizing) -> AsyncIterator[Chunk]:
    """Small projects share a piece, a large one has its own, and five minutes that are too many are cut by a hash."""
    midnight = (day - _EPOCH).days * SECONDS_PER_DAY
    tomorrow = midnight + SECONDS_PER_DAY
    first = last = held = 0
    sql = weight_by_project(sizing.source, sizing.condition, sizing.weight)
    for project, size in await _read_weights(clickhouse, sql, {"day": day}):
        if held and held + size > sizing.max_weight:
            yield Chunk(day, first, last, midnight, tomorrow)
            held = 0
        if size > sizing.max_weight:
            async for piece in _split_project(clickhouse, day, project, sizing):
                yield piece
        else:
            first, last = (first if held else project), project
            held += size
    if held:
        yield Chunk(day, first, last, midnight, tomorrow)


async def _split_project(clickhouse: ClickHouse, day: date, project: int, sizing: ChunkSizing) -> AsyncIterator[Chunk]:
    since = until = held = 0
    sql = weight_by_bucket(sizing.source, sizing.condition, sizing.weight)
    for bucket, size in await _read_weights(clickhouse, sql, {"day": day, "project": project}):
        if held and held + size > sizing.max_weight:
            yield Chunk(day, project, project, since, until)
            held = 0
        if size > sizing.max_weight:
            shares = -(-size // sizing.max_weight)
            for share in range(shares):
                yield Chunk(day, project, project, bucket, bucket + BUCKET_S, share, shares)
        else:
            since, until = (since if held else bucket), bucket + BUCKET_S
            held += size
    if held:
        yield Chunk(day, project, project, since, until)


async def _read_weights(clickhouse: ClickHouse, sql: str, parameters: Mapping[str, Any]) -> list[tuple[int, int]]:
    rows = await clickhouse.query(sql, parameters, limits=_LIMITS)
    return [(int(str(place)), int(str(weight))) for place, weight in rows]
