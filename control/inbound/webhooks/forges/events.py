"""The contents of events of source control, and functions that fit fields of payloads to the limits of the columns.
Pure functions.

Human-readable texts are cleaned and shortened. Texts that identify something are taken unchanged or not at all, because
a part of such a text would be another name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from chassis.db.database import to_milliseconds
from chassis.issues import MAX_VERSION_LENGTH
from control.code.changes import MAX_AHEAD
from control.code.commits import MAX_FILES, NewCommit
from control.code.issue_links.addresses import OTHER, ExternalItem, identify
from control.code.proposals.store import ProposalReport
from control.code.releases.bodies import MAX_PATH_LENGTH, MAX_REPORTED_MESSAGE
from control.code.releases.store import ReleaseReport
from control.inbound.webhooks.platform import UNSTORABLE, Headers, PayloadError, clean_line, clean_url, header
from control.issues.releases.tables import MAX_REPOSITORY_LENGTH, MAX_SHA_LENGTH
from control.issues.tables import MAX_EXTERNAL_ID_LENGTH, LinkState
from proto.identity import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH, UNPRINTABLE


@dataclass(frozen=True, slots=True)
class CommitsPushed:
    """Commits, oldest first. `default_branch_at`: when they reached the default branch, None if they are on another
    branch. `not_listed`: the number of further commits of the push that the platform did not list. None: there are
    some, but the platform does not say how many.
    """

    commits: tuple[NewCommit, ...]
    default_branch_at: datetime | None
    not_listed: int | None = 0


@dataclass(frozen=True, slots=True)
class ReleasePublished:
    """A release of a repository."""

    repository: str
    report: ReleaseReport


@dataclass(frozen=True, slots=True)
class Deployed:
    """A successful deployment. `id`: given by the platform, in the repository."""

    repository: str
    id: str
    at: datetime
    environment: str | None
    ref: str | None
    sha: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class TicketChanged:
    """A ticket as it is at `changed_at`. `items`: the names that links may use for it. `is_reopened`: this event
    reopened it. `is_fixed`: False if it was closed without a fix.
    """

    items: tuple[ExternalItem, ...]
    title: str | None
    state: LinkState
    changed_at: datetime
    is_reopened: bool = False
    is_fixed: bool = True


@dataclass(frozen=True, slots=True)
class HookDeleted:
    """The platform has deleted the webhook with this id and sends no further events from it."""

    hook_id: str


Content = CommitsPushed | ProposalReport | ReleasePublished | Deployed | TicketChanged | HookDeleted


@dataclass(frozen=True, slots=True)
class ScmEvent:
    """The platform's name of an event, and its contents. They are empty for an event without effect."""

    name: str
    contents: tuple[Content, ...] = ()


BRANCH: Final = "refs/heads/"
ABSENT: Final = Raw()
MAX_COMMITS: Final = 2_048  # per push; GitHub lists no more
_MAX_EPOCH_S: Final = 32_503_680_000  # the year 3000

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = str | int | float | None

_EVENT: Final = re.compile(r"[A-Za-z0-9_:.\- ]{1,100}")
_REPOSITORY: Final = re.compile(rf"[^\s{UNPRINTABLE}]{{1,{MAX_REPOSITORY_LENGTH}}}")
_SHA: Final = re.compile(rf"[0-9a-f]{{7,{MAX_SHA_LENGTH}}}")
_PATH: Final = re.compile(rf"[^{UNPRINTABLE}]{{1,{MAX_PATH_LENGTH}}}")
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?"
    r" ?(Z|z|UTC|[+-][0-9]{2}:?[0-9]{2})"
)


class CommitAuthor(msgspec.Struct, frozen=True):
    """A person."""

    name: str | None = None
    email: str | None = None


class CommitPayload(msgspec.Struct, frozen=True):
    """A commit in the form that GitHub, Gitea and GitLab use."""

    id: str
    message: str | None = None
    timestamp: Time = None
    url: str | None = None
    author: CommitAuthor | None = None
    added: list[str] | None = None
    removed: list[str] | None = None
    modified: list[str] | None = None
    distinct: bool = True


def read_event_name(headers: Headers, name: str) -> str:
    """The event that a header names. Raises PayloadError."""
    value = header(headers, name)
    if value is None or _EVENT.fullmatch(value) is None:
        raise PayloadError(f"The header {name} does not name an event.")
    return value


def require_event(*, fits: bool, event: str) -> None:
    """Require that the body belongs to the event in the header. Raises PayloadError."""
    if not fits:
        raise PayloadError(f"The body does not belong to the event {event}.")


def clean_text(text: str | None, max_length: int) -> str | None:
    """Clean a text of several lines."""
    return None if text is None else UNSTORABLE.sub("\ufffd", text[:max_length])


def repository_name(name: str) -> str:
    """The name of a repository. Raises PayloadError."""
    if _REPOSITORY.fullmatch(name) is None:
        raise PayloadError("The name of the repository is too long, or not printable.")
    return name


def parse_sha(text: str | None) -> str | None:
    """Parse the hash of a commit. Returns None for other texts."""
    lower = "" if text is None else text[: MAX_SHA_LENGTH + 1].lower()
    return lower if _SHA.fullmatch(lower) and lower.strip("0") else None


def parse_time(value: Time) -> datetime | None:
    """Parse a time: a text with a time zone, or seconds or milliseconds since 1970. Returns None for other values."""
    try:
        if isinstance(value, str):
            match = _TIME.fullmatch(value[:64])
            if match is None:
                return None
            zone = "+00:00" if match[4].upper() in ("Z", "UTC") else match[4]
            found = datetime.fromisoformat(f"{match[1]}T{match[2]}.{(match[3] or '0').ljust(6, '0')}{zone}")
        elif value is None or isinstance(value, bool) or not 0 <= value <= 1_000 * _MAX_EPOCH_S:
            return None
        else:
            found = datetime.fromtimestamp(value / 1_000 if value > _MAX_EPOCH_S else value, UTC)
        found = to_milliseconds(found)
    except (ValueError, OverflowError):
        return None
    return found if found.year >= 1970 else None


def clean_email(text: str | None) -> str | None:
    """An e-mail address, or the text that a commit has instead of one."""
    return clean_line(text, MAX_EMAIL_LENGTH) if text is not None and len(text) <= MAX_EMAIL_LENGTH else None


def list_files(*lists: Sequence[str] | None) -> tuple[tuple[str, ...] | None, bool]:
    """The paths of a commit, at most MAX_FILES, and whether some are missing. None if the platform lists no paths."""
    given = [one for one in lists if one is not None]
    if not given:
        return None, False
    paths = dict.fromkeys(path for one in given for path in one)
    kept = [path for path in paths if _PATH.fullmatch(path) and not UNSTORABLE.search(path)][:MAX_FILES]
    return tuple(kept), len(kept) < len(paths)


def new_commit(
    repository_name: str,
    commit_sha: str,
    message: str | None,
    *,
    author_name: str | None,
    author_email: str | None,
    authored_at: Time,
    address: str | None,
    paths: tuple[tuple[str, ...] | None, bool] = (None, False),
) -> NewCommit:
    """A commit of the event. Raises PayloadError if it has no hash."""
    checked = parse_sha(commit_sha)
    if checked is None:
        raise PayloadError("A commit has no valid hash.")
    return NewCommit(
        repository=repository_name,
        sha=checked,
        message=clean_text(message, MAX_REPORTED_MESSAGE) or "",
        author_name=clean_line(author_name, MAX_NAME_LENGTH),
        author_email=clean_email(author_email),
        authored_at=parse_time(authored_at),
        url=clean_url(address),
        files=paths[0],
        files_truncated=paths[1],
    )


def count_not_listed(total: int | None, listed: Sequence[object], read: Sequence[object]) -> int:
    """The number of commits of a push that are not read: of the platform's `total` if it is given, otherwise of the
    listed commits.
    """
    return max(total or 0, len(listed)) - len(read)


def push_time(at: datetime | None, received_at: datetime) -> datetime:
    """The time of a push by the platform's clock, if it is known and not in the future, otherwise the time at which the
    event was received. The time of a commit is not used, because a commit may be pushed long afterwards.
    """
    return to_milliseconds(received_at) if at is None or at > received_at else at


def has(value: Raw) -> bool:
    """Whether a field is present and not null."""
    return bytes(value) not in (b"", b"null")


def release_report(version: str, url: str | None, at: datetime | None, received_at: datetime) -> ReleaseReport:
    """A release whose tag is its version. A time far in the future is ignored."""
    return ReleaseReport(version, version, url, at if at is None or at <= received_at + MAX_AHEAD else None)


def require_version(tag: str) -> str:
    """The version of a release. Raises PayloadError."""
    version = clean_line(tag, MAX_VERSION_LENGTH)
    if version is None or version != tag:
        raise PayloadError("The tag of the release is too long, or not printable.")
    return version


def link_items(system: str, name: str, *addresses: str | None) -> tuple[ExternalItem, ...]:
    """The names that links may use for an item: its addresses, and also its name if no address belongs to a known
    system.
    """
    found = [identify(address) for address in addresses if address is not None]
    if len(name) <= MAX_EXTERNAL_ID_LENGTH and all(one.system == OTHER for one in found):
        found.append(ExternalItem(system, name))
    return tuple(dict.fromkeys(found))


def listed_commit(name: str, one: CommitPayload) -> NewCommit:
    """A commit with its changed files."""
    author = one.author or CommitAuthor()
    return new_commit(
        name,
        one.id,
        one.message,
        author_name=author.name,
        author_email=author.email,
        authored_at=one.timestamp,
        address=one.url,
        paths=list_files(one.added, one.modified, one.removed),
    )
