"""The tables of issues, which several services read: control writes issues, and explore shows which issue an error
belongs to.

Times of occurrences are the times of the senders. An issue that was merged keeps its row. The row names the issue that
has counted its occurrences since the merge. When the grouping rules change, an error gets a new fingerprint, and the
old and the new fingerprint lead to the same issue (docs/adr/041-upgrade-of-grouping.md).
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata, projects
from chassis.db.database import UtcTime, enum_check, text

FINGERPRINT_BYTES: Final = 16
MAX_TITLE_LENGTH: Final = 300
MAX_TYPE_LENGTH: Final = 200
MAX_CULPRIT_LENGTH: Final = 300
MAX_SEARCH_LENGTH: Final = 2 * (MAX_TITLE_LENGTH + MAX_CULPRIT_LENGTH)  # case folding may turn one letter into two
MAX_VERSION_LENGTH: Final = 200  # of a release

_IGNORED_UNTIL: Final = sa.text("ignored_until IS NOT NULL")
_AFTER_RELEASE: Final = sa.text("resolved_after_release IS NOT NULL")
_ASSIGNED: Final = sa.text("assignee_id IS NOT NULL")
_MERGED: Final = sa.text("merged_into IS NOT NULL")
_UNNUMBERED: Final = sa.text("change_number IS NULL")
_COUNTING: Final = sa.text("merged_into IS NULL")


class IssueStatus(StrEnum):
    """State of an issue."""

    UNRESOLVED = "unresolved"
    RESOLVED = "resolved"
    IGNORED = "ignored"


issues: Final = sa.Table(
    "issues",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),  # within the project, in order of creation
    # A fingerprint that leads to the issue: the first fingerprint by the current rules. While there is none, the
    # fingerprint that the issue was created for.
    sa.Column("fingerprint", sa.LargeBinary(FINGERPRINT_BYTES), nullable=False),
    sa.Column("type", text(MAX_TYPE_LENGTH)),
    sa.Column("title", text(MAX_TITLE_LENGTH), nullable=False),
    sa.Column("culprit", text(MAX_CULPRIT_LENGTH)),
    sa.Column("search_text", text(MAX_SEARCH_LENGTH), nullable=False),  # title and culprit, case-folded
    sa.Column("status", text(16), nullable=False),
    # The last status that was not set because of a code change, and its time (`control.code.fixes.rules`). NULL: every
    # status was set because of a code change.
    sa.Column("decided_status", text(16)),
    sa.Column("decided_at", UtcTime),
    sa.Column("resolved_at", UtcTime),
    # The release with the fix. Occurrences in this release or a later one reopen the issue.
    sa.Column("resolved_in_release", text(MAX_VERSION_LENGTH)),
    # The release before the fix. Occurrences in later releases reopen the issue.
    sa.Column("resolved_after_release", text(MAX_VERSION_LENGTH)),
    sa.Column("ignored_until", UtcTime),
    sa.Column("ignored_until_count", sa.BigInteger),  # the `count` at which the issue is reopened
    sa.Column("assignee_id", text(32), sa.ForeignKey("principals.id")),
    sa.Column("regressed_at", UtcTime),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("first_seen", UtcTime, nullable=False),
    sa.Column("last_seen", UtcTime, nullable=False),
    sa.Column("first_release", text(MAX_VERSION_LENGTH)),  # of the first occurrence
    sa.Column("last_release", text(MAX_VERSION_LENGTH)),
    sa.Column("merged_into", text(32)),  # id of an issue; no foreign key, so that rows can be deleted in any order
    # Every change sets this to NULL. Sinks then number the changes, to export them in order
    # (`control.export.streams.rollups`).
    sa.Column("change_number", sa.BigInteger, onupdate=sa.null()),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("status", IssueStatus),
    sa.CheckConstraint("status <> 'resolved' OR resolved_at IS NOT NULL", name="resolved"),
    sa.UniqueConstraint("project_id", "fingerprint"),
    sa.UniqueConstraint("project_id", "number"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "change_number"),
    sa.Index("ix_issues_unnumbered", "org_id", sqlite_where=_UNNUMBERED, postgresql_where=_UNNUMBERED),
    sa.Index(None, "project_id", "last_seen", "id"),
    sa.Index(None, "project_id", "first_seen", "id"),
    sa.Index(None, "project_id", "count", "id"),
    sa.Index(None, "project_id", "status", "last_seen", "id"),
    sa.Index(None, "assignee_id", sqlite_where=_ASSIGNED, postgresql_where=_ASSIGNED),
    sa.Index(None, "merged_into", sqlite_where=_MERGED, postgresql_where=_MERGED),
    sa.Index(None, "updated_at", sqlite_where=_COUNTING, postgresql_where=_COUNTING),
    sa.Index(None, "ignored_until", sqlite_where=_IGNORED_UNTIL, postgresql_where=_IGNORED_UNTIL),
    sa.Index(
        "ix_issues_resolved_after_release",
        "project_id",
        sqlite_where=_AFTER_RELEASE,
        postgresql_where=_AFTER_RELEASE,
    ),
)

issue_fingerprints: Final = sa.Table(
    "issue_fingerprints",
    metadata,
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), primary_key=True, autoincrement=False),
    sa.Column("fingerprint", sa.LargeBinary(FINGERPRINT_BYTES), primary_key=True),
    # A merge does not change this. The issue may have been merged into the issue that counts the occurrences.
    sa.Column("issue_id", text(32), sa.ForeignKey("issues.id", ondelete="CASCADE"), nullable=False),
    # The fingerprint version under which the issue was last decided. If it is below the current version, the error has
    # not occurred since the upgrade, and its fingerprint of the current version is unknown.
    sa.Column("rules_version", sa.SmallInteger, nullable=False),
    # The storage time, in microseconds, of the occurrence that made the fingerprint known, or the time of the migration
    # for fingerprints from before an upgrade. Regrouping ignores the fingerprint some time later
    # (`control.issues.counting.regrouping`).
    sa.Column("since_us", sa.BigInteger, nullable=False),
    sa.Index(None, "issue_id"),
    sa.Index(None, "project_id", "rules_version", "since_us"),
)


class IssueState(NamedTuple):
    """The issue that counts the occurrences of a fingerprint, and its status."""

    id: str
    short_id: str
    status: IssueStatus


async def read_states(
    connection: AsyncConnection, project_id: int, fingerprints: Sequence[bytes], now: datetime
) -> dict[bytes, IssueState]:
    """The issues by fingerprint. Fingerprints without an issue are omitted."""
    target, columns = issues.alias(), issue_fingerprints.c
    statement = (
        sa.select(
            columns.fingerprint,
            target.c.id,
            target.c.number,
            target.c.status,
            target.c.ignored_until,
            projects.c.slug,
        )
        .join_from(issue_fingerprints, issues, issues.c.id == columns.issue_id)
        .join(target, target.c.id == sa.func.coalesce(issues.c.merged_into, issues.c.id))
        .join(projects, projects.c.id == columns.project_id)
        .where(columns.project_id == project_id, columns.fingerprint.in_(fingerprints))
    )
    return {bytes(row.fingerprint): _state(row, now) for row in await connection.execute(statement)}


def short_id(project_slug: str, number: int) -> str:
    """The short id of an issue, such as `CHECKOUT-12`, which people and commit messages use."""
    return f"{project_slug.upper()}-{number}"


def status_at(status: str, ignored_until: datetime | None, now: datetime) -> IssueStatus:
    """The status at `now`. An issue that is ignored until a time is unresolved from that time on, even before the new
    status is recorded.
    """
    if status == IssueStatus.IGNORED and ignored_until is not None and ignored_until <= now:
        return IssueStatus.UNRESOLVED
    return IssueStatus(status)


def _state(row: Any, now: datetime) -> IssueState:
    return IssueState(row.id, short_id(row.slug, row.number), status_at(row.status, row.ignored_until, now))
