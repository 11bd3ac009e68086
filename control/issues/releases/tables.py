"""The tables of releases, commits and proposals.

A release belongs to the organization, and to the projects in which it was reported or seen in telemetry. A repository
is a name, such as `shop/checkout`. Commits are unique in a repository by their hash, proposals by their number.
"""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from chassis.issues import MAX_VERSION_LENGTH
from proto.identity import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH, MAX_URL_LENGTH

MAX_REPOSITORY_LENGTH: Final = 200
MAX_SHA_LENGTH: Final = 64
MAX_REF_LENGTH: Final = 255
MAX_MESSAGE_LENGTH: Final = 8_192
MAX_TITLE_LENGTH: Final = 300
MAX_PROPOSAL_NUMBER_LENGTH: Final = 64


class ProposalState(StrEnum):
    """The state of a proposal. SUPERSEDED: another proposal for the same issue was merged."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    SUPERSEDED = "superseded"


_HAS_HEAD: Final = sa.text("default_branch_head IS NOT NULL")
_HAS_NUMBER: Final = sa.text("proposal_number IS NOT NULL")

releases: Final = sa.Table(
    "releases",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("version", text(MAX_VERSION_LENGTH), nullable=False),
    sa.Column("ref", text(MAX_REF_LENGTH)),  # the commit, tag or branch of the build
    sa.Column("url", text(MAX_URL_LENGTH)),
    sa.Column("released_at", UtcTime),  # as reported
    sa.Column("reported_at", UtcTime),  # NULL: only seen in telemetry
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.UniqueConstraint("org_id", "version"),
    sa.Index(None, "org_id", "id"),
)

release_projects: Final = sa.Table(
    "release_projects",
    metadata,
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), primary_key=True, autoincrement=False),
    sa.Column("release_id", text(32), sa.ForeignKey("releases.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    # Orders releases whose versions do not: the time of release, otherwise the earliest time in telemetry or of the
    # report.
    sa.Column("ordered_at", UtcTime, nullable=False),
    sa.Column("first_seen", UtcTime),  # the earliest occurrence of an error; NULL: none so far
    sa.Index(None, "release_id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id", "ordered_at"),
)

commits: Final = sa.Table(
    "commits",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("repository", text(MAX_REPOSITORY_LENGTH), nullable=False),
    sa.Column("sha", text(MAX_SHA_LENGTH), nullable=False),
    sa.Column("message", text(MAX_MESSAGE_LENGTH), nullable=False),
    sa.Column("author_name", text(MAX_NAME_LENGTH)),
    sa.Column("author_email", text(MAX_EMAIL_LENGTH)),
    sa.Column("authored_at", UtcTime),
    sa.Column("url", text(MAX_URL_LENGTH)),
    sa.Column("files", sa.JSON(none_as_null=True)),  # paths from the root of the repository; NULL: not reported
    sa.Column("files_truncated", sa.Boolean, nullable=False),
    # When the commit was pushed to the default branch, by the platform's clock. NULL: not known to be on the default
    # branch.
    sa.Column("default_branch_at", UtcTime),
    sa.Column("default_branch_head", text(MAX_SHA_LENGTH)),  # the last commit of that push
    sa.Column("released_at", UtcTime),  # when a release was first reported with it
    sa.Column("proposal_number", text(MAX_PROPOSAL_NUMBER_LENGTH)),  # named in its message, or in the head's message
    sa.Column("created_at", UtcTime, nullable=False),
    sa.UniqueConstraint("org_id", "repository", "sha"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "sha"),
    sa.Index(None, "org_id", "default_branch_at"),
    sa.Index(None, "org_id", "repository", "authored_at"),
    sa.Index(None, "org_id", "default_branch_head", sqlite_where=_HAS_HEAD, postgresql_where=_HAS_HEAD),
    sa.Index(None, "org_id", "repository", "proposal_number", sqlite_where=_HAS_NUMBER, postgresql_where=_HAS_NUMBER),
)

release_commits: Final = sa.Table(
    "release_commits",
    metadata,
    sa.Column("release_id", text(32), sa.ForeignKey("releases.id"), primary_key=True),
    sa.Column("commit_id", text(32), sa.ForeignKey("commits.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),  # in the report, newest first
    sa.Index(None, "commit_id"),
    sa.Index(None, "org_id"),
)

# The issues that a commit's message names as fixed.
commit_issues: Final = sa.Table(
    "commit_issues",
    metadata,
    sa.Column("commit_id", text(32), sa.ForeignKey("commits.id"), primary_key=True),
    sa.Column("issue_id", text(32), sa.ForeignKey("issues.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Index(None, "issue_id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id"),
)

proposals: Final = sa.Table(
    "proposals",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("repository", text(MAX_REPOSITORY_LENGTH), nullable=False),
    sa.Column("number", text(MAX_PROPOSAL_NUMBER_LENGTH), nullable=False),
    sa.Column("title", text(MAX_TITLE_LENGTH), nullable=False),
    sa.Column("state", text(16), nullable=False),
    sa.Column("head_ref", text(MAX_REF_LENGTH)),
    sa.Column("head_sha", text(MAX_SHA_LENGTH)),
    sa.Column("merge_sha", text(MAX_SHA_LENGTH)),
    sa.Column("author_name", text(MAX_NAME_LENGTH)),
    sa.Column("url", text(MAX_URL_LENGTH)),
    sa.Column("changed_at", UtcTime, nullable=False),  # by the platform's clock: an older report changes nothing
    sa.Column("merged_at", UtcTime),  # by the same clock
    sa.Column("targets_default_branch", sa.Boolean, server_default=sa.true(), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("state", ProposalState),
    sa.UniqueConstraint("org_id", "repository", "number"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "merge_sha"),
)

proposal_issues: Final = sa.Table(
    "proposal_issues",
    metadata,
    sa.Column("proposal_id", text(32), sa.ForeignKey("proposals.id"), primary_key=True),
    sa.Column("issue_id", text(32), sa.ForeignKey("issues.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Index(None, "issue_id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id"),
)

# The commits and proposals that other commits and proposals of the same repository say they revert.
code_reverts: Final = sa.Table(
    "code_reverts",
    metadata,
    sa.Column("source_id", text(32), primary_key=True),  # id of the reverting commit or proposal
    sa.Column("target", text(MAX_SHA_LENGTH), primary_key=True),  # the beginning of a hash, or `#` and a number
    sa.Column("reverts_merge", sa.Boolean, nullable=False),  # whether it reverts a merge, with all merged commits
    # The first 7 digits of the hash, or the number.
    sa.Column("target_key", text(MAX_PROPOSAL_NUMBER_LENGTH + 1), nullable=False),
    sa.Column("repository", text(MAX_REPOSITORY_LENGTH), nullable=False),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Index(None, "org_id", "target_key"),
)
