"""Facts from which the state of an issue is computed: reverts by commits and proposals, and decisions of people."""

import re

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_REVERT = re.compile(r"\bThis reverts commit ([0-9a-fA-F]{7,64})\b(,?\s+reversing\s+changes)?")
_MAX_REVERTS = 50  # of a message
_BATCH = 1_000


def upgrade() -> None:
    op.drop_index("ix_commits_reverts", "commits")
    op.add_column("commits", sa.Column("default_branch_head", text(64)))
    op.add_column("commits", sa.Column("released_at", UtcTime))
    op.add_column("commits", sa.Column("proposal_number", text(64)))
    op.execute("UPDATE commits SET released_at = created_at WHERE id IN (SELECT commit_id FROM release_commits)")
    _create_partial_index("default_branch_head", "org_id", "default_branch_head")
    _create_partial_index("proposal_number", "org_id", "repository", "proposal_number")
    op.add_column("proposals", sa.Column("merged_at", UtcTime))
    op.add_column(
        "proposals", sa.Column("targets_default_branch", sa.Boolean, server_default=sa.true(), nullable=False)
    )
    op.execute("UPDATE proposals SET merged_at = changed_at WHERE state = 'merged'")
    op.add_column("issues", sa.Column("decided_status", text(16)))
    op.add_column("issues", sa.Column("decided_at", UtcTime))
    op.create_table(
        "code_reverts",
        sa.Column("source_id", text(32), nullable=False),
        sa.Column("target", text(64), nullable=False),
        sa.Column("reverts_merge", sa.Boolean, nullable=False),
        sa.Column("target_key", text(65), nullable=False),
        sa.Column("repository", text(200), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "target", name="pk_code_reverts"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_code_reverts_org_id"),
    )
    op.create_index("ix_code_reverts_org_id_target_key", "code_reverts", ["org_id", "target_key"])
    _keep_states()
    _read_reverts()
    op.drop_column("commits", "is_revert")


def _create_partial_index(column: str, *columns: str) -> None:
    where = sa.text(f"{column} IS NOT NULL")
    name = "_".join(("ix_commits", *columns))
    op.create_index(name, "commits", list(columns), sqlite_where=where, postgresql_where=where)


def _keep_states() -> None:
    """Issues stay as they are until something new happens to the code: also those into which others were merged. A
    proposal that was edited after its merge seems to be merged then, so the decision is not older than the edit.
    """
    named = "SELECT issue_id FROM commit_issues UNION SELECT issue_id FROM proposal_issues"
    targets = f"SELECT merged_into FROM issues WHERE merged_into IS NOT NULL AND id IN ({named})"
    op.execute(
        "UPDATE issues SET decided_status = status, decided_at = updated_at "
        f"WHERE status <> 'unresolved' OR id IN ({named}) OR id IN ({targets})"
    )
    connection = op.get_bind()
    issues = sa.table("issues", sa.column("id"), sa.column("merged_into"), sa.column("decided_at", UtcTime))
    proposals = sa.table("proposals", sa.column("id"), sa.column("merged_at", UtcTime))
    proposal_issues = sa.table("proposal_issues", sa.column("proposal_id"), sa.column("issue_id"))
    fixed = issues.alias()
    later = (
        sa.select(issues.c.id, sa.func.max(proposals.c.merged_at).label("at"))
        .join_from(proposals, proposal_issues, proposal_issues.c.proposal_id == proposals.c.id)
        .join(fixed, fixed.c.id == proposal_issues.c.issue_id)
        .join(issues, issues.c.id == sa.func.coalesce(fixed.c.merged_into, fixed.c.id))
        .where(proposals.c.merged_at > issues.c.decided_at)
        .group_by(issues.c.id)
    )
    rows = [{"of_issue": row.id, "at": row.at} for row in connection.execute(later)]
    if rows:
        update = issues.update().where(issues.c.id == sa.bindparam("of_issue"))
        connection.execute(update.values(decided_at=sa.bindparam("at", type_=UtcTime)), rows)


def _read_reverts() -> None:
    connection = op.get_bind()
    names = ("id", "org_id", "repository", "message", "is_revert")
    commits = sa.table("commits", *(sa.column(name) for name in names))
    columns = ("source_id", "target", "reverts_merge", "target_key", "repository", "org_id")
    reverts = sa.table("code_reverts", *(sa.column(name) for name in columns))
    after = ""
    while True:
        page = sa.select(commits).where(commits.c.is_revert, commits.c.id > after).order_by(commits.c.id).limit(_BATCH)
        found = connection.execute(page).all()
        if not found:
            return
        after = found[-1].id
        rows = [row for one in found for row in _rows(one)]
        if rows:
            connection.execute(reverts.insert(), rows)


def _rows(commit: sa.Row[tuple[str, ...]]) -> list[dict[str, object]]:
    targets = {one[1].lower(): one[2] is not None for one in list(_REVERT.finditer(commit.message))[:_MAX_REVERTS]}
    return [
        {
            "source_id": commit.id,
            "target": target,
            "reverts_merge": reverts_merge,
            "target_key": target[:7],
            "repository": commit.repository,
            "org_id": commit.org_id,
        }
        for target, reverts_merge in targets.items()
    ]
