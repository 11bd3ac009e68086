"""How many rows make room for new ones, and when they are counted."""

from typing import Any

import sqlalchemy as sa

from control.code.row_limits import COUNTED_FOR_S, RowLimit

TABLE = sa.Table("rows", sa.MetaData(), sa.Column("org_id", sa.Text))


class Counted:
    """A connection to a table with so many rows."""

    def __init__(self, rows: int) -> None:
        self.rows, self.counts = rows, 0

    async def scalar(self, _statement: Any) -> int:
        self.counts += 1
        return self.rows


async def test_rows_are_counted_when_half_of_the_room_is_used_or_time_has_passed() -> None:
    now = 0.0
    limit, table = RowLimit(TABLE, lambda: now), Counted(0)

    async def insert(new: int, org: str = "a") -> int:
        return await limit.find_surplus(table, org, new, 1_000, 100)  # type: ignore[arg-type]

    assert [await insert(100) for _ in range(5)] == [0] * 5
    assert table.counts == 1
    assert await insert(51) == 0
    assert table.counts == 2
    assert (await insert(1, "b"), table.counts) == (0, 3)
    now += COUNTED_FOR_S
    assert (await insert(1), table.counts) == (0, 4)


async def test_the_oldest_make_room() -> None:
    for rows, new, maximum, surplus in (
        (999, 1, 1_000, 0),
        (1_000, 1, 1_000, 5),  # a two-hundredth
        (1_000, 50, 1_000, 50),
        (5_000, 1, 1_000, 100),  # at most
        (3, 1, 3, 1),
        (2, 9, 3, 2),  # there are no more
    ):
        limit, table = RowLimit(TABLE), Counted(rows)
        for _ in range(2):  # so little room is not remembered
            assert await limit.find_surplus(table, "a", new, maximum, 100) == surplus  # type: ignore[arg-type]
        assert table.counts == 2
