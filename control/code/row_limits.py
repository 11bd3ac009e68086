"""Bounds the rows of an organization in a table where the oldest make room for new ones.

Counting reads an index entry for each row, and every webhook inserts some, inside a write transaction. So a process
remembers how much room it has found, and counts again when half of that is used (other processes insert, too), or after
a minute.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

COUNTED_FOR_S: Final = 60.0
MIN_ROOM: Final = 50  # with less room rows are counted every time
MAX_REMEMBERED: Final = 10_000  # organizations


class RowLimit:
    """The limit of one table, which has a column `org_id`."""

    def __init__(self, table: sa.Table, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._room: dict[tuple[str, int], tuple[float, int]] = {}  # by organization and maximum

    async def find_surplus(self, connection: AsyncConnection, org_id: str, new: int, maximum: int, most: int) -> int:
        """How many of the oldest rows to delete before `new` ones are inserted; at most `most`. Where some must be
        deleted, a two-hundredth of the maximum goes at once, so that not every insert deletes.
        """
        now = self._clock()
        key = org_id, maximum
        counted_at, room = self._room.get(key, (now, 0))
        if room >= new and now - counted_at < COUNTED_FOR_S:
            self._room[key] = counted_at, room - new
            return 0
        of_org = sa.select(sa.func.count()).select_from(self._table).where(self._table.c.org_id == org_id)
        count = await connection.scalar(of_org) or 0
        self._remember(key, now, (maximum - count - new) // 2)
        needed = count + new - maximum
        return 0 if needed <= 0 else min(max(needed, maximum // 200), most, count)

    def _remember(self, key: tuple[str, int], now: float, room: int) -> None:
        self._room.pop(key, None)
        if room >= MIN_ROOM:
            if len(self._room) >= MAX_REMEMBERED:
                self._room.clear()
            self._room[key] = now, room


async def delete_rows(
    connection: AsyncConnection, ids: sa.Select[Any], key: sa.Column[str], *references: sa.Column[str]
) -> None:
    """Delete the rows of a table by its key, and before them those that refer to them by these columns."""
    found = list((await connection.execute(ids)).scalars())
    for column in (*references, key):
        await connection.execute(sa.delete(column.table).where(column.in_(found)))
