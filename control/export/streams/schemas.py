"""What all streams have. Their schemas: what is published, and what Parquet files and tables have. Only what is stored
after scrubbing (the tier `stored`), by this list.

A change adds columns, which may be null, and a version. Nothing is removed or renamed, and no type changes.

`StreamReader` is what an exporter needs of a stream. Rows become a table of Arrow, its digest, and its Parquet file.
pyarrow is large, and imported with the first export.
"""

import hashlib
import importlib.util
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol

from control.export.model import Stream


class ColumnType(StrEnum):
    """The type of a column. TIMESTAMP: UTC, in microseconds; JSON: text."""

    STRING = "string"
    INTEGER = "integer"  # 64 bits, signed
    NUMBER = "number"  # a double
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream. `since`: the version of the schema that added it."""

    name: str
    type: ColumnType
    description: str
    nullable: bool = False
    since: int = 1


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The columns of a stream, in their order. `table`: its name in a warehouse."""

    stream: Stream
    version: int
    columns: tuple[Column, ...]

    @property
    def table(self) -> str:
        return f"sluice_{self.stream.value.lower()}"

    @property
    def column_names(self) -> Sequence[str]:
        return [column.name for column in self.columns]


ROW_ID: Final = Column("row_id", ColumnType.STRING, "Identifies the row: merge by it where a row may arrive twice.")


_S, _I, _N, _T = ColumnType.STRING, ColumnType.INTEGER, ColumnType.NUMBER, ColumnType.TIMESTAMP
_PROJECT: Final = (
    Column("project_id", _S, "The id of the project."),
    Column("project", _S, "The slug of the project."),
)
_PLACE: Final = (
    Column("environment", _S, "The deployment environment; `unknown` if the sender named none."),
    Column("release", _S, "The version of the service; null if the sender named none.", nullable=True),
)

ERROR_ESSENCES: Final = StreamSchema(
    Stream.ERROR_ESSENCES,
    1,
    (
        ROW_ID,
        *_PROJECT,
        Column("time", _T, "When the error occurred, by the sender's clock."),
        Column("stored_at", _T, "When it was stored."),
        Column("fingerprint", _S, "Groups errors to an issue: 32 hexadecimal digits."),
        Column("type", _S, "The type of the exception.", nullable=True),
        Column("message", _S, "The message, scrubbed."),
        Column("source", _S, "`span` or `log`."),
        Column("trace_id", _S, "The trace; null if the log has none.", nullable=True),
        Column("span_id", _S, "The span; null if the log has none.", nullable=True),
        Column("service_name", _S, "The service; null if the sender named none.", nullable=True),
        *_PLACE,
    ),
)
ISSUE_ROLLUPS: Final = StreamSchema(
    Stream.ISSUE_ROLLUPS,
    1,
    (
        ROW_ID,
        Column(
            "change_number", _I, "Of all changes of issues of the organization; the greatest of an issue is current."
        ),
        *_PROJECT,
        Column("issue_id", _S, "The issue."),
        Column("short_id", _S, "How people name it: `WEB-17`."),
        Column("fingerprint", _S, "That of its errors."),
        Column("type", _S, "The type of the exception.", nullable=True),
        Column("title", _S, "The title."),
        Column("culprit", _S, "Where it occurs.", nullable=True),
        Column("status", _S, "`unresolved`, `resolved` or `ignored`."),
        Column("count", _I, "Occurrences so far."),
        Column("first_seen", _T, "The first occurrence."),
        Column("last_seen", _T, "The last occurrence."),
        Column("first_release", _S, "Of the first occurrence.", nullable=True),
        Column("last_release", _S, "Of the last occurrence.", nullable=True),
        Column("resolved_at", _T, "When it was resolved last.", nullable=True),
        Column("resolved_in_release", _S, "The release that fixes it.", nullable=True),
        Column("regressed_at", _T, "When it last occurred although it was resolved.", nullable=True),
        Column("assignee_id", _S, "The principal that it is assigned to.", nullable=True),
        Column("merged_into", _S, "The issue that counts its occurrences since it was merged.", nullable=True),
        Column("created_at", _T, "When the issue was created."),
        Column("updated_at", _T, "The change."),
    ),
)
RELEASE_HEALTH_ROLLUPS: Final = StreamSchema(
    Stream.RELEASE_HEALTH_ROLLUPS,
    1,
    (
        ROW_ID,
        *_PROJECT,
        *_PLACE,
        Column("hour", _T, "The beginning of the hour in which requests started."),
        Column("revision", _I, "The greatest of an hour is current: late data changes it."),
        Column("requests", _I, "Spans of the kinds SERVER and CONSUMER."),
        Column("failed", _I, "Those with the status ERROR."),
        Column("p50_ms", _N, "Of their durations, in milliseconds; null without requests.", nullable=True),
        Column("p95_ms", _N, "As p50_ms.", nullable=True),
        Column("p99_ms", _N, "As p50_ms.", nullable=True),
        Column(
            "sessions",
            _I,
            "Different values of `session.id`; null if no request has one, or it is scrubbed.",
            nullable=True,
        ),
        Column("new_issues", _I, "Fingerprints of errors whose first stored occurrence is in this hour."),
    ),
)
INGEST_OUTCOMES: Final = StreamSchema(
    Stream.INGEST_OUTCOMES,
    1,
    (
        ROW_ID,
        *_PROJECT,
        Column("time", _T, "When the requests arrived."),
        Column("stored_at", _T, "When the row was stored."),
        Column("signal", _S, "`traces` or `logs`."),
        Column("outcome", _S, "`accepted`, `rejected` or `refused`."),
        Column("reason", _S, "Why items were not accepted.", nullable=True),
        Column("items", _I, "Spans or log records; 0 for refused requests, which are not read."),
        Column("requests", _I, "Requests."),
        Column("wire_bytes", _I, "Their bytes as sent."),
        Column(
            "modified", _S, "Of the accepted items, how many were changed on the way, by reason: an object in JSON."
        ),
    ),
)
SCHEMAS: Final[Mapping[Stream, StreamSchema]] = MappingProxyType(
    {one.stream: one for one in (ERROR_ESSENCES, ISSUE_ROLLUPS, RELEASE_HEALTH_ROLLUPS, INGEST_OUTCOMES)}
)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
MAX_ROWS: Final = 50_000  # of a batch
MAX_BYTES: Final = 24 * 2**20  # of a batch as columns of Arrow, some more with its last page


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as a `pyarrow.Table` of the stream's schema; the cursor behind them, and how it is shown. Without rows, only
    the cursor has moved.
    """

    table: Any
    until: bytes
    until_at: datetime | None
    until_id: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The organization whose rows are exported, and the slugs of its projects by id."""

    org_id: str
    projects: Mapping[int, str]


class StreamReader(Protocol):
    """Reads one stream. The methods raise StoreError and DatabaseUnavailable."""

    async def read(self, scope: Scope, cursor: bytes | None) -> Batch | None:
        """The next rows behind a cursor (None: from the beginning); None: there are none yet."""

    async def read_again(self, scope: Scope, cursor: bytes | None, until: bytes) -> Any:
        """The rows between two cursors, in the same order: those of `read`, less what was erased or is newer since."""


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


_COMPRESSION: Final = "zstd"


def has_arrow() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def digest_table(table: Any) -> str:
    """SHA-256 of the values, column by column, in hexadecimal digits: of their lengths where they are texts, of their
    bytes in Arrow's layout, which does not change, and of which ones are null.
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
    """A table as a Parquet file. Runs for some time: call it in a thread."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415 (it is large)

    file = io.BytesIO()
    pq.write_table(table, file, compression=_COMPRESSION)
    return file.getvalue()


def _fixed(values: Any) -> memoryview:
    """The bytes of an array whose values have one length."""
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
