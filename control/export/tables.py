"""The tables of sinks, of the progress of each stream, and of runs."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.export.model import RunStatus, SinkKind, Stream
from proto.identity import MAX_NAME_LENGTH

MAX_OWNER_LENGTH: Final = 200
MAX_ERROR_LENGTH: Final = 500
MAX_CURSOR_ID_LENGTH: Final = 100

warehouse_sinks: Final = sa.Table(
    "warehouse_sinks",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("streams", sa.JSON, nullable=False),
    sa.Column("config", sa.LargeBinary, info={"sealed": True}, nullable=False),
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.Column("next_run_at", UtcTime, nullable=False),
    # Lets one exporter at a time work on a sink, over all processes.
    sa.Column("lease_owner", text(MAX_OWNER_LENGTH)),
    sa.Column("lease_until", UtcTime),
    enum_check("kind", SinkKind),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "next_run_at"),
)

warehouse_checkpoints: Final = sa.Table(
    "warehouse_checkpoints",
    metadata,
    sa.Column("sink_id", text(32), sa.ForeignKey("warehouse_sinks.id"), primary_key=True),
    sa.Column("stream", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),  # an exporter that read another version stores nothing
    sa.Column("cursor", sa.LargeBinary),  # encoded by the stream; NULL: nothing is exported
    sa.Column("cursor_at", UtcTime),
    sa.Column("cursor_id", text(MAX_CURSOR_ID_LENGTH)),
    sa.Column("intent", sa.LargeBinary),  # the batch that is being exported; NULL: none
    sa.Column("rows_exported", sa.BigInteger, nullable=False),
    sa.Column("last_run_at", UtcTime),
    enum_check("stream", Stream),
    sa.Index(None, "org_id"),
)

warehouse_runs: Final = sa.Table(
    "warehouse_runs",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("sink_id", text(32), sa.ForeignKey("warehouse_sinks.id"), nullable=False),
    sa.Column("stream", text(32), nullable=False),
    sa.Column("status", text(16), nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("object_keys", sa.JSON, nullable=False),
    sa.Column("error", text(MAX_ERROR_LENGTH)),
    sa.Column("started_at", UtcTime, nullable=False),
    sa.Column("finished_at", UtcTime),  # NULL: the run has not ended
    enum_check("stream", Stream),
    enum_check("status", RunStatus),
    sa.Index(None, "sink_id", "id"),
    sa.Index(None, "org_id"),
)

# The last number that was given to a change of an issue of the organization (`control.export.streams.rollups`).
issue_change_numbers: Final = sa.Table(
    "issue_change_numbers",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("last_number", sa.BigInteger, nullable=False),
)
