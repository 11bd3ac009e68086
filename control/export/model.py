"""Sinks, streams and runs as values (specification 2.5)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from control.export.config import SinkConfig


class SinkKind(StrEnum):
    """Where a sink exports to."""

    BLOBSTORE = "BLOBSTORE"
    SNOWFLAKE = "SNOWFLAKE"
    BIGQUERY = "BIGQUERY"


class Stream(StrEnum):
    """What is exported; each has a schema of its own (`control.export.streams.schema`)."""

    ERROR_ESSENCES = "ERROR_ESSENCES"
    ISSUE_ROLLUPS = "ISSUE_ROLLUPS"
    RELEASE_HEALTH_ROLLUPS = "RELEASE_HEALTH_ROLLUPS"
    INGEST_OUTCOMES = "INGEST_OUTCOMES"


class RunStatus(StrEnum):
    """How a run of one stream ended. A run that goes on is SUCCEEDED without an end: what it lists is exported."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NOT_CONFIGURED = "NOT_CONFIGURED"


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink with its config, which no representation shows."""

    id: str
    org_id: str
    name: str
    kind: SinkKind
    enabled: bool
    streams: tuple[Stream, ...]
    config: SinkConfig
    created_by: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """The rows of a batch when it was read: their digest and number."""

    digest: str
    rows: int


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is being exported: written before anything is put, and used as written if it is repeated. `until`:
    the cursor behind it. `attempts`: those that differ, because rows were erased or issues changed in between; one of
    them is what is exported.
    """

    key: str
    until: bytes
    until_at: datetime | None
    until_id: str
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a stream of a sink is exported. `cursor`: as the stream encodes it; None: nothing is exported."""

    sink_id: str
    org_id: str
    stream: Stream
    version: int
    cursor: bytes | None
    cursor_at: datetime | None
    cursor_id: str | None
    intent: Intent | None
    rows_exported: int
    last_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class Run:
    """What an export of one stream did."""

    id: str
    sink_id: str
    org_id: str
    stream: Stream
    status: RunStatus
    started_at: datetime
    rows: int = 0
    bytes: int = 0
    object_keys: tuple[str, ...] = ()
    error: str | None = None
    finished_at: datetime | None = None
