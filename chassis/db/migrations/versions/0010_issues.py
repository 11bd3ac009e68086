"""Issues with their activity and links; releases, commits and proposals; change events; followers of the telemetry."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _issues()
    _issue_projects()
    _issue_erasures()
    _issue_activity()
    _issue_links()
    _releases()
    _release_projects()
    _commits()
    _release_commits()
    _commit_issues()
    _proposals()
    _proposal_issues()
    _change_events()
    _channel_subscriptions()
    _follower_progress()
    _follower_blocks()


def _issues() -> None:
    op.create_table(
        "issues",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(16), nullable=False),
        sa.Column("type", text(200)),
        sa.Column("title", text(300), nullable=False),
        sa.Column("culprit", text(300)),
        sa.Column("search_text", text(1_200), nullable=False),
        sa.Column("status", text(16), nullable=False),
        sa.Column("resolved_at", UtcTime),
        sa.Column("resolved_in_release", text(200)),
        sa.Column("resolved_after_release", text(200)),
        sa.Column("ignored_until", UtcTime),
        sa.Column("ignored_until_count", sa.BigInteger),
        sa.Column("assignee_id", text(32)),
        sa.Column("regressed_at", UtcTime),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_seen", UtcTime, nullable=False),
        sa.Column("last_seen", UtcTime, nullable=False),
        sa.Column("first_release", text(200)),
        sa.Column("last_release", text(200)),
        sa.Column("merged_into", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_issues"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issues_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issues_project_id"),
        sa.ForeignKeyConstraint(["assignee_id"], ["principals.id"], name="fk_issues_assignee_id"),
        sa.UniqueConstraint("project_id", "fingerprint", name="uq_issues_project_id_fingerprint"),
        sa.UniqueConstraint("project_id", "number", name="uq_issues_project_id_number"),
        sa.CheckConstraint("status IN ('unresolved', 'resolved', 'ignored')", name="ck_issues_status"),
        sa.CheckConstraint("status <> 'resolved' OR resolved_at IS NOT NULL", name="ck_issues_resolved"),
    )
    _partial_index("ix_issues_assignee_id", "issues", ["assignee_id"], "assignee_id IS NOT NULL")
    _partial_index("ix_issues_ignored_until", "issues", ["ignored_until"], "ignored_until IS NOT NULL")
    _partial_index("ix_issues_merged_into", "issues", ["merged_into"], "merged_into IS NOT NULL")
    _partial_index("ix_issues_updated_at", "issues", ["updated_at"], "merged_into IS NULL")
    op.create_index("ix_issues_org_id_id", "issues", ["org_id", "id"])
    op.create_index("ix_issues_project_id_count_id", "issues", ["project_id", "count", "id"])
    op.create_index("ix_issues_project_id_first_seen_id", "issues", ["project_id", "first_seen", "id"])
    op.create_index("ix_issues_project_id_last_seen_id", "issues", ["project_id", "last_seen", "id"])
    op.create_index("ix_issues_project_id_status_last_seen_id", "issues", ["project_id", "status", "last_seen", "id"])
    _partial_index("ix_issues_resolved_after_release", "issues", ["project_id"], "resolved_after_release IS NOT NULL")


def _issue_projects() -> None:
    op.create_table(
        "issue_projects",
        sa.Column("project_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("last_number", sa.BigInteger, nullable=False),
        sa.Column("issues", sa.BigInteger, nullable=False),
        sa.Column("new_permits", sa.Float, nullable=False),
        sa.Column("notify_permits", sa.Float, nullable=False),
        sa.Column("regression_permits", sa.Float, nullable=False),
        sa.Column("permits_us", sa.BigInteger, nullable=False),
        sa.Column("untracked_occurrences", sa.BigInteger, nullable=False),
        sa.Column("untracked_since", UtcTime),
        sa.Column("untracked_last", UtcTime),
        sa.Column("unannounced", sa.BigInteger, nullable=False),
        sa.Column("summary_at", UtcTime),
        sa.PrimaryKeyConstraint("project_id", name="pk_issue_projects"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issue_projects_project_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issue_projects_org_id"),
    )


def _issue_erasures() -> None:
    op.create_table(
        "issue_erasures",
        sa.Column("erasure_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", name="pk_issue_erasures"),
        sa.ForeignKeyConstraint(["erasure_id"], ["erasures.id"], name="fk_issue_erasures_erasure_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issue_erasures_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issue_erasures_project_id"),
    )
    op.create_index("ix_issue_erasures_org_id", "issue_erasures", ["org_id"])
    op.create_index("ix_issue_erasures_project_id", "issue_erasures", ["project_id"])


def _issue_activity() -> None:
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
        sa.CheckConstraint(
            "kind IN ('created', 'resolved', 'unresolved', 'ignored', 'ignore_ended', 'regressed', 'assigned', "
            "'unassigned', 'merged', 'commit', 'proposal', 'link_added', 'link_changed', 'link_removed')",
            name="ck_issue_activity_kind",
        ),
    )
    op.create_index("ix_issue_activity_issue_id_id", "issue_activity", ["issue_id", "id"])
    op.create_index("ix_issue_activity_org_id_id", "issue_activity", ["org_id", "id"])
    op.create_index("ix_issue_activity_project_id_id", "issue_activity", ["project_id", "id"])


def _issue_links() -> None:
    op.create_table(
        "issue_links",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("issue_id", text(32), nullable=False),
        sa.Column("system", text(32), nullable=False),
        sa.Column("external_id", text(200), nullable=False),
        sa.Column("url", text(2_048), nullable=False),
        sa.Column("title", text(200)),
        sa.Column("state", text(16)),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_issue_links"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_issue_links_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_issue_links_project_id"),
        sa.ForeignKeyConstraint(["issue_id"], ["issues.id"], name="fk_issue_links_issue_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_issue_links_created_by"),
        sa.UniqueConstraint("issue_id", "system", "external_id", name="uq_issue_links_issue_id_system_external_id"),
        sa.CheckConstraint("state IN ('open', 'closed')", name="ck_issue_links_state"),
    )
    op.create_index("ix_issue_links_org_id_system_external_id", "issue_links", ["org_id", "system", "external_id"])
    op.create_index("ix_issue_links_project_id_id", "issue_links", ["project_id", "id"])


def _releases() -> None:
    op.create_table(
        "releases",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("version", text(200), nullable=False),
        sa.Column("ref", text(255)),
        sa.Column("url", text(2_048)),
        sa.Column("released_at", UtcTime),
        sa.Column("reported_at", UtcTime),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_releases_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_releases_created_by"),
        sa.UniqueConstraint("org_id", "version", name="uq_releases_org_id_version"),
    )
    op.create_index("ix_releases_org_id_id", "releases", ["org_id", "id"])


def _release_projects() -> None:
    op.create_table(
        "release_projects",
        sa.Column("project_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("release_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("ordered_at", UtcTime, nullable=False),
        sa.Column("first_seen", UtcTime),
        sa.PrimaryKeyConstraint("project_id", "release_id", name="pk_release_projects"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_release_projects_project_id"),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name="fk_release_projects_release_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_release_projects_org_id"),
    )
    op.create_index("ix_release_projects_org_id", "release_projects", ["org_id"])
    op.create_index("ix_release_projects_project_id_ordered_at", "release_projects", ["project_id", "ordered_at"])
    op.create_index("ix_release_projects_release_id", "release_projects", ["release_id"])


def _commits() -> None:
    op.create_table(
        "commits",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("repository", text(200), nullable=False),
        sa.Column("sha", text(64), nullable=False),
        sa.Column("message", text(8_192), nullable=False),
        sa.Column("author_name", text(200)),
        sa.Column("author_email", text(254)),
        sa.Column("authored_at", UtcTime),
        sa.Column("url", text(2_048)),
        sa.Column("files", sa.JSON(none_as_null=True)),
        sa.Column("files_truncated", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commits"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_commits_org_id"),
        sa.UniqueConstraint("org_id", "repository", "sha", name="uq_commits_org_id_repository_sha"),
    )
    op.create_index("ix_commits_org_id_id", "commits", ["org_id", "id"])
    op.create_index("ix_commits_org_id_sha", "commits", ["org_id", "sha"])
    op.create_index("ix_commits_org_id_repository_authored_at", "commits", ["org_id", "repository", "authored_at"])


def _release_commits() -> None:
    op.create_table(
        "release_commits",
        sa.Column("release_id", text(32), nullable=False),
        sa.Column("commit_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("release_id", "commit_id", name="pk_release_commits"),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name="fk_release_commits_release_id"),
        sa.ForeignKeyConstraint(["commit_id"], ["commits.id"], name="fk_release_commits_commit_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_release_commits_org_id"),
    )
    op.create_index("ix_release_commits_commit_id", "release_commits", ["commit_id"])
    op.create_index("ix_release_commits_org_id", "release_commits", ["org_id"])


def _commit_issues() -> None:
    op.create_table(
        "commit_issues",
        sa.Column("commit_id", text(32), nullable=False),
        sa.Column("issue_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("commit_id", "issue_id", name="pk_commit_issues"),
        sa.ForeignKeyConstraint(["commit_id"], ["commits.id"], name="fk_commit_issues_commit_id"),
        sa.ForeignKeyConstraint(["issue_id"], ["issues.id"], name="fk_commit_issues_issue_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_commit_issues_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_commit_issues_project_id"),
    )
    op.create_index("ix_commit_issues_issue_id", "commit_issues", ["issue_id"])
    op.create_index("ix_commit_issues_org_id", "commit_issues", ["org_id"])
    op.create_index("ix_commit_issues_project_id", "commit_issues", ["project_id"])


def _proposals() -> None:
    op.create_table(
        "proposals",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("repository", text(200), nullable=False),
        sa.Column("number", text(64), nullable=False),
        sa.Column("title", text(300), nullable=False),
        sa.Column("state", text(16), nullable=False),
        sa.Column("head_ref", text(255)),
        sa.Column("head_sha", text(64)),
        sa.Column("merge_sha", text(64)),
        sa.Column("author_name", text(200)),
        sa.Column("url", text(2_048)),
        sa.Column("changed_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proposals"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proposals_org_id"),
        sa.UniqueConstraint("org_id", "repository", "number", name="uq_proposals_org_id_repository_number"),
        sa.CheckConstraint("state IN ('open', 'merged', 'closed', 'superseded')", name="ck_proposals_state"),
    )
    op.create_index("ix_proposals_org_id_id", "proposals", ["org_id", "id"])
    op.create_index("ix_proposals_org_id_merge_sha", "proposals", ["org_id", "merge_sha"])


def _proposal_issues() -> None:
    op.create_table(
        "proposal_issues",
        sa.Column("proposal_id", text(32), nullable=False),
        sa.Column("issue_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("proposal_id", "issue_id", name="pk_proposal_issues"),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposals.id"], name="fk_proposal_issues_proposal_id"),
        sa.ForeignKeyConstraint(["issue_id"], ["issues.id"], name="fk_proposal_issues_issue_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proposal_issues_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_proposal_issues_project_id"),
    )
    op.create_index("ix_proposal_issues_issue_id", "proposal_issues", ["issue_id"])
    op.create_index("ix_proposal_issues_org_id", "proposal_issues", ["org_id"])
    op.create_index("ix_proposal_issues_project_id", "proposal_issues", ["project_id"])


def _change_events() -> None:
    op.create_table(
        "change_events",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("title", text(200), nullable=False),
        sa.Column("detail", text(2_000)),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("environment", text(200)),
        sa.Column("release", text(200)),
        sa.Column("service", text(200)),
        sa.Column("url", text(2_048)),
        sa.Column("source", text(64), nullable=False),
        sa.Column("dedupe_key", text(200)),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_change_events"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_change_events_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_change_events_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_change_events_created_by"),
        sa.UniqueConstraint("org_id", "dedupe_key", name="uq_change_events_org_id_dedupe_key"),
        sa.CheckConstraint("kind IN ('deployment', 'release', 'flag', 'generic')", name="ck_change_events_kind"),
    )
    op.create_index("ix_change_events_org_id_at_id", "change_events", ["org_id", "at", "id"])
    op.create_index("ix_change_events_project_id_at_id", "change_events", ["project_id", "at", "id"])


def _channel_subscriptions() -> None:
    op.create_table(
        "channel_subscriptions",
        sa.Column("channel_id", text(32), nullable=False),
        sa.Column("event", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.PrimaryKeyConstraint("channel_id", "event", name="pk_channel_subscriptions"),
        sa.ForeignKeyConstraint(
            ["channel_id"], ["notification_channels.id"], name="fk_channel_subscriptions_channel_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_channel_subscriptions_org_id"),
        sa.CheckConstraint("event IN ('issue.new', 'issue.regression')", name="ck_channel_subscriptions_event"),
    )
    op.create_index("ix_channel_subscriptions_org_id_event", "channel_subscriptions", ["org_id", "event"])


def _follower_progress() -> None:
    op.create_table(
        "follower_progress",
        sa.Column("follower", text(64), nullable=False),
        sa.Column("stored_us", sa.BigInteger, nullable=False),
        sa.Column("batch_id", sa.BigInteger, nullable=False),
        sa.Column("row", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("quiet_until_us", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", text(200), nullable=False),
        sa.Column("lease_until", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("follower", name="pk_follower_progress"),
    )


def _follower_blocks() -> None:
    op.create_table(
        "follower_blocks",
        sa.Column("follower", text(64), nullable=False),
        sa.Column("batch_id", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("stored_us", sa.BigInteger, nullable=False),
        sa.Column("row", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("follower", "batch_id", "day", name="pk_follower_blocks"),
        sa.ForeignKeyConstraint(["follower"], ["follower_progress.follower"], name="fk_follower_blocks_follower"),
    )


def _partial_index(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
