"""Sinks, streams and runs as values (specification 2.5)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from control.warehouse.config import SinkConfig


class SinkKind(StrEnum):
    """Where a sink exports to."""

    BLOBSTORE = "BLOBSTORE"
    SNOWFLAKE = "SNOWFLAKE"
    BIGQUERY = "BIGQUERY"


class Stream(StrEnum):
    """What is exported; each has a schema of its own (`control.warehouse.streams.schema`)."""

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
    """A sink with its config, which no representation shows. `config_error`: why the config is incomplete, for a person
    to act on; None: it is complete.
    """

    id: str
    org_id: str
    name: str
    kind: SinkKind
    enabled: bool
    streams: tuple[Stream, ...]
    config: SinkConfig
    config_error: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
