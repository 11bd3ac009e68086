"""Request and response bodies of sinks (specification 2.5 and 4.6)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.http.validation import Issues, decode_json
from control.export.exporter import EndedRun
from control.export.model import (
    CONFIGS,
    RunStatus,
    Sink,
    SinkConfig,
    SinkKind,
    SnowflakeConfig,
    Stream,
    StreamCheckpoint,
)
from control.export.streams.schemas import ColumnType, StreamSchema
from control.http.field_types import Name, Timestamp, check_url
from control.routing.arguments import CheckedBody
from control.routing.resource import shown_as

SINK_ID_PATTERN: Final = "^snk_[0-9a-z]{26}$"
SCRUB_TIER: Final = "stored"
MAX_BATCHES: Final = 100
DEFAULT_BATCHES: Final = 10

_Streams = Annotated[
    list[Stream], Meta(min_length=1, max_length=4, description="The streams to export. Each is named once.")
]
_ScrubTier = Annotated[
    Literal["stored"],
    Meta(description="`stored`: sinks export the stored data, which was scrubbed before it was stored."),
]


class NewSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The sink to create. By default all four streams are exported. The fields of `config` depend on the kind, and
    missing fields may be sent later.
    """

    name: Name
    kind: SinkKind
    streams: _Streams = msgspec.field(default_factory=lambda: list(Stream))
    config: dict[str, Any] = msgspec.field(default_factory=dict)


class SinkChange(CheckedBody, frozen=True):
    """Changes to a sink. Omitted fields are not changed."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    streams: _Streams | UnsetType = UNSET

    def check(self, issues: Issues) -> None:
        """Record a stream that is named twice."""
        check_streams([] if self.streams is UNSET else self.streams, issues)


class ConfigReplacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The complete config, which replaces the previous one."""

    config: dict[str, Any]


class ExportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How much to export."""

    max_batches_per_stream: Annotated[
        int,
        Meta(
            ge=1, le=MAX_BATCHES, description="Maximum number of batches per stream. A batch has at most 50 000 rows."
        ),
    ] = DEFAULT_BATCHES


class WarehouseSink(msgspec.Struct, frozen=True, rename="camel"):
    """A sink. Its config is never shown."""

    id: Annotated[str, Meta(pattern=SINK_ID_PATTERN)]
    org_id: str
    name: str
    kind: SinkKind
    enabled: bool
    streams: list[Stream]
    configured: bool
    not_configured_reason: Annotated[
        str | None,
        Meta(description="The steps that are missing before the sink can export. `null` if the sink is configured."),
    ]
    scrub_tier: _ScrubTier
    created_by_principal_id: str | None
    created_at: Timestamp


class SinkList(msgspec.Struct, frozen=True):
    """All sinks of the organization, oldest first."""

    data: list[WarehouseSink]


class SinkDeletion(msgspec.Struct, frozen=True):
    """The sink was deleted. Exported files and rows were not deleted."""

    deleted: bool


class ExportedRun(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an export of one stream. `idle`: there was nothing to export."""

    run_id: str
    stream: Stream
    status: RunStatus
    rows: int
    bytes: int
    object_keys: list[str]
    scrub_tier: _ScrubTier
    error: str | None
    idle: bool


class ExportResult(msgspec.Struct, frozen=True, rename="camel"):
    """The results of an export, by stream."""

    sink_id: str
    kind: SinkKind
    rows: int
    runs: list[ExportedRun]


class ExportRun(msgspec.Struct, frozen=True, rename="camel"):
    """A run of one stream. `finishedAt` is null while the run continues."""

    id: str
    stream: Stream
    status: RunStatus
    rows: int
    bytes: int
    object_keys: list[str]
    scrub_tier: _ScrubTier
    error: str | None
    started_at: Timestamp
    finished_at: Timestamp | None


class SinkCheckpoint(msgspec.Struct, frozen=True, rename="camel"):
    """How far a stream is exported. Cursor and times are null if nothing is exported."""

    stream: Stream
    cursor_at: Timestamp | None
    cursor_id: str | None
    rows_exported: int
    last_run_at: Timestamp | None


class SinkStatus(msgspec.Struct, frozen=True):
    """A sink, the progress of its streams, and its last runs, newest first."""

    sink: WarehouseSink
    checkpoints: list[SinkCheckpoint]
    runs: list[ExportRun]


class PublishedColumn(msgspec.Struct, frozen=True):
    """A column of a stream. Timestamps are in UTC, with microseconds."""

    name: str
    type: ColumnType
    nullable: bool
    description: str


class PublishedStream(msgspec.Struct, frozen=True, rename="camel"):
    """The schema of a stream. Later versions only add columns, which may be null."""

    stream: Stream
    version: int
    table: Annotated[str, Meta(description="Name of the table in a warehouse.")]
    columns: list[PublishedColumn]


class PublishedStreams(msgspec.Struct, frozen=True):
    """All streams."""

    data: list[PublishedStream]


def read_config(kind: SinkKind, given: dict[str, Any], issues: Issues) -> SinkConfig | None:
    """Decode a config of the kind. Returns None after adding an issue for every invalid field below `body.config`."""
    before = len(issues)
    config: SinkConfig | None = decode_json(CONFIGS[kind], msgspec.json.encode(given), "body.config", issues)
    if config is not None:
        check_url(config.endpoint, "body.config.endpoint", issues)
    if isinstance(config, SnowflakeConfig) and config.store is not UNSET:
        check_url(config.store.endpoint, "body.config.store.endpoint", issues)
    return config if len(issues) == before else None


def check_streams(streams: list[Stream], issues: Issues) -> None:
    """Record streams that are named twice."""
    if len(set(streams)) != len(streams):
        issues.add("body.streams", "Must name each stream once.", "invalid")


def sink_body(sink: Sink, not_configured_reason: str | None) -> WarehouseSink:
    """The API representation of a sink."""
    return shown_as(
        WarehouseSink,
        sink,
        configured=not_configured_reason is None,
        not_configured_reason=not_configured_reason,
        scrub_tier=SCRUB_TIER,
        created_by_principal_id=sink.created_by,
    )


def export_body(sink: Sink, ended: list[EndedRun]) -> ExportResult:
    """The API representation of an export's results."""
    runs = [shown_as(ExportedRun, one.run, run_id=one.run.id, scrub_tier=SCRUB_TIER, idle=one.is_idle) for one in ended]
    return ExportResult(sink.id, sink.kind, sum(one.run.rows for one in ended), runs)


def checkpoint_body(stream: Stream, checkpoint: StreamCheckpoint | None) -> SinkCheckpoint:
    """The API representation of a checkpoint. None: nothing is exported."""
    if checkpoint is None:
        return SinkCheckpoint(stream, None, None, 0, None)
    return shown_as(SinkCheckpoint, checkpoint, stream=stream)


def stream_body(schema: StreamSchema) -> PublishedStream:
    """The published schema of a stream."""
    columns = [PublishedColumn(one.name, one.type, one.nullable, one.description) for one in schema.columns]
    return PublishedStream(schema.stream, schema.version, schema.table, columns)
