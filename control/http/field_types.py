"""String types of request and response bodies. Types of values that people choose describe what is valid."""

from typing import Annotated

import msgspec

from proto.identity import (
    EXEMPT_KEY_PATTERN,
    MAX_EXEMPT_KEY_BYTES,
    MAX_NAME_LENGTH,
    MAX_SLUG_LENGTH,
    NAME_PATTERN,
    SENSITIVE_WORD_PATTERN,
    SLUG_PATTERN,
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
