"""Rows of a stream as a table of Arrow. pyarrow is large, and imported with the first export."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from control.export.streams.schema import ColumnType, StreamSchema


@cache
def arrow_schema(schema: StreamSchema) -> Any:
    """The columns as a `pyarrow.Schema`."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)

    types = {
        ColumnType.STRING: pa.string(),
        ColumnType.INTEGER: pa.int64(),
        ColumnType.NUMBER: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }
    fields = [
        pa.field(column.name, types[column.type], column.nullable, {"description": column.description})
        for column in schema.columns
    ]
    return pa.schema(fields, {"sluice.stream": schema.stream.value, "sluice.schema_version": str(schema.version)})


def new_table(schema: StreamSchema, rows: Sequence[tuple[Any, ...]]) -> Any:
    """A `pyarrow.Table` of rows, whose times are in microseconds since 1970."""
    import pyarrow as pa  # noqa: PLC0415 (it is large)

    fields = arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(values, field.type) for field, values in zip(fields, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)
