"""Blocks in ClickHouse's Native format, for the column types of `proto.storage.tables`.

A block consists of the numbers of columns and of rows as varints, followed by the name, type and data of each column.
If the type of a column contains LowCardinality, the column's data begins with the version of that serialization. A
LowCardinality column without rows has no further data. https://clickhouse.com/docs/interfaces/formats/Native
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from proto.otlp.protobuf_writer import varint
from proto.storage.tables import Column, Table

# ClickHouse type -> struct code. Dates and times are written as integers:
# days (Date), seconds (DateTime), ticks (DateTime64).
_NUMBERS: Final = {
    "UInt8": "B",
    "UInt32": "I",
    "UInt64": "Q",
    "Int64": "q",
    "Float64": "d",
    "Date": "H",
    "DateTime('UTC')": "I",
}
_TICKS: Final = re.compile(r"DateTime64\(\d, 'UTC'\)")
_FIXED: Final = re.compile(r"FixedString\((\d+)\)")
_MAP: Final = re.compile(r"Map\((.+?), (.+)\)")
_LOW_CARDINALITY: Final = "LowCardinality(String)"

_DICTIONARY_VERSION: Final = struct.pack("<Q", 1)
_HAS_ADDITIONAL_KEYS: Final = 1 << 9  # the block contains the dictionary,
_NEED_UPDATE_DICTIONARY: Final = 1 << 10  # which replaces the dictionary of previous blocks
# The maximum number of keys, the index type, and its struct code.
_INDEXES: Final = ((1 << 8, 0, "B"), (1 << 16, 1, "H"), (1 << 32, 2, "I"))


def write_block(table: Table, rows: Sequence[Sequence[object]]) -> list[bytes]:
    """One Native block, in pieces, from rows of cells in the order of `table.columns`. Cells have the types that
    `write_columns` accepts.
    """
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    return write_columns(table.columns, cells, len(rows))


def write_columns(columns: Sequence[Column], cells: Sequence[Sequence[Any]], rows: int) -> list[bytes]:
    """One Native block from a sequence of `rows` cells per column. The pieces are the header and one piece per column.

    Cells are `int`, `float`, `bytes` or `str` (written as UTF-8), and mappings or sequences of pairs for a Map.
    Raises ValueError for a cell that does not fit its type, or a column of another length.
    """
    pieces = [varint(len(columns)) + varint(rows)]
    for column, values in zip(columns, cells, strict=True):
        if len(values) != rows:
            raise ValueError(f"column {column.name} has {len(values)} cells in a block of {rows} rows")
        header = _string(column.name) + _string(column.type)
        try:
            data = _prefix(column.type) + _data(column.type, values) if rows else b""
        except (struct.error, TypeError, ValueError) as error:
            raise ValueError(f"column {column.name} ({column.type}): {error}") from error
        pieces.append(header + data)
    return pieces


def _prefix(kind: str) -> bytes:
    if kind == _LOW_CARDINALITY:
        return _DICTIONARY_VERSION
    pair = _MAP.fullmatch(kind)
    return _prefix(pair[1]) + _prefix(pair[2]) if pair else b""


def _data(kind: str, values: Sequence[Any]) -> bytes:
    if kind == _LOW_CARDINALITY:
        return _low_cardinality(values)
    if kind == "String":
        return b"".join(map(_string, values))
    if code := ("q" if _TICKS.fullmatch(kind) else _NUMBERS.get(kind)):
        return struct.pack(f"<{len(values)}{code}", *values)
    if fixed := _FIXED.fullmatch(kind):
        return _fixed(values, int(fixed[1]))
    if pair := _MAP.fullmatch(kind):
        return _maps(pair[1], pair[2], values)
    raise ValueError("unsupported type")


def _string(value: str | bytes) -> bytes:
    raw = _bytes(value)
    return varint(len(raw)) + raw


def _bytes(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode()


def _fixed(values: Sequence[bytes], size: int) -> bytes:
    for value in values:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes instead of {size}")
    return b"".join(values)


def _low_cardinality(values: Sequence[str | bytes]) -> bytes:
    """Encode a LowCardinality column: keys in order of first appearance, then an index per row. The number of keys
    determines the width of an index.
    """
    if not values:
        return b""
    keys: dict[bytes, int] = {}
    indexes = [keys.setdefault(_bytes(value), len(keys)) for value in values]
    index_type, code = next((number, code) for max_keys, number, code in _INDEXES if len(keys) <= max_keys)
    return b"".join(
        (
            struct.pack("<QQ", _HAS_ADDITIONAL_KEYS | _NEED_UPDATE_DICTIONARY | index_type, len(keys)),
            *map(_string, keys),
            struct.pack(f"<Q{len(indexes)}{code}", len(indexes), *indexes),
        )
    )


def _maps(key_type: str, value_type: str, values: Sequence[Mapping[Any, Any] | Sequence[tuple[Any, Any]]]) -> bytes:
    """Encode a Map column: the end of the entries of each row, then all keys, then all values."""
    ends: list[int] = []
    pairs: list[tuple[Any, Any]] = []
    for value in values:
        pairs.extend(_pairs(value))
        ends.append(len(pairs))
    return b"".join(
        (
            struct.pack(f"<{len(ends)}Q", *ends),
            _data(key_type, [key for key, _ in pairs]),
            _data(value_type, [text for _, text in pairs]),
        )
    )


def _pairs(value: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, Mapping) else value
