"""Sinks that export to object stores and warehouses; numbers of the changes of issues."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_STREAMS = "('ERROR_ESSENCES', 'ISSUE_ROLLUPS', 'RELEASE_HEALTH_ROLLUPS', 'INGEST_OUTCOMES')"


def upgrade() -> None:
    op.add_column("issues", sa.Column("change_number", sa.BigInteger))
    where = sa.text("change_number IS NULL")
    op.create_index("ix_issues_unnumbered", "issues", ["org_id"], sqlite_where=where, postgresql_where=where)
    op.create_index("ix_issues_org_id_change_number", "issues", ["org_id", "change_number"])
    _sinks()
    _checkpoints()
    _runs()
    op.create_table(
        "issue_change_numbers",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("org_id", name="pk_issue_change_numbers"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issue_change_numbers_org_id"),
    )


def _sinks() -> None:
    op.create_table(
        "warehouse_sinks",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("streams", sa.JSON, nullable=False),
        sa.Column("config", sa.LargeBinary, nullable=False),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.Column("next_run_at", UtcTime, nullable=False),
        sa.Column("lease_owner", text(200)),
        sa.Column("lease_until", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_warehouse_sinks"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_warehouse_sinks_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_warehouse_sinks_created_by"),
        sa.CheckConstraint("kind IN ('BLOBSTORE', 'SNOWFLAKE', 'BIGQUERY')", name="ck_warehouse_sinks_kind"),
    )
    op.create_index("ix_warehouse_sinks_org_id_id", "warehouse_sinks", ["org_id", "id"])
    op.create_index("ix_warehouse_sinks_next_run_at", "warehouse_sinks", ["next_run_at"])


def _checkpoints() -> None:
    op.create_table(
        "warehouse_checkpoints",
        sa.Column("sink_id", text(32), nullable=False),
        sa.Column("stream", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("cursor", sa.LargeBinary),
        sa.Column("cursor_at", UtcTime),
        sa.Column("cursor_id", text(100)),
        sa.Column("intent", sa.LargeBinary),
        sa.Column("rows_exported", sa.BigInteger, nullable=False),
        sa.Column("last_run_at", UtcTime),
        sa.PrimaryKeyConstraint("sink_id", "stream", name="pk_warehouse_checkpoints"),
        sa.ForeignKeyConstraint(["sink_id"], ["warehouse_sinks.id"], name="fk_warehouse_checkpoints_sink_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_warehouse_checkpoints_org_id"),
        sa.CheckConstraint(f"stream IN {_STREAMS}", name="ck_warehouse_checkpoints_stream"),
    )
    op.create_index("ix_warehouse_checkpoints_org_id", "warehouse_checkpoints", ["org_id"])


def _runs() -> None:
    op.create_table(
        "warehouse_runs",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("sink_id", text(32), nullable=False),
        sa.Column("stream", text(32), nullable=False),
        sa.Column("status", text(16), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("object_keys", sa.JSON, nullable=False),
        sa.Column("error", text(500)),
        sa.Column("started_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_warehouse_runs"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_warehouse_runs_org_id"),
        sa.ForeignKeyConstraint(["sink_id"], ["warehouse_sinks.id"], name="fk_warehouse_runs_sink_id"),
        sa.CheckConstraint(f"stream IN {_STREAMS}", name="ck_warehouse_runs_stream"),
        sa.CheckConstraint("status IN ('SUCCEEDED', 'FAILED', 'NOT_CONFIGURED')", name="ck_warehouse_runs_status"),
    )
    op.create_index("ix_warehouse_runs_sink_id_id", "warehouse_runs", ["sink_id", "id"])
    op.create_index("ix_warehouse_runs_org_id", "warehouse_runs", ["org_id"])
