"""Bounds the rows of an organization in a table, by deleting the oldest rows to make room for new ones.

Counting reads an index entry for each row, inside a write transaction, and every webhook inserts rows. A process
therefore remembers how much room it has found. It counts again after a minute, or when half of that room is used,
because other processes insert, too.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

COUNTED_FOR_S: Final = 60.0
MIN_ROOM: Final = 50  # with less room, rows are counted every time
MAX_REMEMBERED: Final = 10_000  # organizations


class RowLimit:
    """The limit of one table, which has a column `org_id`."""

    def __init__(self, table: sa.Table, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._room: dict[tuple[str, int], tuple[float, int]] = {}  # by organization and maximum

    async def find_surplus(self, connection: AsyncConnection, org_id: str, new: int, maximum: int, most: int) -> int:
        """How many of the oldest rows to delete before `new` rows are inserted, at most `most`. If rows must be
        deleted, at least a two-hundredth of the maximum is deleted at once, so that not every insert has to delete.
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
    """Delete the selected rows of a table by its key, after deleting the rows that refer to them by the columns
    `references`.
    """
    found = list((await connection.execute(ids)).scalars())
    for column in (*references, key):
        await connection.execute(sa.delete(column.table).where(column.in_(found)))
