"""Request and response bodies of issues."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from chassis.http.validation import Issues
from chassis.issues import MAX_VERSION_LENGTH, IssueStatus, short_id
from control.http.field_types import Timestamp
from control.http.paging import NextCursor
from control.http.time_input import parse_time
from control.issues.store import StoredActivity, Untracked
from control.issues.tables import ISSUE_ID_PATTERN, ActivityKind, IssueRecord
from proto.identity import NAME_PATTERN

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
        description=f"Must be a printable version of at most {MAX_VERSION_LENGTH} characters, without surrounding "
        "spaces. With the status `resolved`: fixed in this release.",
    ),
]


Fingerprint = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class TrackedIssue(msgspec.Struct, frozen=True, rename="camel"):
    """An error group with its state and history. Counts and times are of all occurrences that were stored since it
    exists, however old they are.
    """

    id: IssueId
    short_id: Annotated[str, Meta(description="Names the issue in commit messages.", examples=["CHECKOUT-12"])]
    project_id: Annotated[str, Meta(pattern="^[0-9]+$")]
    fingerprint: Annotated[Fingerprint, Meta(description="Names the error in explore.")]
    fingerprints: Annotated[
        list[Fingerprint],
        Meta(
            description="All that lead to the issue, at most 50: an upgrade of the rules of grouping, or a merge, adds "
            "others. Explore lists occurrences by fingerprint."
        ),
    ]
    title: str
    type: Annotated[str | None, Meta(description="`exception.type`.")]
    culprit: Annotated[str | None, Meta(description="Innermost frame of the application's own code.")]
    status: IssueStatus
    resolved_at: Timestamp | None
    resolved_in_release: Annotated[str | None, Meta(description="An occurrence in it or a later release reopens.")]
    resolved_after_release: Annotated[
        str | None,
        Meta(description="Resolved in the next release: an occurrence in a release later than this reopens."),
    ]
    ignored_until: Timestamp | None
    ignored_until_count: Annotated[int | None, Meta(description="`count` at which it is unresolved again.")]
    assignee_principal_id: str | None
    regressed_at: Annotated[Timestamp | None, Meta(description="When it was last reopened by an occurrence.")]
    count: int
    first_seen: Timestamp
    last_seen: Timestamp
    first_release: Annotated[str | None, Meta(description="Release of the first occurrence.")]
    last_release: Annotated[str | None, Meta(description="Release of the last occurrence.")]
    merged_into: Annotated[IssueId | None, Meta(description="The issue that counts its occurrences since.")]
    created_at: Timestamp
    updated_at: Timestamp


class UntrackedErrors(msgspec.Struct, frozen=True, rename="camel"):
    """Occurrences of errors that got no issue, because the project had too many new ones. Explore shows them."""

    occurrences: int
    since: Timestamp
    last: Timestamp


class IssuePage(msgspec.Struct, rename="camel"):
    """A page of issues, in the order of `sort`."""

    data: list[TrackedIssue]
    next_cursor: NextCursor
    has_more: bool
    untracked: Annotated[UntrackedErrors | None, Meta(description="Null: every error has an issue.")]


class IssueChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to an issue; omitted fields stay as they are."""

    status: IssueStatus | UnsetType = UNSET
    resolved_in_release: Version | UnsetType = UNSET
    resolved_in_next_release: Annotated[
        bool, Meta(description="With `resolved`: fixed in the release after the project's latest.")
    ] = False
    ignored_until: (
        Annotated[str, Meta(description="With `ignored`: an RFC 3339 time in the future.", max_length=64)] | UnsetType
    ) = UNSET
    ignored_occurrences: (
        Annotated[int, Meta(ge=1, le=MAX_IGNORED_OCCURRENCES, description="With `ignored`: until so many more occur.")]
        | UnsetType
    ) = UNSET
    assignee_principal_id: (
        Annotated[str, Meta(max_length=64, description="A member of the organization.")] | UnsetType | None
    ) = UNSET


class IssueMerge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The issues to merge into the one in the path."""

    issue_ids: Annotated[list[IssueId], Meta(min_length=1, max_length=MAX_MERGED)]


class IssueActivity(msgspec.Struct, frozen=True, rename="camel"):
    """What happened to an issue. `principalId` null: the service itself."""

    id: str
    at: Timestamp
    kind: ActivityKind
    principal_id: str | None
    data: dict[str, Any]


class IssueActivityPage(msgspec.Struct, rename="camel"):
    """A page of activity, newest first."""

    data: list[IssueActivity]
    next_cursor: NextCursor
    has_more: bool


def issue_body(
    issue: IssueRecord, project_slug: str, now: datetime, fingerprints: Mapping[str, Sequence[bytes]]
) -> TrackedIssue:
    """The API representation. `fingerprints`: those that lead to issues, by id."""
    status = issue.status_at(now)
    is_ignored = status is IssueStatus.IGNORED
    return TrackedIssue(
        id=issue.id,
        short_id=short_id(project_slug, issue.number),
        project_id=str(issue.project_id),
        fingerprint=issue.fingerprint.hex(),
        fingerprints=[one.hex() for one in dict.fromkeys((issue.fingerprint, *fingerprints.get(issue.id, ())))],
        title=issue.title,
        type=issue.type,
        culprit=issue.culprit,
        status=status,
        resolved_at=_time(issue.resolved_at),
        resolved_in_release=issue.resolved_in_release,
        resolved_after_release=issue.resolved_after_release,
        ignored_until=_time(issue.ignored_until) if is_ignored else None,
        ignored_until_count=issue.ignored_until_count if is_ignored else None,
        assignee_principal_id=issue.assignee_id,
        regressed_at=_time(issue.regressed_at),
        count=issue.count,
        first_seen=format_time(issue.first_seen),
        last_seen=format_time(issue.last_seen),
        first_release=issue.first_release,
        last_release=issue.last_release,
        merged_into=issue.merged_into,
        created_at=format_time(issue.created_at),
        updated_at=format_time(issue.updated_at),
    )


def untracked_body(untracked: Untracked | None) -> UntrackedErrors | None:
    """The API representation."""
    if untracked is None:
        return None
    return UntrackedErrors(untracked.occurrences, format_time(untracked.since), format_time(untracked.last))


def activity_body(activity: StoredActivity) -> IssueActivity:
    """The API representation."""
    return IssueActivity(
        id=activity.id,
        at=format_time(activity.at),
        kind=ActivityKind(activity.kind),
        principal_id=activity.principal_id,
        data=activity.data,
    )


def check_change(body: IssueChange, now: datetime, issues: Issues) -> datetime | None:
    """The time of `ignoredUntil`. Adds an issue for every field that contradicts another one."""
    resolved = body.status is IssueStatus.RESOLVED
    if body.resolved_in_release is not UNSET and not resolved:
        issues.add("body.resolvedInRelease", "Needs the status resolved.", "not_allowed")
    if body.resolved_in_next_release and not resolved:
        issues.add("body.resolvedInNextRelease", "Needs the status resolved.", "not_allowed")
    if body.resolved_in_release is not UNSET and body.resolved_in_next_release:
        issues.add("body.resolvedInNextRelease", "Excludes resolvedInRelease.", "not_allowed")
    ignored = body.status is IssueStatus.IGNORED
    if body.ignored_occurrences is not UNSET and not ignored:
        issues.add("body.ignoredOccurrences", "Needs the status ignored.", "not_allowed")
    if body.ignored_until is UNSET:
        return None
    if not ignored:
        issues.add("body.ignoredUntil", "Needs the status ignored.", "not_allowed")
    until = parse_time(body.ignored_until, "body.ignoredUntil", issues)
    if until is not None and not now < until <= now + MAX_IGNORED:
        issues.add("body.ignoredUntil", "Must be in the future, at most ten years.", "out_of_range")
    return until


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
