"""Fields of payloads, brought into the bounds of the columns. Pure.

What people read is cleaned and shortened. What identifies something is taken as it is or not at all, because a part of
it would be another name.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from msgspec import Meta

from chassis.db.database import to_milliseconds
from control.code.commit_repository import MAX_FILES, NewCommit
from control.code.release_schemas import MAX_PATH_LENGTH, MAX_REPORTED_MESSAGE
from control.http.field_types import URL_PATTERN
from control.inbound.webhooks.platform import Headers, PayloadError, header
from control.issues.releases.tables import MAX_REPOSITORY_LENGTH, MAX_SHA_LENGTH
from proto.identity import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH, MAX_URL_LENGTH, UNPRINTABLE

MAX_COMMITS: Final = 2_048  # of a push; GitHub lists no more
_MAX_EPOCH_S: Final = 32_503_680_000  # the year 3000

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = str | int | float | None

_EVENT: Final = re.compile(r"[A-Za-z0-9_:.\- ]{1,100}")
_UNPRINTABLE: Final = re.compile(rf"[{UNPRINTABLE}\ud800-\udfff]")
_STORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_REPOSITORY: Final = re.compile(rf"[^\s{UNPRINTABLE}]{{1,{MAX_REPOSITORY_LENGTH}}}")
_SHA: Final = re.compile(rf"[0-9a-f]{{7,{MAX_SHA_LENGTH}}}")
_URL: Final = re.compile(URL_PATTERN)
_PATH: Final = re.compile(rf"[^{UNPRINTABLE}]{{1,{MAX_PATH_LENGTH}}}")
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?"
    r" ?(Z|z|UTC|[+-][0-9]{2}:?[0-9]{2})"
)


def event_name(headers: Headers, name: str) -> str:
    """The event that a header names. Raises PayloadError."""
    value = header(headers, name)
    if value is None or _EVENT.fullmatch(value) is None:
        raise PayloadError(f"The header {name} does not name an event.")
    return value


def require(*, fits: bool, event: str) -> None:
    """Raises PayloadError if the body is that of another event than the header says."""
    if not fits:
        raise PayloadError(f"The body is not that of the event {event}.")


def line(text: str | None, max_length: int) -> str | None:
    """Text on one line; None if nothing is left."""
    if text is None:
        return None
    return " ".join(_UNPRINTABLE.sub(" ", text[: 4 * max_length]).split())[:max_length].strip() or None


def lines(text: str | None, max_length: int) -> str | None:
    """Text of several lines."""
    return None if text is None else _STORABLE.sub("\ufffd", text[:max_length])


def repository(name: str) -> str:
    """The name of a repository. Raises PayloadError."""
    if _REPOSITORY.fullmatch(name) is None:
        raise PayloadError("The name of the repository is too long, or not printable.")
    return name


def sha(text: str | None) -> str | None:
    """The hash of a commit; None for what is none."""
    lower = "" if text is None else text[: MAX_SHA_LENGTH + 1].lower()
    return lower if _SHA.fullmatch(lower) and lower.strip("0") else None


def url(text: str | None) -> str | None:
    """An address; None for what is none, or is too long."""
    if text is None or len(text) > MAX_URL_LENGTH or _STORABLE.search(text):
        return None
    return text if _URL.match(text) else None


def time(value: Time) -> datetime | None:
    """A time as text with a zone, or in seconds or milliseconds since 1970; None for what is none."""
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


def email(text: str | None) -> str | None:
    """An address, or what a commit has in its place."""
    return line(text, MAX_EMAIL_LENGTH) if text is not None and len(text) <= MAX_EMAIL_LENGTH else None


def files(*lists: Sequence[str] | None) -> tuple[tuple[str, ...] | None, bool]:
    """The paths of a commit, at most MAX_FILES, and whether some are missing; None if the platform lists none."""
    given = [one for one in lists if one is not None]
    if not given:
        return None, False
    paths = dict.fromkeys(path for one in given for path in one)
    kept = [path for path in paths if _PATH.fullmatch(path) and not _STORABLE.search(path)][:MAX_FILES]
    return tuple(kept), len(kept) < len(paths)


def commit(
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
    """A commit. Raises PayloadError if it has no hash."""
    checked = sha(commit_sha)
    if checked is None:
        raise PayloadError("A commit has no valid hash.")
    return NewCommit(
        repository=repository_name,
        sha=checked,
        message=lines(message, MAX_REPORTED_MESSAGE) or "",
        author_name=line(author_name, MAX_NAME_LENGTH),
        author_email=email(author_email),
        authored_at=time(authored_at),
        url=url(address),
        files=paths[0],
        files_truncated=paths[1],
    )


def not_listed(total: int | None, listed: Sequence[object], read: Sequence[object]) -> int:
    """How many commits of a push are not read: of `total` by the platform, where it says so, or of those it listed."""
    return max(total or 0, len(listed)) - len(read)


def pushed_at(at: datetime | None, received_at: datetime) -> datetime:
    """The time of a push by the platform's clock, if it is known and has come, else when the delivery was received. The
    time of a commit is none: it may be pushed long after that.
    """
    return to_milliseconds(received_at) if at is None or at > received_at else at
