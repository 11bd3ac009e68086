"""Times that requests contain: RFC 3339 with a time zone, from 1970 on."""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.db.database import to_milliseconds
from chassis.http.route import Query, read_as
from chassis.http.validation import Issues
from proto.rfc3339 import parse_rfc3339

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
    """The time in UTC, in milliseconds; None without one, and after recording an issue for an impossible one."""
    if text is None:
        return None
    parsed = parse_rfc3339(text) if _TIME.match(text) is not None else None
    if parsed is not None and parsed.year >= 1970:
        return to_milliseconds(parsed)
    issues.add(path, _MESSAGE, "format")
    return None


class TimeRange(Query, frozen=True, rename="camel"):
    """What a list of a time range is asked for."""

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
        """Record a range that ends before it starts."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            issues.add("query.from", "from must be before to.", "range")
