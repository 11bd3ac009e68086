"""The ClickHouse tables: column names and Native types, in insert order.

The DDL is `sql/*.sql`. A test compares it with this module. `SimpleAggregateFunction(f, T)` columns are written as T.
"""

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column of an insert block: its name and the ClickHouse type of its data."""

    name: str
    type: str


class Table(NamedTuple):
    """A table and its columns in insert order."""

    name: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in insert order."""
        return tuple(column.name for column in self.columns)


U8: Final = "UInt8"
U32: Final = "UInt32"
U64: Final = "UInt64"
I64: Final = "Int64"
ID16: Final = "FixedString(16)"
ID8: Final = "FixedString(8)"
TEXT: Final = "String"
LOW_CARDINALITY: Final = "LowCardinality(String)"
NANOS: Final = "DateTime64(9, 'UTC')"
TEXT_MAP: Final = "Map(LowCardinality(String), String)"

# The columns that spans and logs share, in the same order in both tables.
_SHARED_COLUMNS: Final = (
    Column("service_name", LOW_CARDINALITY),
    Column("environment", LOW_CARDINALITY),
    Column("release", LOW_CARDINALITY),
    Column("attributes", TEXT_MAP),
    Column("attribute_types", LOW_CARDINALITY),
    Column("dropped_attributes_count", U32),
    Column("resource", LOW_CARDINALITY),
    Column("resource_dropped_attributes_count", U32),
    Column("resource_schema_url", LOW_CARDINALITY),
    Column("entity_refs", LOW_CARDINALITY),
    Column("scope_name", LOW_CARDINALITY),
    Column("scope_version", LOW_CARDINALITY),
    Column("scope", LOW_CARDINALITY),
    Column("scope_dropped_attributes_count", U32),
    Column("scope_schema_url", LOW_CARDINALITY),
    Column("truncations", TEXT),
)

SPANS: Final = Table(
    "spans",
    (
        Column("project_id", U64),
        Column("start_time", NANOS),
        Column("duration", I64),
        Column("trace_id", ID16),
        Column("span_id", ID8),
        Column("parent_span_id", ID8),
        Column("trace_state", TEXT),
        Column("flags", U32),
        Column("name", LOW_CARDINALITY),
        Column("kind", U8),
        Column("status_code", U8),
        Column("status_message", TEXT),
        Column("events", TEXT),
        Column("dropped_events_count", U32),
        Column("links", TEXT),
        Column("dropped_links_count", U32),
        *_SHARED_COLUMNS,
        Column("batch_id", U64),
        Column("row", U32),
    ),
)

LOGS: Final = Table(
    "logs",
    (
        Column("project_id", U64),
        Column("time", NANOS),
        Column("time_source", U8),
        Column("observed_time", NANOS),
        Column("trace_id", ID16),
        Column("span_id", ID8),
        Column("flags", U32),
        Column("severity_number", U8),
        Column("severity_text", LOW_CARDINALITY),
        Column("event_name", LOW_CARDINALITY),
        Column("body", TEXT),
        Column("body_type", LOW_CARDINALITY),
        *_SHARED_COLUMNS,
        Column("batch_id", U64),
        Column("row", U32),
    ),
)

TRACE_INDEX: Final = Table(
    "trace_index",
    (
        Column("project_id", U64),
        Column("trace_id", ID16),
        Column("signal", U8),
        Column("day", "Date"),
        Column("min_time", NANOS),
        Column("max_time", NANOS),
        Column("items", U64),
    ),
)

ATTRIBUTE_KEYS: Final = Table(
    "attribute_keys",
    (
        Column("project_id", U64),
        Column("bucket", "DateTime('UTC')"),
        Column("key", LOW_CARDINALITY),
        Column("spans", U64),
        Column("numeric", U64),
    ),
)

INGEST_OUTCOMES: Final = Table(
    "ingest_outcomes",
    (
        Column("project_id", U64),
        Column("time", "DateTime64(3, 'UTC')"),
        Column("signal", LOW_CARDINALITY),
        Column("outcome", LOW_CARDINALITY),
        Column("reason", LOW_CARDINALITY),
        Column("items", U64),
        Column("requests", U64),
        Column("wire_bytes", U64),
        Column("modified", "Map(LowCardinality(String), UInt64)"),
        Column("batch_id", U64),
        Column("row", U32),
    ),
)

# The first number, within a batch, of rows of `error_occurrences` that `sluice repair` rebuilds. Rows that a gateway
# inserts are numbered from 0.
FIRST_REBUILT_ROW: Final = 2**31

ERROR_OCCURRENCES: Final = Table(
    "error_occurrences",
    (
        Column("project_id", U64),
        Column("time", NANOS),
        Column("fingerprint", ID16),
        Column("type", LOW_CARDINALITY),
        Column("message", TEXT),
        Column("stacktrace", TEXT),
        Column("source", LOW_CARDINALITY),
        Column("trace_id", ID16),
        Column("span_id", ID8),
        Column("service_name", LOW_CARDINALITY),
        Column("environment", LOW_CARDINALITY),
        Column("release", LOW_CARDINALITY),
        Column("batch_id", U64),
        Column("row", U32),
        Column("fingerprint_version", U8),
    ),
)

# The key of `attribute_keys` for all keys that are not named. It is not valid UTF-8, so no real key is equal to it.
UNNAMED_KEYS: Final = b"\xff"

TABLES: Final = (SPANS, LOGS, TRACE_INDEX, ATTRIBUTE_KEYS, INGEST_OUTCOMES, ERROR_OCCURRENCES)

# The time of storing. ClickHouse computes it, so no block contains it.
STORED_TIME: Final = Column("stored_time", "DateTime64(6, 'UTC')")
TABLES_IN_STORAGE_ORDER: Final = (SPANS, LOGS, ERROR_OCCURRENCES, INGEST_OUTCOMES)  # the tables with this column

SIGNAL_SPANS: Final = 1
SIGNAL_LOGS: Final = 2
