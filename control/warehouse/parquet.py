"""Parquet files of batches. pyarrow is large, and imported with the first export.

digest      of the rows, whichever release of Parquet's writer makes the file
write       the file: zstd, with the schema's version in its metadata
"""

import hashlib
import importlib.util
import io
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from control.warehouse.streams.schema import ColumnType, StreamSchema

_ENCODER: Final = msgspec.msgpack.Encoder()
_DIGESTED_AT_ONCE: Final = 1_000  # rows


def is_available() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def digest(rows: Sequence[tuple[Any, ...]]) -> str:
    """SHA-256 of the values, in hexadecimal digits."""
    found = hashlib.sha256()
    for start in range(0, len(rows), _DIGESTED_AT_ONCE):
        found.update(_ENCODER.encode(rows[start : start + _DIGESTED_AT_ONCE]))
    return found.hexdigest()


def write(schema: StreamSchema, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """The rows as a Parquet file. Runs for some time: call it in a thread."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

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
    metadata = {"sluice.stream": schema.stream.value, "sluice.schema_version": str(schema.version)}
    arrays = [
        pa.array(values, field.type)
        for field, values in zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True)
    ]
    file = io.BytesIO()
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata))
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()
