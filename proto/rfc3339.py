"""Times of RFC 3339 as moments."""

import re
from datetime import UTC, datetime
from typing import Final

_NOT_RFC_3339: Final = re.compile(r"^.{11}24:|[+-][0-9]{2}:[6-9][0-9]$")  # versions of Python take one or both


def parse_rfc3339(text: str) -> datetime | None:
    """The moment in UTC of a text with the form of RFC 3339; None if the calendar has no such time. A leap second, the
    hour 24 and an offset of 60 minutes are none.
    """
    try:
        return None if _NOT_RFC_3339.search(text) else datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
