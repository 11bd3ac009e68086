"""Types of fields in request and response bodies: names, times, lines, URLs. They describe what is valid."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, UnsetType

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
        max_length=MAX_EXEMPT_KEY_BYTES,  # characters; the handler counts bytes
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
    """The constraints of a text on one line, of at most so many characters."""
    return Meta(min_length=1, max_length=max_length, pattern=NAME_PATTERN, description=LINE_DESCRIPTION)


def lines(max_length: int, min_length: int = 0) -> Meta:
    """The constraints of a text of several lines; PostgreSQL stores every character but NUL."""
    return Meta(
        min_length=min_length,
        max_length=max_length,
        pattern=r"^[^\x00]*(?!\n)$" if min_length else r"^[^\x00]*$",
        description="Must not contain the character NUL.",
    )


def check_url(text: str | UnsetType | None, path: str, issues: Issues, *, allow_http: bool = True) -> None:
    """Record an issue for a text that is not a URI with a host, unless there is one at `path`."""
    if not isinstance(text, str) or issues.has_issue_under(path):
        return
    try:
        parse_uri(text, allow_http=allow_http)
    except ValueError as error:
        issues.add(path, str(error), "format")
