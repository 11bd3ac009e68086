"""Types of fields in request and response bodies, such as names, times, lines and URLs, with descriptions of the valid
values. Times in requests are RFC 3339 with a time zone, from 1970 on.
"""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, UnsetType

from chassis.db.database import to_milliseconds
from chassis.http.route import Query, read_as
from chassis.http.validation import Issues
from control.outbound.egress_policy import parse_uri
from proto.identity import (
    EXEMPT_KEY_PATTERN,
    MAX_EXEMPT_KEY_BYTES,
    MAX_NAME_LENGTH,
    MAX_SLUG_LENGTH,
    MAX_URL_LENGTH,
    NAME_PATTERN,
    SENSITIVE_WORD_PATTERN,
    SLUG_PATTERN,
    UNPRINTABLE,
)
from proto.rfc3339 import parse_rfc3339

Slug = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_SLUG_LENGTH,
        pattern=SLUG_PATTERN,
        description="Must consist of lowercase letters, digits and inner hyphens.",
    ),
]
Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        pattern=NAME_PATTERN,
        description="Must consist of printable characters, without leading or trailing spaces.",
    ),
]
Timestamp = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        description="RFC 3339 time in UTC, with milliseconds.",
        extra_json_schema={"format": "date-time"},
    ),
]
SensitiveWord = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        pattern=SENSITIVE_WORD_PATTERN,
        description="Must consist of lowercase letters, digits and inner dots, hyphens and underscores.",
    ),
]
ExemptKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_EXEMPT_KEY_BYTES,  # in characters; the handler counts bytes
        pattern=EXEMPT_KEY_PATTERN,
        description=f"Must have at most {MAX_EXEMPT_KEY_BYTES} bytes of UTF-8, and no control characters.",
    ),
]


URL_PATTERN: Final = rf'^https?://[^\s{UNPRINTABLE}/?#@"<>\\]+(?:[/?#][^\s{UNPRINTABLE}"<>\\]*)?(?!\n)$'
LINE_DESCRIPTION: Final = "Must consist of printable characters, without leading or trailing spaces."

Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        pattern=URL_PATTERN,
        description="Must be an http or https URL without credentials.",
    ),
]


def line(max_length: int) -> Meta:
    """The constraints of a one-line text of at most `max_length` characters."""
    return Meta(min_length=1, max_length=max_length, pattern=NAME_PATTERN, description=LINE_DESCRIPTION)


def lines(max_length: int, min_length: int = 0) -> Meta:
    """The constraints of a text of several lines. PostgreSQL stores every character except NUL."""
    return Meta(
        min_length=min_length,
        max_length=max_length,
        pattern=r"^[^\x00]*(?!\n)$" if min_length else r"^[^\x00]*$",
        description="Must not contain the character NUL.",
    )


def check_url(text: str | UnsetType | None, path: str, issues: Issues, *, allow_http: bool = True) -> None:
    """Record an issue for a text that is not a URI with a host, unless `issues` already has an issue at `path`."""
    if not isinstance(text, str) or issues.has_issue_under(path):
        return
    try:
        parse_uri(text, allow_http=allow_http)
    except ValueError as error:
        issues.add(path, str(error), "format")


MAX_TIME_LENGTH: Final = 40
TIME_PATTERN: Final = (
    r"^(?:19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})(?!\n)$"
)
_TIME: Final = re.compile(TIME_PATTERN)
_MESSAGE: Final = "Must be an RFC 3339 time with a time zone, 1970 or later, such as 2026-11-20T15:17:03Z."

TimeInput = Annotated[
    str,
    Meta(
        max_length=MAX_TIME_LENGTH,
        pattern=TIME_PATTERN,
        description=_MESSAGE,
        extra_json_schema={"format": "date-time"},
    ),
]


def parse_time(text: str | None, path: str, issues: Issues) -> datetime | None:
    """The time in UTC, in milliseconds. None without a text, and after recording an issue for an impossible time."""
    if text is None:
        return None
    parsed = parse_rfc3339(text) if _TIME.match(text) is not None else None
    if parsed is not None and parsed.year >= 1970:
        return to_milliseconds(parsed)
    issues.add(path, _MESSAGE, "format")
    return None


class TimeRange(Query, frozen=True, rename="camel"):
    """The query parameters of a list with a time range."""

    since: Annotated[
        datetime | None,
        read_as(parse_time, MAX_TIME_LENGTH),
        Meta(description="Start of the time range, inclusive (RFC 3339).", examples=["2026-11-20T00:00:00Z"]),
    ] = msgspec.field(name="from", default=None)
    until: Annotated[
        datetime | None,
        read_as(parse_time, MAX_TIME_LENGTH),
        Meta(description="End of the time range, exclusive (RFC 3339)."),
    ] = msgspec.field(name="to", default=None)

    def check(self, issues: Issues) -> None:
        """Record an issue for a range that ends before it starts."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            issues.add("query.from", "from must be before to.", "range")
