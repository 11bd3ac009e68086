"""A day of a table in pieces of a bounded size, along its sort key: project, then five minutes."""

from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from chassis.clickhouse import ClickHouse, QueryLimits
from gateway.repair.statements import Source, by_bucket, by_project

SECONDS_PER_DAY: Final = 86_400
BUCKET_S: Final = 300
_EPOCH: Final = date(1970, 1, 1)
_LIMITS: Final = QueryLimits(max_seconds=3_600, max_result_rows=0)


class Piece(NamedTuple):
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


class Weighing(NamedTuple):
    """Which rows of a day are cut into pieces, what one of them weighs, and how much a piece may (about)."""

    source: Source
    condition: str
    weight: str
    most: int


async def of_day(clickhouse: ClickHouse, day: date, weighing: Weighing) -> AsyncIterator[Piece]:
    """Small projects share a piece, a large one has its own, and five minutes that are too many are cut by a hash."""
    midnight = (day - _EPOCH).days * SECONDS_PER_DAY
    tomorrow = midnight + SECONDS_PER_DAY
    first = last = held = 0
    sql = by_project(weighing.source, weighing.condition, weighing.weight)
    for project, size in await _weights(clickhouse, sql, {"day": day}):
        if held and held + size > weighing.most:
            yield Piece(day, first, last, midnight, tomorrow)
            held = 0
        if size > weighing.most:
            async for piece in _of_project(clickhouse, day, project, weighing):
                yield piece
        else:
            first, last = (first if held else project), project
            held += size
    if held:
        yield Piece(day, first, last, midnight, tomorrow)


async def _of_project(clickhouse: ClickHouse, day: date, project: int, weighing: Weighing) -> AsyncIterator[Piece]:
    since = until = held = 0
    sql = by_bucket(weighing.source, weighing.condition, weighing.weight)
    for bucket, size in await _weights(clickhouse, sql, {"day": day, "project": project}):
        if held and held + size > weighing.most:
            yield Piece(day, project, project, since, until)
            held = 0
        if size > weighing.most:
            shares = -(-size // weighing.most)
            for share in range(shares):
                yield Piece(day, project, project, bucket, bucket + BUCKET_S, share, shares)
        else:
            since, until = (since if held else bucket), bucket + BUCKET_S
            held += size
    if held:
        yield Piece(day, project, project, since, until)


async def _weights(clickhouse: ClickHouse, sql: str, parameters: Mapping[str, Any]) -> list[tuple[int, int]]:
    rows = await clickhouse.query(sql, parameters, limits=_LIMITS)
    return [(int(str(place)), int(str(weight))) for place, weight in rows]
