"""Several fingerprints lead to one issue; issues that an upgrade of the rules of grouping has split.

Control processes of earlier releases that still run leave counting to this release: they know one fingerprint of each
issue, and would create, and announce, an issue for each fingerprint by the new rules. Their follower finds the lease of
its progress taken for ever.
"""

import time

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_KINDS = (
    "'created', 'resolved', 'unresolved', 'ignored', 'ignore_ended', 'regressed', 'assigned', 'unassigned', 'merged', "
    "'split_from', 'commit', 'proposal', 'link_added', 'link_changed', 'link_removed'"
)
_CHECK = "ck_issue_activity_kind"
_ACTIVITY = "id, org_id, project_id, issue_id, at, kind, principal_id, data"
_FOR_EVER = "9999-12-31T00:00:00.000Z"
_PROGRESS = (
    'stored_us, batch_id, "row", "rows", quiet_until_us, version, lease_owner, lease_until, created_at, updated_at'
)
_BLOCK = 'batch_id, day, stored_us, "row"'


def upgrade() -> None:
    _issue_fingerprints()
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_activity()
    else:
        op.drop_constraint(_CHECK, "issue_activity", type_="check")
        op.create_check_constraint(_CHECK, "issue_activity", f"kind IN ({_KINDS})")
    _take_over_counting()


def _issue_fingerprints() -> None:
    op.create_table(
        "issue_fingerprints",
        sa.Column("project_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(16), nullable=False),
        sa.Column("issue_id", text(32), nullable=False),
        sa.Column("rules_version", sa.SmallInteger, nullable=False),
        sa.Column("since_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "fingerprint", name="pk_issue_fingerprints"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issue_fingerprints_project_id"),
        sa.ForeignKeyConstraint(["issue_id"], ["issues.id"], name="fk_issue_fingerprints_issue_id", ondelete="CASCADE"),
    )
    op.execute(
        "INSERT INTO issue_fingerprints (project_id, fingerprint, issue_id, rules_version, since_us) "
        f"SELECT project_id, fingerprint, id, 1, {time.time_ns() // 1_000} FROM issues"
    )
    op.create_index("ix_issue_fingerprints_issue_id", "issue_fingerprints", ["issue_id"])
    op.create_index(
        "ix_issue_fingerprints_project_id_rules_version_since_us",
        "issue_fingerprints",
        ["project_id", "rules_version", "since_us"],
    )


def _rebuild_activity() -> None:
    """SQLite cannot change a constraint."""
    op.execute(f"CREATE TABLE moved_activity AS SELECT {_ACTIVITY} FROM issue_activity")
    op.drop_table("issue_activity")
    op.create_table(
        "issue_activity",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("issue_id", text(32), nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("principal_id", text(32)),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_issue_activity"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issue_activity_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issue_activity_project_id"),
        sa.ForeignKeyConstraint(["issue_id"], ["issues.id"], name="fk_issue_activity_issue_id"),
        sa.CheckConstraint(f"kind IN ({_KINDS})", name=_CHECK),
    )
    op.execute(f"INSERT INTO issue_activity ({_ACTIVITY}) SELECT {_ACTIVITY} FROM moved_activity")
    op.drop_table("moved_activity")
    for column in ("issue_id", "org_id", "project_id"):
        op.create_index(f"ix_issue_activity_{column}_id", "issue_activity", [column, "id"])


def _take_over_counting() -> None:
    """The follower continues under another name, from the same position and with the same blocks."""
    op.execute(
        f"INSERT INTO follower_progress (follower, {_PROGRESS}) "
        f"SELECT 'issues.2', {_PROGRESS} FROM follower_progress WHERE follower = 'issues'"
    )
    op.execute(
        f"INSERT INTO follower_blocks (follower, {_BLOCK}) "
        f"SELECT 'issues.2', {_BLOCK} FROM follower_blocks WHERE follower = 'issues'"
    )
    op.execute("DELETE FROM follower_blocks WHERE follower = 'issues'")
    op.execute("DELETE FROM follower_progress WHERE follower = 'issues'")
    op.execute(
        f"INSERT INTO follower_progress (follower, {_PROGRESS}) VALUES ('issues', 0, 0, 0, 0, 0, 0, "
        f"'a later release', '{_FOR_EVER}', '{_FOR_EVER}', '{_FOR_EVER}')"
    )
