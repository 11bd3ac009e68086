"""String types of request and response bodies. Types of values that people choose describe what is valid."""

from typing import Annotated

import msgspec

from proto.identity import MAX_NAME_LENGTH, MAX_SLUG_LENGTH, NAME_PATTERN, SENSITIVE_WORD_PATTERN, SLUG_PATTERN

Slug = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_SLUG_LENGTH,
        pattern=SLUG_PATTERN,
        description="Must consist of lower-case letters, digits and inner dashes.",
    ),
]
Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        pattern=NAME_PATTERN,
        description="Must consist of printable characters, without spaces at its ends.",
    ),
]
Timestamp = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        description="A time in UTC, to the millisecond.",
        extra_json_schema={"format": "date-time"},
    ),
]
SensitiveWord = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        pattern=SENSITIVE_WORD_PATTERN,
        description="Must be a word of lower-case letters, digits and inner dots, dashes and underscores.",
    ),
]
