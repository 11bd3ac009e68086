"""Erasures with their acknowledgements; deleted organizations and projects, whose audit events lose their content."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# Columns that no statement changes, and what the others become when an event is erased.
_KEPT = ("org_id", "seq", "at", "actor_id", "actor_kind", "on_behalf_of", "act_chain", "token_id", "action")
_HASHES = ("prev_hash", "hash")
_ERASED = (
    "NEW.erased AND NEW.data = '{}' AND NEW.request_id = '(erased)' AND NEW.salt IS NULL"
    " AND NEW.object_id IN (OLD.object_id, '(erased)')"
    " AND EXISTS (SELECT 1 FROM organizations WHERE id = NEW.org_id AND deleted_at IS NOT NULL)"
)


def upgrade() -> None:
    _deleted()
    _erasures()
    _acknowledgements()
    _audit()


def _deleted() -> None:
    op.add_column("organizations", sa.Column("deleted_at", UtcTime))
    op.add_column("organizations", sa.Column("retired_slug", sa.LargeBinary(32)))
    op.create_index("ix_organizations_retired_slug", "organizations", ["retired_slug"], unique=True)
    op.add_column("projects", sa.Column("retention_days", sa.Integer))
    op.add_column("projects", sa.Column("deleted_at", UtcTime))


def _erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", text(32), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("project_slug", text(64)),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("filters", sa.JSON(none_as_null=True)),
        sa.Column("from_ns", sa.BigInteger),
        sa.Column("to_ns", sa.BigInteger),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("requested_by", text(32)),
        sa.Column("requested_at", UtcTime, nullable=False),
        sa.Column("state", text(16), nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("days", sa.JSON(none_as_null=True)),
        sa.Column("message", text(500)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease_owner", text(200)),
        sa.Column("lease_until", UtcTime),
        sa.Column("retry_at", UtcTime),
        sa.Column("purged_at", UtcTime),
        sa.Column("erased_at", UtcTime),
        sa.Column("completed_at", UtcTime),
        sa.Column("expired_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
        sa.UniqueConstraint("number", name="uq_erasures_number"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_erasures_org_id"),
        sa.CheckConstraint("kind IN ('organization', 'project', 'filter')", name="ck_erasures_kind"),
        sa.CheckConstraint("state IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED')", name="ck_erasures_state"),
        sa.CheckConstraint("(kind = 'organization') = (project_id IS NULL)", name="ck_erasures_project"),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="ck_erasures_lease"),
        sa.CheckConstraint("(state = 'COMPLETED') = (completed_at IS NOT NULL)", name="ck_erasures_completed"),
    )
    op.create_index("ix_erasures_org_id_id", "erasures", ["org_id", "id"])
    op.create_index("ix_erasures_state_number", "erasures", ["state", "number"])
    unpurged = sa.text("purged_at IS NULL")
    op.create_index("ix_erasures_unpurged", "erasures", ["number"], sqlite_where=unpurged, postgresql_where=unpurged)


def _acknowledgements() -> None:
    op.create_table(
        "erasure_acknowledgements",
        sa.Column("erasure_id", text(32), nullable=False),
        sa.Column("journal", text(200), nullable=False),
        sa.Column("acknowledged_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", "journal", name="pk_erasure_acknowledgements"),
        sa.ForeignKeyConstraint(["erasure_id"], ["erasures.id"], name="fk_erasure_acknowledgements_erasure_id"),
    )
    op.create_table(
        "erasure_journals",
        sa.Column("journal", text(200), nullable=False),
        sa.Column("registered_at", UtcTime, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("journal", name="pk_erasure_journals"),
    )


def _audit() -> None:
    op.add_column("audit_events", sa.Column("salt", sa.LargeBinary(16)))
    op.add_column("audit_events", sa.Column("erased", sa.Boolean, server_default=sa.false(), nullable=False))
    op.add_column("audit_heads", sa.Column("sealed", sa.Boolean, server_default=sa.false(), nullable=False))
    if op.get_bind().dialect.name == "sqlite":
        _allow_erasing_sqlite()
    else:
        _allow_erasing_postgresql()


def _allow_erasing_sqlite() -> None:
    kept = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in (*_KEPT, *_HASHES))
    op.execute("DROP TRIGGER audit_events_no_update")
    op.execute(
        f"CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events WHEN ({_ERASED} AND {kept}) IS NOT TRUE"
        " BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END"
    )


def _allow_erasing_postgresql() -> None:
    kept = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in (*_KEPT, *_HASHES))
    op.execute(
        "CREATE OR REPLACE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF TG_OP = 'UPDATE' THEN IF {_ERASED} AND {kept} THEN RETURN NEW; END IF; END IF;"
        " RAISE EXCEPTION 'audit events are only added'; END $$"
    )
