"""The tables that complete `issues`: the state of projects, the activity of issues, and their links to other systems.
`IssueRecord` is a row of `issues`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from chassis.erasures.tables import erasures
from chassis.issues import IssueStatus, status_at
from proto.identity import MAX_URL_LENGTH

MAX_LINK_TITLE_LENGTH: Final = 200
MAX_SYSTEM_LENGTH: Final = 32
MAX_EXTERNAL_ID_LENGTH: Final = 200


class ActivityKind(StrEnum):
    """The kind of an event in the history of an issue."""

    CREATED = "created"
    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    IGNORED = "ignored"
    IGNORE_ENDED = "ignore_ended"
    REGRESSED = "regressed"
    ASSIGNED = "assigned"
    UNASSIGNED = "unassigned"
    MERGED = "merged"
    SPLIT_FROM = "split_from"
    COMMIT = "commit"
    PROPOSAL = "proposal"
    LINK_ADDED = "link_added"
    LINK_CHANGED = "link_changed"
    LINK_REMOVED = "link_removed"


class LinkState(StrEnum):
    """The state of the item that a link points to."""

    OPEN = "open"
    CLOSED = "closed"


# Times are storage times, in microseconds since 1970, so that reading the same occurrences again gives the same result.
issue_projects: Final = sa.Table(
    "issue_projects",
    metadata,
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), primary_key=True, autoincrement=False),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("last_number", sa.BigInteger, nullable=False),
    sa.Column("issues", sa.BigInteger, nullable=False),
    sa.Column("new_permits", sa.Float, nullable=False),  # issues that may be created, as of `permits_us`
    sa.Column("notify_permits", sa.Float, nullable=False),  # notifications of new issues that may be sent
    sa.Column("regression_permits", sa.Float, nullable=False),  # the same for regressions
    sa.Column("permits_us", sa.BigInteger, nullable=False),
    sa.Column("untracked_occurrences", sa.BigInteger, nullable=False),  # of errors that got no issue
    sa.Column("untracked_since", UtcTime),
    sa.Column("untracked_last", UtcTime),
    sa.Column("unannounced", sa.BigInteger, nullable=False),  # withheld notifications that were not reported yet
    sa.Column("summary_at", UtcTime),  # when withheld notifications were last reported
)

# Erasures by filter whose items have been removed from titles.
issue_erasures: Final = sa.Table(
    "issue_erasures",
    metadata,
    sa.Column("erasure_id", text(32), sa.ForeignKey(erasures.c.id), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id"),
)

issue_activity: Final = sa.Table(
    "issue_activity",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("issue_id", text(32), sa.ForeignKey("issues.id"), nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("principal_id", text(32)),  # NULL: the system; no foreign key: the account may be anonymized
    sa.Column("data", sa.JSON, nullable=False),
    enum_check("kind", ActivityKind),
    sa.Index(None, "issue_id", "id"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "project_id", "id"),
)

issue_links: Final = sa.Table(
    "issue_links",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("issue_id", text(32), sa.ForeignKey("issues.id"), nullable=False),
    sa.Column("system", text(MAX_SYSTEM_LENGTH), nullable=False),  # `github`, `linear`, `jira`, `other`
    # The id in that system, otherwise a digest of the URL.
    sa.Column("external_id", text(MAX_EXTERNAL_ID_LENGTH), nullable=False),
    sa.Column("url", text(MAX_URL_LENGTH), nullable=False),
    sa.Column("title", text(MAX_LINK_TITLE_LENGTH)),
    sa.Column("state", text(16)),
    sa.Column("changed_at", UtcTime),  # of the item, by its system's clock; an older report changes nothing
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("state", LinkState),
    sa.UniqueConstraint("issue_id", "system", "external_id"),
    sa.Index(None, "org_id", "system", "external_id"),
    sa.Index(None, "project_id", "id"),
)


ISSUE_ID_PATTERN: Final = "iss_[0-9a-z]{26}"
_ISSUE_ID: Final = re.compile(ISSUE_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class IssueRecord:
    """A row of `issues`. `resolved_in_release`: the issue is fixed in this release. `resolved_after_release`: the issue
    is fixed in the release after this one.
    """

    id: str
    org_id: str
    project_id: int
    number: int
    fingerprint: bytes
    type: str | None
    title: str
    culprit: str | None
    status: IssueStatus
    decided_status: str | None
    decided_at: datetime | None
    resolved_at: datetime | None
    resolved_in_release: str | None
    resolved_after_release: str | None
    ignored_until: datetime | None
    ignored_until_count: int | None
    assignee_id: str | None
    regressed_at: datetime | None
    count: int
    first_seen: datetime
    last_seen: datetime
    first_release: str | None
    last_release: str | None
    merged_into: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """The issue in a row with all columns."""
        values = {field.name: row[field.name] for field in fields(cls)}
        return cls(**values | {"fingerprint": bytes(row["fingerprint"]), "status": IssueStatus(row["status"])})

    def status_at(self, now: datetime) -> IssueStatus:
        """The status, as `chassis.issues.status_at` has it."""
        return status_at(self.status, self.ignored_until, now)


def is_issue_id(text: str) -> bool:
    """Whether the text has the form of an issue's id."""
    return _ISSUE_ID.fullmatch(text) is not None
