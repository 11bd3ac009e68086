"""Storage order: read all rows that were stored after a position, in order, each row once.

The position of a row of `spans`, `logs`, `error_occurrences` or `ingest_outcomes` is (stored_time, batch_id, row).
ClickHouse writes `stored_time` when it stores the row (`chassis.clickhouse.stored_time`). So rows that arrive late, are
replayed after an outage, or come from a machine with a wrong clock have positions after all rows that a follower has
read.

    OrderedTable.settled_time   the time at or before which no further row will be stored: the least of ClickHouse's
                                clock and the floors of the running inserts, minus a distance for drifting clocks
    OrderedTable.read           the rows after a position up to that time; `storage_order_arrow` returns them as columns
    StorageOrderReader.read     a page of these rows, without second copies of a block, and the checkpoint after it

A block that ClickHouse lost and that was inserted again has a new position and the old batch id. `Checkpoint` remembers
the blocks of the last minutes, and skips the rows of these blocks that were already delivered. A follower stores the
checkpoint together with the result of processing the page. A page that is read again from the same checkpoint begins
with the same rows.

Source: docs/adr/020-storage-order.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec

from chassis.clickhouse.client import ClickHouse, QueryLimits
from chassis.clickhouse.errors import QueryTooLarge
from chassis.clickhouse.stored_time import INSERT_COMMENT, floor_of
from proto.storage.tables import FIRST_REBUILT_ROW

# The distance between ClickHouse's clock and the settled time. The floor of an insert is behind that clock by less.
DISTANCE_US: Final = 500_000
WINDOW_S: Final = 1_800.0  # three times the default of SLUICE_GATEWAY_JOURNAL_HOLD_S
MIN_RECENT: Final = 1_000  # blocks that a checkpoint remembers regardless of their age
PAGE_ROWS: Final = 10_000
PAGE_BYTES: Final = 64 * 2**20  # in the engine's representation

_US: Final = 1_000_000
_FIRST_STEP_US: Final = _US
_MIN_STEP_US: Final = 1_000
_MAX_UINT64: Final = 2**64 - 1
_MAX_UINT32: Final = 2**32 - 1
_TIME_COLUMNS: Final[Mapping[str, str]] = {
    "spans": "start_time",
    "logs": "time",
    "error_occurrences": "time",
    "ingest_outcomes": "time",
}
_LIMITS: Final = QueryLimits(max_seconds=60, max_memory_bytes=2**30, max_result_rows=0, max_threads=1, priority=3)
_SETTLED_SQL: Final = (
    "SELECT toUnixTimestamp64Micro(now64(6, 'UTC')), groupArray(Settings['log_comment']) FROM system.processes"
    f" WHERE startsWith(Settings['log_comment'], '{INSERT_COMMENT}')"
)


class Position(NamedTuple):
    """The place of a row in storage order. A row that was stored later has a greater position."""

    stored_us: int  # since 1970, by ClickHouse's clock
    batch_id: int
    row: int


# The position after the rows of earlier releases, which have no position of their own.
START: Final = Position(0, _MAX_UINT64, _MAX_UINT32)

BlockKey = tuple[int, int]  # batch id, and day since 1970


class BlockProgress(NamedTuple):
    """How far a block was delivered: the storage time of the copy, and the last delivered row."""

    stored_us: int
    row: int


class Checkpoint(NamedTuple):
    """How far a follower has read, and the blocks that it has read recently."""

    position: Position = START
    recent: Mapping[BlockKey, BlockProgress] = {}

    def encode(self) -> bytes:
        """The checkpoint as JSON, for a follower to store: about 30 bytes for each batch of the last minutes."""
        return msgspec.json.encode((self.position, [(*key, *progress) for key, progress in self.recent.items()]))

    @classmethod
    def decode(cls, text: bytes) -> "Checkpoint":
        """Reverses `encode`. Raises msgspec.DecodeError."""
        position, blocks = _decoder.decode(text)
        recent = {(batch_id, day): BlockProgress(stored_us, row) for batch_id, day, stored_us, row in blocks}
        return cls(Position(*position), recent)


_decoder = msgspec.json.Decoder(tuple[tuple[int, int, int], list[tuple[int, int, int, int]]])


class StoredRow(NamedTuple):
    """A row: its position, the day of its own time (days since 1970), and the columns that the follower reads."""

    position: Position
    day: int
    values: tuple[Any, ...]


class StoredRows(Protocol):
    """Rows in storage order."""

    def __len__(self) -> int: ...

    @property
    def last(self) -> Position: ...

    def without_delivered(self, recent: dict[BlockKey, BlockProgress]) -> Self:
        """The rows that were not delivered before. They are added to `recent`."""


Rows = TypeVar("Rows", bound=StoredRows)
Rows_co = TypeVar("Rows_co", bound=StoredRows, covariant=True)


class StoredRowList(list[StoredRow]):
    """Rows as tuples."""

    @property
    def last(self) -> Position:
        """As `StoredRows` has it."""
        return self[-1].position

    def without_delivered(self, recent: dict[BlockKey, BlockProgress]) -> Self:
        """As `StoredRows` has it."""
        return type(self)(row for row in self if deliver(row.position, row.day, recent))


class Page(NamedTuple, Generic[Rows]):
    """Rows in storage order, and the checkpoint after them. `is_last`: all settled rows have been read."""

    rows: Rows
    checkpoint: Checkpoint
    is_last: bool


class OrderedRows(Protocol[Rows_co]):
    """Reads the rows of one table for `StorageOrderReader`. The methods raise StoreError."""

    async def settled_time(self) -> int: ...
    async def read(self, after: Position, until_us: int, limit: int) -> Rows_co: ...
    async def first_time(self, after_us: int, until_us: int) -> int | None: ...
    def no_rows(self) -> Rows_co: ...


class StoredTable:
    """A table in ClickHouse, whose rows the subclasses read. `columns` are SQL expressions written by Sluice, and
    `project_ids` restricts the rows. The ClickHouse user needs SELECT on `system.processes`.
    """

    def __init__(
        self,
        clickhouse: ClickHouse,
        table: str,
        columns: Sequence[str] = (),
        project_ids: Sequence[int] | None = None,
        *,
        page_bytes: int = PAGE_BYTES,
        memory_bytes: int = _LIMITS.max_memory_bytes,
    ) -> None:
        self._clickhouse = clickhouse
        self._table = table
        self._columns = columns
        self._projects = None if project_ids is None else list(project_ids)
        self._limits = _LIMITS._replace(
            max_memory_bytes=memory_bytes, max_result_bytes=page_bytes, remerge_sort_bytes=page_bytes
        )

    async def settled_time(self) -> int:
        """The time, in microseconds since 1970, at or before which no further row will be stored."""
        ((now, comments),) = await self._query(_SETTLED_SQL, {})
        floors = [floor for comment in comments if (floor := floor_of(comment)) is not None]
        return int(min([now, *floors])) - DISTANCE_US

    async def first_time(self, after_us: int, until_us: int) -> int | None:
        """The storage time of the first row after `after_us`, or None if there is no row until `until_us`."""
        sql = (
            f"SELECT toUnixTimestamp64Micro(min(stored_time)), count() FROM {self._table} WHERE {self._condition}"
            f" AND stored_time > {_time('after')}"
        )
        ((first, count),) = await self._query(sql, self._parameters(after_us, until_us))
        return first if count else None

    def _select(
        self, columns: Sequence[str], after: Position, until_us: int, limit: int
    ) -> tuple[str, dict[str, object], QueryLimits]:
        """The statement that reads these columns, with its parameters and limits."""
        sql = (
            f"SELECT {', '.join(columns)} FROM {self._table} WHERE {self._condition}"
            f" AND (stored_time, batch_id, row) > ({_time('after')}, {{batch_id:UInt64}}, {{row:UInt32}})"
            " ORDER BY stored_time, batch_id, row LIMIT {limit:UInt64}"
        )
        parameters = {
            **self._parameters(after.stored_us, until_us),
            "batch_id": after.batch_id,
            "row": after.row,
            "limit": limit,
        }
        return sql, parameters, self._limits

    @property
    def _place(self) -> Sequence[str]:
        """SQL expressions for the position of a row and the row's day."""
        day = f"toUInt16(toDate({_TIME_COLUMNS[self._table]}))"
        return "toUnixTimestamp64Micro(stored_time)", "batch_id", "row", day

    @property
    def _condition(self) -> str:
        of_projects = "" if self._projects is None else "project_id IN {projects:Array(UInt64)} AND "
        return f"{of_projects}stored_time >= {_time('after')} AND stored_time <= {_time('until')}"

    def _parameters(self, after_us: int, until_us: int) -> dict[str, object]:
        parameters: dict[str, object] = {"after": after_us, "until": until_us}
        return parameters if self._projects is None else {**parameters, "projects": self._projects}

    async def _query(self, sql: str, parameters: Mapping[str, object], limits: QueryLimits = _LIMITS) -> list[Any]:
        return await self._clickhouse.query(sql, parameters, limits=limits)


class OrderedTable(StoredTable):
    """Reads rows as tuples."""

    async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
        """The first `limit` rows after a position that were stored at or before `until_us`. Raises QueryTooLarge when
        the rows are larger than `page_bytes`, or reading them needs more than `memory_bytes`.
        """
        rows = await self._query(*self._select((*self._place, *self._columns), after, until_us, limit))
        return StoredRowList(StoredRow(Position(*row[:3]), row[3], row[4:]) for row in rows)

    def no_rows(self) -> StoredRowList:
        """As `OrderedRows` has it."""
        return StoredRowList()


class StorageOrderReader(Generic[Rows]):
    """Reads one table in storage order, at most `page_rows` rows at once. A block that is inserted again within
    `window_s` of its first copy is delivered once. `window_s` must be longer than the hold period of the gateways
    (SLUICE_GATEWAY_JOURNAL_HOLD_S).
    """

    def __init__(
        self,
        rows: OrderedRows[Rows],
        *,
        window_s: float = WINDOW_S,
        page_rows: int = PAGE_ROWS,
        first_rows: int | None = None,
    ) -> None:
        self._rows = rows
        self._window_us = int(window_s * _US)
        self._page_rows = page_rows
        self._step_us = _FIRST_STEP_US  # the span of storage time that one statement reads
        self._limit = first_rows or page_rows

    @property
    def next_rows(self) -> int:
        """The largest number of rows of the next page, derived from the sizes of the last pages. Pass it as
        `first_rows` to another reader of the same rows.
        """
        return self._limit

    async def read(self, checkpoint: Checkpoint, *, limit: int | None = None) -> Page[Rows]:
        """The next rows after a checkpoint: at least one row, unless no settled row is left. Raises StoreError."""
        settled = await self._rows.settled_time()
        after = checkpoint.position
        while after.stored_us <= settled:
            found, until, is_full = await self._read_slice(after, settled, limit or self._page_rows)
            rows, checkpoint = self._without_second_copies(found, checkpoint)
            is_last = until == settled and not is_full
            if rows or is_last:
                return Page(rows, checkpoint, is_last)
            if found:
                after = checkpoint.position
            else:
                first = await self._rows.first_time(until, settled)
                if first is None:
                    break
                after = Position(first - 1, _MAX_UINT64, _MAX_UINT32)
        return Page(self.no_rows(), checkpoint, is_last=True)

    def no_rows(self) -> Rows:
        """The rows of an empty page."""
        return self._rows.no_rows()

    async def _read_slice(self, after: Position, settled: int, limit: int) -> tuple[Rows, int, bool]:
        """Rows after a position, the time up to which they were read, and whether there may be more rows up to that
        time. Adapts the size of slices to the size of a page.
        """
        until = min(after.stored_us + self._step_us, settled)
        while True:
            count = min(limit, self._limit)
            try:
                found = await self._rows.read(after, until, count)
            except QueryTooLarge:
                if count > 1:
                    self._limit = count // 2
                elif until - after.stored_us > _MIN_STEP_US:  # for example because memory cannot sort so many rows
                    until = after.stored_us + (until - after.stored_us) // 2
                else:
                    raise
                continue
            self._limit = min(self._page_rows, self._limit + self._limit // 8 + 1)
            if len(found) == count:
                self._step_us = max(_MIN_STEP_US, self._step_us // 2)
                return found, until, True
            self._step_us *= 2 if self._step_us < self._window_us else 1
            return found, until, False

    def _without_second_copies(self, page_rows: Rows, checkpoint: Checkpoint) -> tuple[Rows, Checkpoint]:
        """The rows that were not delivered before, and the checkpoint after all found rows."""
        if not page_rows:
            return page_rows, checkpoint
        recent, position = dict(checkpoint.recent), page_rows.last
        rows = page_rows.without_delivered(recent)
        return rows, Checkpoint(position, _recent(recent, position.stored_us - self._window_us))


def deliver(position: Position, day: int, recent: dict[BlockKey, BlockProgress]) -> bool:
    """Whether a row was not delivered before. Records the row in `recent`."""
    key = (position.batch_id, day)
    delivered = recent.get(key)
    if delivered is not None and not is_behind(position.row, delivered.row):
        return False
    recent[key] = BlockProgress(position.stored_us, position.row)
    return True


def is_behind(row: int, delivered: int) -> bool:
    """Whether a row of a block comes after the block's last delivered row.

    A gateway inserts a block as a whole, and `sluice repair` rebuilds lost rows of a block under other row numbers. If
    rows of a gateway's block were delivered, the rows that were rebuilt for it count as delivered too.
    """
    return row > delivered and (row < FIRST_REBUILT_ROW or delivered >= FIRST_REBUILT_ROW)


def _recent(blocks: Mapping[BlockKey, BlockProgress], since_us: int) -> Mapping[BlockKey, BlockProgress]:
    """The blocks since a time, and at least MIN_RECENT blocks, because times are unreliable after a clock was set."""
    if len(blocks) <= MIN_RECENT:
        return blocks
    newest = sorted(blocks.items(), key=lambda block: block[1], reverse=True)
    return dict(block for at, block in enumerate(newest) if at < MIN_RECENT or block[1].stored_us >= since_us)


def _time(name: str) -> str:
    return f"fromUnixTimestamp64Micro({{{name}:Int64}}, 'UTC')"
