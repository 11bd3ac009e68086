"""The schemas of all streams: the published columns, which Parquet files and tables have. They contain only data as
stored after scrubbing (the tier `stored`).

A change adds columns, which may be null, and increases the version. No column is removed or renamed, and no type
changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

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
    """A column of a stream. `since`: the schema version that added the column."""

    name: str
    type: ColumnType
    description: str
    nullable: bool = False
    since: int = 1


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The columns of a stream, in their order. `table`: the name of the table in a warehouse."""

    stream: Stream
    version: int
    columns: tuple[Column, ...]

    @property
    def table(self) -> str:
        return f"sluice_{self.stream.value.lower()}"

    @property
    def column_names(self) -> Sequence[str]:
        return [column.name for column in self.columns]


ROW_ID: Final = Column(
    "row_id", ColumnType.STRING, "Identifies the row. If a row may arrive twice, merge rows by this column."
)


_S, _I, _N, _T = ColumnType.STRING, ColumnType.INTEGER, ColumnType.NUMBER, ColumnType.TIMESTAMP
_PROJECT: Final = (
    Column("project_id", _S, "The id of the project."),
    Column("project", _S, "The slug of the project."),
)
_PLACE: Final = (
    Column("environment", _S, "The deployment environment. `unknown` if the sender named none."),
    Column("release", _S, "The version of the service. Null if the sender named none.", nullable=True),
)

ERROR_ESSENCES: Final = StreamSchema(
    Stream.ERROR_ESSENCES,
    1,
    (
        ROW_ID,
        *_PROJECT,
        Column("time", _T, "When the error occurred, by the sender's clock."),
        Column("stored_at", _T, "When the error was stored."),
        Column("fingerprint", _S, "The error group: 32 hexadecimal digits."),
        Column("type", _S, "The type of the exception.", nullable=True),
        Column("message", _S, "The message of the exception, scrubbed."),
        Column("source", _S, "Where the error was recorded: `span` or `log`."),
        Column("trace_id", _S, "The id of the trace. Null if the log record has none.", nullable=True),
        Column("span_id", _S, "The id of the span. Null if the log record has none.", nullable=True),
        Column("service_name", _S, "The name of the service. Null if the sender named none.", nullable=True),
        *_PLACE,
    ),
)
ISSUE_ROLLUPS: Final = StreamSchema(
    Stream.ISSUE_ROLLUPS,
    1,
    (
        ROW_ID,
        Column(
            "change_number",
            _I,
            "The number of the change. All changes of an organization's issues are numbered in one sequence. Of the "
            "rows of an issue, the row with the greatest number is current.",
        ),
        *_PROJECT,
        Column("issue_id", _S, "The id of the issue."),
        Column("short_id", _S, "The short id of the issue, such as `WEB-17`."),
        Column("fingerprint", _S, "The fingerprint of the issue's errors."),
        Column("type", _S, "The type of the exception.", nullable=True),
        Column("title", _S, "The title of the issue."),
        Column("culprit", _S, "The innermost frame of the application's own code.", nullable=True),
        Column("status", _S, "The status: `unresolved`, `resolved` or `ignored`."),
        Column("count", _I, "The number of occurrences so far."),
        Column("first_seen", _T, "When the error first occurred."),
        Column("last_seen", _T, "When the error last occurred."),
        Column("first_release", _S, "The release of the first occurrence.", nullable=True),
        Column("last_release", _S, "The release of the last occurrence.", nullable=True),
        Column("resolved_at", _T, "When the issue was last resolved.", nullable=True),
        Column("resolved_in_release", _S, "The release that fixes the issue.", nullable=True),
        Column("regressed_at", _T, "When the error last occurred although the issue was resolved.", nullable=True),
        Column("assignee_id", _S, "The id of the principal to whom the issue is assigned.", nullable=True),
        Column(
            "merged_into",
            _S,
            "The id of the issue into which this issue was merged. That issue counts the occurrences of both.",
            nullable=True,
        ),
        Column("created_at", _T, "When the issue was created."),
        Column("updated_at", _T, "When the issue was changed."),
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
        Column(
            "revision",
            _I,
            "Of the rows of an hour, the row with the greatest revision is current. Late data adds a revision.",
        ),
        Column("requests", _I, "The number of requests: spans of the kinds SERVER and CONSUMER."),
        Column("failed", _I, "The number of requests with the status ERROR."),
        Column(
            "p50_ms", _N, "The median duration of the requests in milliseconds. Null without requests.", nullable=True
        ),
        Column("p95_ms", _N, "The 95th percentile of the durations of the requests, in milliseconds.", nullable=True),
        Column("p99_ms", _N, "The 99th percentile of the durations of the requests, in milliseconds.", nullable=True),
        Column(
            "sessions",
            _I,
            "The number of different values of `session.id`. Null if no request has this attribute, or all its values "
            "are scrubbed.",
            nullable=True,
        ),
        Column("new_issues", _I, "The number of error groups whose first stored occurrence is in this hour."),
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
        Column("signal", _S, "The signal: `traces` or `logs`."),
        Column("outcome", _S, "The outcome: `accepted`, `rejected` or `refused`."),
        Column("reason", _S, "Why the items were not accepted.", nullable=True),
        Column("items", _I, "The number of spans or log records. 0 for refused requests, which are not parsed."),
        Column("requests", _I, "Requests."),
        Column("wire_bytes", _I, "The size of the requests in bytes, as sent."),
        Column("modified", _S, "The number of accepted items that were changed, by reason: a JSON object."),
    ),
)
SCHEMAS: Final[Mapping[Stream, StreamSchema]] = MappingProxyType(
    {one.stream: one for one in (ERROR_ESSENCES, ISSUE_ROLLUPS, RELEASE_HEALTH_ROLLUPS, INGEST_OUTCOMES)}
)
