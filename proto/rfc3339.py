"""Parse times of RFC 3339."""

import re
from datetime import UTC, datetime
from typing import Final

_NOT_RFC_3339: Final = re.compile(r"^.{11}24:|[+-][0-9]{2}:[6-9][0-9]$")  # which some versions of Python accept


def parse_rfc3339(text: str) -> datetime | None:
    """The time in UTC of a text with the form of RFC 3339. None if the time does not exist. A leap second, the hour 24
    and an offset with 60 minutes or more count as times that do not exist.
    """
    try:
        return None if _NOT_RFC_3339.search(text) else datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
