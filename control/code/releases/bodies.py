"""Request and response bodies of releases and commits."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.changes import MAX_NAME_LENGTH as MAX_ENVIRONMENT_LENGTH
from chassis.http.validation import Issues
from chassis.issues import MAX_VERSION_LENGTH
from control.code.commits import MAX_FILES, NewCommit
from control.http.field_types import Slug, TimeInput, Timestamp, Url, check_url, line, lines, parse_time
from control.issues.releases.tables import MAX_REF_LENGTH, MAX_REPOSITORY_LENGTH, MAX_SHA_LENGTH
from proto.identity import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH, NAME_PATTERN, UNPRINTABLE

MAX_PROJECTS: Final = 20
MAX_REPORTED_COMMITS: Final = 500
MAX_REPORTED_MESSAGE: Final = 65_536  # of which the beginning is stored
MAX_PATH_LENGTH: Final = 1_024

RELEASE_ID_PATTERN: Final = "^rel_[0-9a-z]{26}$"
TIME_OF_RELEASE: Final = "Must be an RFC 3339 time, 1970 or later, at most one day ahead."
Version = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_VERSION_LENGTH,
        pattern=NAME_PATTERN,
        description=(
            f"Must be a printable version of at most {MAX_VERSION_LENGTH} characters, without surrounding spaces."
        ),
    ),
]
Repository = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_REPOSITORY_LENGTH,
        pattern=rf"^[^\s{UNPRINTABLE}]+(?!\n)$",
        description="Must be the name of a repository, printable and without spaces, such as `shop/checkout`.",
    ),
]
Sha = Annotated[
    str,
    Meta(
        min_length=7,
        max_length=MAX_SHA_LENGTH,
        pattern=r"^[0-9a-fA-F]+(?!\n)$",
        description="Must be the complete hash of a commit, in hexadecimal digits.",
    ),
]
Ref = Annotated[str, line(MAX_REF_LENGTH)]
_FilePath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_PATH_LENGTH,
        pattern=rf"^[^{UNPRINTABLE}]+(?!\n)$",
        description="Must be a path of printable characters, from the root of the repository.",
    ),
]
_FilesTruncated = Annotated[bool, Meta(description="The commit changed more files than are listed.")]


class ReportedCommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A commit. The first 8 192 characters of its message are stored."""

    sha: Sha
    message: Annotated[str, lines(MAX_REPORTED_MESSAGE)]
    author_name: Annotated[str, line(MAX_NAME_LENGTH)] | None = None
    author_email: Annotated[str, line(MAX_EMAIL_LENGTH)] | None = None
    authored_at: TimeInput | None = None
    files: Annotated[
        Annotated[list[_FilePath], Meta(max_length=MAX_FILES)] | None,
        Meta(description="Paths of the changed files. A renamed file has its old and its new path. `null`: not known."),
    ] = None
    files_truncated: _FilesTruncated = False
    url: Url | None = None
    repository: Annotated[
        Repository | None,
        Meta(
            description="Must be the name of a repository, printable and without spaces. The default is the "
            "repository of the report."
        ),
    ] = None


class NewReleaseReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A report of a release. Fields that are left out keep the values of earlier reports."""

    version: Version
    projects: Annotated[list[Slug], Meta(min_length=1, max_length=MAX_PROJECTS)]
    repository: Repository | None = None
    ref: Annotated[
        Ref | None,
        Meta(
            description="Must consist of printable characters. It names the commit, tag or branch from which the "
            "release was built."
        ),
    ] = None
    url: Url | None = None
    released_at: Annotated[
        TimeInput | None, Meta(description=f"{TIME_OF_RELEASE} The default is the time of the first report.")
    ] = None
    environment: Annotated[
        Annotated[str, line(MAX_ENVIRONMENT_LENGTH)] | None,
        Meta(
            description="Must consist of printable characters. It names the environment to which the release was "
            "deployed. The change event of the release has this environment."
        ),
    ] = None
    commits: Annotated[
        list[ReportedCommit],
        Meta(
            max_length=MAX_REPORTED_COMMITS,
            description=f"Commits, newest first. Report more than {MAX_REPORTED_COMMITS} commits in several requests.",
        ),
    ] = []


class ReleaseInProject(msgspec.Struct, frozen=True, rename="camel"):
    """A release in one project. `firstSeen`: the time of the first occurrence of an error in the release."""

    slug: Slug
    first_seen: Timestamp | None


class Release(msgspec.Struct, frozen=True, rename="camel"):
    """A release. `reportedAt` is null if only telemetry has named the release."""

    id: Annotated[str, Meta(pattern=RELEASE_ID_PATTERN)]
    version: Version
    ref: str | None
    url: str | None
    released_at: Timestamp | None
    reported_at: Timestamp | None
    created_at: Timestamp
    projects: list[ReleaseInProject]
    commits: Annotated[int, Meta(ge=0, description="Number of commits in the release.")]


class ReleaseReportResult(Release, frozen=True, rename="camel"):
    """A release, and the effects of the report."""

    commits_upserted: Annotated[
        int,
        Meta(ge=0, description="Number of commits that Sluice did not know before, or whose files it did not know."),
    ]
    issues_resolved: Annotated[list[str], Meta(description="Short ids of issues that the commits name as fixed.")]
    issues_reopened: Annotated[list[str], Meta(description="Short ids of issues whose fix a commit reverts.")]


class Commit(msgspec.Struct, frozen=True, rename="camel"):
    """A commit. `files` is null if they were not reported."""

    repository: str
    sha: str
    message: str
    author_name: str | None
    author_email: str | None
    authored_at: Timestamp | None
    url: str | None
    files: list[str] | None
    files_truncated: _FilesTruncated


def to_commits(report: NewReleaseReport, issues: Issues) -> list[NewCommit]:
    """The commits of a report, each once. Faults are recorded."""
    found: dict[tuple[str, str], NewCommit] = {}
    for number, one in enumerate(report.commits):
        path = f"body.commits[{number}]"
        repository = one.repository or report.repository
        if repository is None:
            issues.add(f"{path}.repository", "Is required here or in the report.", "missing")
            continue
        check_url(one.url, f"{path}.url", issues)
        commit = NewCommit(
            repository=repository,
            sha=one.sha.lower(),
            message=one.message,
            author_name=one.author_name,
            author_email=one.author_email,
            authored_at=parse_time(one.authored_at, f"{path}.authoredAt", issues),
            url=one.url,
            files=None if one.files is None else tuple(dict.fromkeys(one.files)),
            files_truncated=one.files_truncated,
        )
        found.setdefault(commit.key, commit)
    return list(found.values())
