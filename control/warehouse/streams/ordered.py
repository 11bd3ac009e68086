"""ERROR_ESSENCES and INGEST_OUTCOMES: rows of a table of ClickHouse in storage order, each once.

The cursor is a checkpoint of `chassis.clickhouse.storage_order`: nothing that arrives late is skipped, nothing moves
while an insert is open, and second copies of a block are left out.
"""

from collections.abc import Sequence
from typing import Any, Final

from chassis.clickhouse import ClickHouse
from chassis.clickhouse.storage_order import Checkpoint, OrderedTable, Position, StorageOrderReader, StoredRow
from control.warehouse.streams.reader import MAX_ROWS, MAX_TEXT, Batch, Scope, from_micros

PAGE_BYTES: Final = 16 * 2**20

_ROW_ID: Final = "concat(lower(hex(batch_id)), '-', toString(row))"
# Expressions for the columns after `row_id`, `project_id` and `project`, which are computed here.
_ERRORS: Final = (
    "toUnixTimestamp64Micro(time)",
    "toUnixTimestamp64Micro(stored_time)",
    "lower(hex(fingerprint))",
    "nullIf(toString(type), '')",
    "message",
    "toString(source)",
    "if(trace_id = toFixedString('', 16), NULL, lower(hex(trace_id)))",
    "if(span_id = toFixedString('', 8), NULL, lower(hex(span_id)))",
    "nullIf(toString(service_name), '')",
    "toString(environment)",
    "nullIf(toString(release), '')",
)
_OUTCOMES: Final = (
    "toUnixTimestamp64Milli(time) * 1000",
    "toUnixTimestamp64Micro(stored_time)",
    "toString(signal)",
    "toString(outcome)",
    "nullIf(toString(reason), '')",
    "toInt64(items)",
    "toInt64(requests)",
    "toInt64(wire_bytes)",
    "toJSONString(modified)",
)
_TEXT: Final = {"error_occurrences": 7, "ingest_outcomes": 11}  # the longest text: its place in a row


class OrderedStream:
    """One of the two tables."""

    def __init__(self, clickhouse: ClickHouse, table: str, columns: Sequence[str]) -> None:
        self._clickhouse = clickhouse
        self._table = table
        self._columns = ("project_id", _ROW_ID, *columns)

    @classmethod
    def errors(cls, clickhouse: ClickHouse) -> "OrderedStream":
        """ERROR_ESSENCES."""
        return cls(clickhouse, "error_occurrences", _ERRORS)

    @classmethod
    def outcomes(cls, clickhouse: ClickHouse) -> "OrderedStream":
        """INGEST_OUTCOMES."""
        return cls(clickhouse, "ingest_outcomes", _OUTCOMES)

    async def read(self, scope: Scope, cursor: bytes | None) -> Batch | None:
        """As `StreamReader` has it."""
        checkpoint = begun = _checkpoint(cursor)
        reader, place = self._reader(scope), _TEXT[self._table]
        rows: list[tuple[Any, ...]] = []
        text = 0
        while True:
            page = await reader.read(checkpoint, limit=min(10_000, MAX_ROWS - len(rows)))
            new = _rows(page.rows, scope)
            rows += new
            text += sum(len(row[place]) for row in new)
            checkpoint = page.checkpoint
            if page.is_last or len(rows) >= MAX_ROWS or text >= MAX_TEXT:
                break
        if checkpoint.position == begun.position:
            return None
        position = checkpoint.position
        return Batch(rows, checkpoint.encode(), from_micros(position.stored_us), _name(position), page.is_last)

    async def read_again(self, scope: Scope, cursor: bytes | None, until: bytes) -> list[tuple[Any, ...]]:
        """As `StreamReader` has it."""
        checkpoint, last = _checkpoint(cursor), Checkpoint.decode(until).position
        reader = self._reader(scope)
        rows: list[tuple[Any, ...]] = []
        while checkpoint.position < last:
            page = await reader.read(checkpoint)
            rows += _rows([row for row in page.rows if row.position <= last], scope)
            checkpoint = page.checkpoint
            if page.is_last:
                break
        return rows

    def _reader(self, scope: Scope) -> StorageOrderReader:
        table = OrderedTable(
            self._clickhouse, self._table, self._columns, sorted(scope.projects), page_bytes=PAGE_BYTES
        )
        return StorageOrderReader(table)


def _checkpoint(cursor: bytes | None) -> Checkpoint:
    return Checkpoint() if cursor is None else Checkpoint.decode(cursor)


def _rows(stored: Sequence[StoredRow], scope: Scope) -> list[tuple[Any, ...]]:
    found = []
    for row in stored:
        project_id, row_id, *values = row.values
        found.append((row_id, str(project_id), scope.projects[project_id], *values))
    return found


def _name(position: Position) -> str:
    """Sorts as positions do."""
    return f"{position.stored_us:016d}-{position.batch_id:016x}-{position.row:010d}"
