"""ERROR_ESSENCES and INGEST_OUTCOMES: rows of a ClickHouse table in storage order, each row once.

The cursor is a checkpoint of `chassis.clickhouse.storage_order`. Late rows are not skipped, the cursor does not pass an
open insert, and second copies of a block are left out. ClickHouse computes the values, in columns. Python processes no
single row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chassis.clickhouse import ClickHouse
from chassis.clickhouse.storage_order import Checkpoint, Position, StorageOrderReader
from chassis.clickhouse.storage_order_arrow import ArrowRows, OrderedArrowTable
from control.export.streams.parquet import arrow_schema, from_micros
from control.export.streams.reading import MAX_BYTES, MAX_ROWS, Batch, ExportSource
from control.export.streams.schemas import ERROR_ESSENCES, INGEST_OUTCOMES, StreamSchema

PAGE_BYTES: Final = 16 * 2**20
MEMORY_BYTES: Final = 8 * PAGE_BYTES  # of the engine, per page

# Expressions for the columns of the stream. The project's slug is added here.
_ROW: Final = {
    "row_id": "concat(lower(hex(batch_id)), '-', toString(row))",
    "project_id": "project_id",
    "stored_at": "stored_time",
}
_ERRORS: Final = _ROW | {
    "time": "toDateTime64(time, 6, 'UTC')",
    "fingerprint": "lower(hex(fingerprint))",
    "type": "nullIf(toString(type), '')",
    "message": "message",
    "source": "toString(source)",
    "trace_id": "if(trace_id = toFixedString('', 16), NULL, lower(hex(trace_id)))",
    "span_id": "if(span_id = toFixedString('', 8), NULL, lower(hex(span_id)))",
    "service_name": "nullIf(toString(service_name), '')",
    "environment": "toString(environment)",
    "release": "nullIf(toString(release), '')",
}
_OUTCOMES: Final = _ROW | {
    "time": "toDateTime64(time, 6, 'UTC')",
    "signal": "toString(signal)",
    "outcome": "toString(outcome)",
    "reason": "nullIf(toString(reason), '')",
    "items": "toInt64(items)",
    "requests": "toInt64(requests)",
    "wire_bytes": "toInt64(wire_bytes)",
    "modified": "toJSONString(modified)",
}


@dataclass(slots=True)
class OrderedStream:
    """One of the two tables. `columns`: an expression for each column of the schema except `project`."""

    clickhouse: ClickHouse
    table: str
    schema: StreamSchema
    columns: Mapping[str, str]
    page_rows: int = MAX_ROWS  # of the next page: large rows need smaller pages

    @classmethod
    def errors(cls, clickhouse: ClickHouse) -> "OrderedStream":
        """The stream ERROR_ESSENCES."""
        return cls(clickhouse, "error_occurrences", ERROR_ESSENCES, _ERRORS)

    @classmethod
    def outcomes(cls, clickhouse: ClickHouse) -> "OrderedStream":
        """The stream INGEST_OUTCOMES."""
        return cls(clickhouse, "ingest_outcomes", INGEST_OUTCOMES, _OUTCOMES)

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        """Read the next rows, as `StreamReader` describes."""
        checkpoint = begun = _checkpoint(cursor)
        reader = self._reader(source)
        tables = [self._new_table(reader.no_rows(), source)]
        rows = size = 0
        while True:
            page = await reader.read(checkpoint, limit=MAX_ROWS - rows)
            tables.append(self._new_table(page.rows, source))
            rows, size = rows + len(page.rows), size + page.rows.table.nbytes
            checkpoint = page.checkpoint
            if page.is_last or rows >= MAX_ROWS or size >= MAX_BYTES:
                break
        self.page_rows = reader.next_rows
        if checkpoint.position == begun.position:
            return None
        position = checkpoint.position
        at = from_micros(position.stored_us)
        return Batch(_joined(tables), checkpoint.encode(), at, _name(position), page.is_last)

    async def read_again(self, source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        """Read the same rows again, as `StreamReader` describes."""
        checkpoint, last = _checkpoint(cursor), Checkpoint.decode(until).position
        reader = self._reader(source)
        tables = [self._new_table(reader.no_rows(), source)]
        while checkpoint.position < last:
            page = await reader.read(checkpoint)
            tables.append(self._new_table(page.rows.until(last), source))
            checkpoint = page.checkpoint
            if page.is_last:
                break
        return _joined(tables)

    def _reader(self, source: ExportSource) -> StorageOrderReader[ArrowRows]:
        columns, projects = list(self.columns.values()), sorted(source.projects)
        table = OrderedArrowTable(
            self.clickhouse, self.table, columns, projects, page_bytes=PAGE_BYTES, memory_bytes=MEMORY_BYTES
        )
        return StorageOrderReader(table, page_rows=MAX_ROWS, first_rows=self.page_rows)

    def _new_table(self, rows: ArrowRows, source: ExportSource) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)
        import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

        schema = arrow_schema(self.schema)
        values = dict(zip(self.columns, rows.values, strict=True))
        ids = values["project_id"].cast(pa.uint64())
        places = pc.index_in(ids, value_set=pa.array(list(source.projects), pa.uint64()))
        values["project"] = pc.take(pa.array(list(source.projects.values()), pa.string()), places)
        return pa.Table.from_arrays([values[field.name].cast(field.type) for field in schema], schema=schema)


def _checkpoint(cursor: bytes | None) -> Checkpoint:
    return Checkpoint() if cursor is None else Checkpoint.decode(cursor)


def _joined(tables: list[Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 (it is large)

    return pa.concat_tables(tables)


def _name(position: Position) -> str:
    """A name of the position. Names sort like positions."""
    return f"{position.stored_us:016d}-{position.batch_id:016x}-{position.row:010d}"
