"""Query string, request and response bodies of issues."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.http.route import Query, line
from chassis.http.validation import Issues
from chassis.issues import MAX_VERSION_LENGTH, IssueStatus, short_id
from control.http.field_types import Timestamp, parse_time
from control.http.lists import NextCursor
from control.issues.tables import ISSUE_ID_PATTERN, ActivityKind, IssueRecord
from control.routing.arguments import CheckedBody
from control.routing.resource import shown_as
from proto.identity import NAME_PATTERN

MAX_TEXT: Final = 200
MAX_ID: Final = 64
ME: Final = "me"
NOBODY: Final = "none"
MAX_MERGED: Final = 50
MAX_IGNORED_OCCURRENCES: Final = 1_000_000_000
MAX_IGNORED: Final = timedelta(days=3_660)

IssueId = Annotated[str, Meta(pattern=f"^{ISSUE_ID_PATTERN}$")]
Version = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_VERSION_LENGTH,
        pattern=NAME_PATTERN,
        description="Must be the release in which the issue is fixed: at most "
        f"{MAX_VERSION_LENGTH} printable characters, without surrounding spaces. Requires the status `resolved`.",
    ),
]


Fingerprint = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class IssueSort(StrEnum):
    """Sort orders of the list, all descending."""

    LAST_SEEN = "lastSeen"
    FIRST_SEEN = "firstSeen"
    COUNT = "count"

    @property
    def column(self) -> str:
        """The column that is compared."""
        return {IssueSort.LAST_SEEN: "last_seen", IssueSort.FIRST_SEEN: "first_seen", IssueSort.COUNT: "count"}[self]


class IssueQuery(Query, frozen=True, rename="camel"):
    """The filters and the sort order of a list of issues."""

    status: Annotated[IssueStatus | None, Meta(description="Only issues with this status.")] = None
    assignee: Annotated[
        str | None,
        line(MAX_ID),
        Meta(
            description="Only issues assigned to this principal. `me`: issues assigned to the caller. `none`: "
            "issues without an assignee."
        ),
    ] = None
    query: Annotated[
        str | None, line(MAX_TEXT), Meta(description="Only issues whose title or culprit contains this text.")
    ] = None
    release: Annotated[
        str | None,
        line(MAX_VERSION_LENGTH),
        Meta(description="Only issues whose first or last occurrence is of this release."),
    ] = None
    short_id: Annotated[str | None, line(MAX_TEXT), Meta(description="Only the issue with this short id.")] = None
    sort: Annotated[IssueSort, Meta(description="The sort order, descending.")] = IssueSort.LAST_SEEN

    def key(self, issue: "TrackedIssue") -> str:
        """The position of an issue in the list: the value that is compared, and the id."""
        return f"{getattr(issue, self.sort.column)} {issue.id}"

    def position(self, key: str | None) -> tuple[datetime | int, str] | None:
        """The position in a text that `key` returned."""
        if key is None:
            return None
        value, _, issue_id = key.partition(" ")
        return int(value) if self.sort is IssueSort.COUNT else datetime.fromisoformat(value), issue_id


class TrackedIssue(msgspec.Struct, frozen=True, rename="camel"):
    """An error group with its state and history. Counts and times include all occurrences that were stored since the
    issue was created, however old the occurrences are.
    """

    id: IssueId
    short_id: Annotated[str, Meta(description="The name of the issue in commit messages.", examples=["CHECKOUT-12"])]
    project_id: Annotated[str, Meta(pattern="^[0-9]+$")]
    fingerprint: Annotated[Fingerprint, Meta(description="Identifies the error in explore.")]
    fingerprints: Annotated[
        list[Fingerprint],
        Meta(
            description="All fingerprints that lead to the issue, at most 50. A merge, or an upgrade of the grouping "
            "rules, adds fingerprints. Explore lists occurrences by fingerprint."
        ),
    ]
    title: str
    type: Annotated[str | None, Meta(description="`exception.type`.")]
    culprit: Annotated[str | None, Meta(description="The innermost stack frame of the application's own code.")]
    status: IssueStatus
    resolved_at: Timestamp | None
    resolved_in_release: Annotated[
        str | None,
        Meta(
            description="The release in which the issue was fixed. An occurrence in this "
            "release or a later one reopens the issue."
        ),
    ]
    resolved_after_release: Annotated[
        str | None,
        Meta(
            description="The issue is resolved in the release that follows this release. An occurrence in a release "
            "later than this release reopens the issue."
        ),
    ]
    ignored_until: Timestamp | None
    ignored_until_count: Annotated[
        int | None, Meta(description="The issue is unresolved again when `count` reaches this number.")
    ]
    assignee_principal_id: str | None
    regressed_at: Annotated[Timestamp | None, Meta(description="When an occurrence last reopened the issue.")]
    count: int
    first_seen: Timestamp
    last_seen: Timestamp
    first_release: Annotated[str | None, Meta(description="The release of the first occurrence.")]
    last_release: Annotated[str | None, Meta(description="The release of the last occurrence.")]
    merged_into: Annotated[
        IssueId | None,
        Meta(description="The issue into which this issue was merged, and which counts all further occurrences."),
    ]
    created_at: Timestamp
    updated_at: Timestamp


class UntrackedErrors(msgspec.Struct, frozen=True, rename="camel"):
    """Occurrences of errors that got no issue because the project had too many new issues. Explore shows these
    occurrences.
    """

    occurrences: int
    since: Timestamp
    last: Timestamp


class IssuePage(msgspec.Struct, rename="camel"):
    """A page of issues, in the order of `sort`."""

    data: list[TrackedIssue]
    next_cursor: NextCursor
    has_more: bool
    untracked: Annotated[UntrackedErrors | None, Meta(description="`null` if every error has an issue.")]


class IssueChange(CheckedBody, frozen=True):
    """Changes to an issue. Omitted fields are not changed."""

    status: IssueStatus | UnsetType = UNSET
    resolved_in_release: Version | UnsetType = UNSET
    resolved_in_next_release: Annotated[
        bool,
        Meta(
            description="The issue is fixed in the release after the project's latest release. Requires the status "
            "`resolved`."
        ),
    ] = False
    ignored_until: (
        Annotated[
            str,
            Meta(
                description="The time in the future (RFC 3339) at which the issue is unresolved again. Requires "
                "the status `ignored`.",
                max_length=64,
            ),
        ]
        | UnsetType
    ) = UNSET
    ignored_occurrences: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_IGNORED_OCCURRENCES,
                description="The number of further occurrences after which the issue is unresolved again. "
                "Requires the status `ignored`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    assignee_principal_id: (
        Annotated[
            str,
            Meta(
                max_length=64,
                description="The principal id of a member of the organization. `null` removes the assignee.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET

    def check(self, issues: Issues) -> None:
        """Record every field that contradicts another field, and a time that is not within the next ten years."""
        resolved = self.status is IssueStatus.RESOLVED
        if self.resolved_in_release is not UNSET and not resolved:
            issues.add("body.resolvedInRelease", "Requires the status resolved.", "not_allowed")
        if self.resolved_in_next_release and not resolved:
            issues.add("body.resolvedInNextRelease", "Requires the status resolved.", "not_allowed")
        if self.resolved_in_release is not UNSET and self.resolved_in_next_release:
            issues.add("body.resolvedInNextRelease", "Cannot be combined with resolvedInRelease.", "not_allowed")
        ignored = self.status is IssueStatus.IGNORED
        if self.ignored_occurrences is not UNSET and not ignored:
            issues.add("body.ignoredOccurrences", "Requires the status ignored.", "not_allowed")
        if self.ignored_until is not UNSET and not ignored:
            issues.add("body.ignoredUntil", "Requires the status ignored.", "not_allowed")
        until, now = self.parse_ignored_until(issues), datetime.now(UTC)
        if until is not None and not now < until <= now + MAX_IGNORED:
            issues.add("body.ignoredUntil", "Must be a time in the future, at most ten years from now.", "out_of_range")

    def parse_ignored_until(self, issues: Issues) -> datetime | None:
        """Parse `ignoredUntil`. Returns None if it is absent, or if it is not a time, which is recorded as an issue."""
        return None if self.ignored_until is UNSET else parse_time(self.ignored_until, "body.ignoredUntil", issues)


class IssueMerge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The issues to merge into the issue in the path."""

    issue_ids: Annotated[list[IssueId], Meta(min_length=1, max_length=MAX_MERGED)]


class IssueActivity(msgspec.Struct, frozen=True, rename="camel"):
    """An event in the history of an issue. `principalId` is null if the service itself changed the issue."""

    id: str
    at: Timestamp
    kind: ActivityKind
    principal_id: str | None
    data: dict[str, Any]


def issue_body(issue: IssueRecord, project_slug: str, now: datetime, fingerprints: Sequence[bytes]) -> TrackedIssue:
    """The API representation of an issue. `fingerprints`: the fingerprints that lead to the issue."""
    status = issue.status_at(now)
    is_ignored = status is IssueStatus.IGNORED
    return shown_as(
        TrackedIssue,
        issue,
        short_id=short_id(project_slug, issue.number),
        project_id=str(issue.project_id),
        fingerprint=issue.fingerprint.hex(),
        fingerprints=[one.hex() for one in dict.fromkeys((issue.fingerprint, *fingerprints))],
        status=status,
        ignored_until=issue.ignored_until if is_ignored else None,
        ignored_until_count=issue.ignored_until_count if is_ignored else None,
        assignee_principal_id=issue.assignee_id,
    )
