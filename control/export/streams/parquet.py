"""Rows as an Arrow table, its digest, and its Parquet file. pyarrow is large, so it is imported with the first
export.
"""

import hashlib
import importlib.util
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from control.export.streams.schemas import ColumnType, StreamSchema

_COMPRESSION: Final = "zstd"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def from_micros(time_us: int) -> datetime:
    """A time in microseconds since 1970."""
    return _EPOCH + time_us * _MICROSECOND


def to_micros(time: datetime) -> int:
    """Reverses `from_micros`."""
    return (time - _EPOCH) // _MICROSECOND


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


def has_arrow() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def digest_table(table: Any) -> str:
    """SHA-256 of the values, column by column, in hexadecimal digits. It covers the lengths of texts, the bytes in
    Arrow's layout, which is stable, and which values are null.
    """
    import pyarrow as pa  # noqa: PLC0415 (it is large)
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    found = hashlib.sha256(table.num_rows.to_bytes(8))
    for column in table.columns:
        values = column.combine_chunks()
        nulls = bytes(_fixed(values.is_null().cast(pa.int8()))) if values.null_count else b""
        found.update(len(nulls).to_bytes(8) + nulls)
        if pa.types.is_string(values.type):
            values = pc.fill_null(values, "") if nulls else values
            found.update(_fixed(pc.binary_length(values)))
            found.update(_texts(values))
        else:
            zero = pa.scalar(0, pa.int64()).cast(values.type)
            values = pc.fill_null(values, zero) if nulls else values
            found.update(_fixed(values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values))
    return found.hexdigest()


def write_parquet(table: Any) -> bytes:
    """Write a table as a Parquet file. This takes some time, so call it in a thread."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)

    file = io.BytesIO()
    pq.write_table(table, file, compression=_COMPRESSION)
    return file.getvalue()


def _fixed(values: Any) -> memoryview:
    """The bytes of an array whose values all have the same length."""
    width = values.type.bit_width // 8
    data = values.buffers()[1]
    return memoryview(data if data is not None else b"")[values.offset * width : (values.offset + len(values)) * width]


def _texts(values: Any) -> memoryview:
    """The bytes of all texts of an array."""
    _, offsets, data = values.buffers()
    if not len(values):
        return memoryview(b"")
    ends = memoryview(offsets).cast("B").cast("i")
    return memoryview(data if data is not None else b"")[ends[values.offset] : ends[values.offset + len(values)]]
