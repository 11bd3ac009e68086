"""What all streams have. Their schemas: what is published, and what Parquet files and tables have. Only what is stored
after scrubbing (the tier `stored`), by this list.

A change adds columns, which may be null, and a version. Nothing is removed or renamed, and no type changes.
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
