"""Commits that revert another one are found without reading the messages of all."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("commits", sa.Column("is_revert", sa.Boolean, server_default=sa.false(), nullable=False))
    commits = sa.table("commits", sa.column("message"), sa.column("is_revert"))
    reverting = commits.c.message.like("%This reverts commit %")
    op.execute(commits.update().where(reverting).values(is_revert=sa.true()))
    where = sa.text("is_revert")
    columns = ["org_id", "default_branch_at"]
    op.create_index("ix_commits_reverts", "commits", columns, sqlite_where=where, postgresql_where=where)
