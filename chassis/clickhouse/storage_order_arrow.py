"""Storage order with the rows as Arrow columns, for followers that read all rows but do not look at single rows.

pyarrow is large, so it is imported when the first page is read.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

from chassis.clickhouse.storage_order import (
    BlockKey,
    BlockProgress,
    Position,
    StoredTable,
    deliver,
    is_behind,
)
from proto.storage.tables import FIRST_REBUILT_ROW

_PLACE: Final = ("stored_us", "batch_id", "row", "day")


class ArrowRows:
    """Rows in storage order: `table` is a `pyarrow.Table`."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def last(self) -> Position:
        """As in `chassis.clickhouse.storage_order.StoredRows`."""
        return self._position(len(self) - 1)

    @property
    def values(self) -> Sequence[Any]:
        """A `pyarrow.ChunkedArray` for each column that the follower reads."""
        return list(self.table.columns[len(_PLACE) :])

    def without_delivered(self, recent: dict[BlockKey, BlockProgress]) -> Self:
        """As in `chassis.clickhouse.storage_order.StoredRows`. Blocks are compared as a whole if one copy of each block
        is completely new, otherwise row by row.
        """
        blocks = self._blocks()
        if all(block.is_new(recent.get(block.key)) for block in blocks):
            recent.update((block.key, block.progress) for block in blocks)
            return self
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)

        places = zip(*(self.table[name].to_pylist() for name in _PLACE), strict=True)
        is_kept = [deliver(Position(*place), day, recent) for *place, day in places]
        return type(self)(self.table.filter(pa.array(is_kept, pa.bool_())))

    def until(self, last: Position) -> Self:
        """The rows up to a position."""
        first, end = 0, len(self)
        while first < end:
            middle = (first + end) // 2
            if self._position(middle) <= last:
                first = middle + 1
            else:
                end = middle
        return type(self)(self.table.slice(0, first))

    def _position(self, at: int) -> Position:
        return Position(*(self.table[name][at].as_py() for name in _PLACE[:3]))

    def _blocks(self) -> list["_Block"]:
        grouped = self.table.group_by(["batch_id", "day"], use_threads=False)
        wanted = [("stored_us", "min"), ("stored_us", "max"), ("row", "min"), ("row", "max")]
        found = grouped.aggregate([*wanted, ("row", "count"), ("row", "count_distinct")])
        names = ["batch_id", "day", *(f"{name}_{function}" for name, function in wanted)]
        names += ["row_count", "row_count_distinct"]
        return [_Block(*values) for values in zip(*(found[name].to_pylist() for name in names), strict=True)]


class _Block:
    """The rows of a block that a page has."""

    __slots__ = ("_copies", "_first_row", "key", "progress")

    def __init__(
        self, batch_id: int, day: int, first_us: int, last_us: int, first: int, last: int, count: int, distinct: int
    ) -> None:
        self.key: BlockKey = (batch_id, day)
        self.progress = BlockProgress(last_us, last)
        self._first_row = first
        # Rebuilt rows beside the other rows of their block count as a second copy.
        is_mixed = first < FIRST_REBUILT_ROW <= last
        self._copies = 1 if first_us == last_us and count == distinct and not is_mixed else 2

    def is_new(self, delivered: BlockProgress | None) -> bool:
        """Whether all rows must be delivered, because they come after the rows that were delivered before."""
        return self._copies == 1 and (delivered is None or is_behind(self._first_row, delivered.row))


class OrderedArrowTable(StoredTable):
    """Reads rows as columns."""

    async def read(self, after: Position, until_us: int, limit: int) -> ArrowRows:
        """As `chassis.clickhouse.storage_order.OrderedTable.read`."""
        columns = [f"{place} AS _{name}" for place, name in zip(self._place, _PLACE, strict=True)]
        # Aliases must differ from column names: in WHERE, ClickHouse prefers an alias to the column of the same name.
        columns += [f"{column} AS _{at}" for at, column in enumerate(self._columns)]
        table = await self._clickhouse.query_arrow(*self._select(columns, after, until_us, limit))
        return ArrowRows(table.rename_columns([*_PLACE, *(str(at) for at in range(len(self._columns)))]))

    def no_rows(self) -> ArrowRows:
        """As in `chassis.clickhouse.storage_order.OrderedRows`. All columns are null."""
        import pyarrow as pa  # noqa: PLC0415 (it is large)

        names = [*_PLACE, *(str(at) for at in range(len(self._columns)))]
        return ArrowRows(pa.table({name: pa.array([], pa.null()) for name in names}))
