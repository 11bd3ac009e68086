"""Texts that people choose, as bodies take them; each says in words what it must be."""

from typing import Annotated

import msgspec

from chassis.identity.registry import SENSITIVE_WORD_PATTERN
from proto.identity import MAX_NAME_LENGTH, MAX_SLUG_LENGTH, NAME_PATTERN, SLUG_PATTERN

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
SensitiveWord = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        pattern=SENSITIVE_WORD_PATTERN,
        description="Must be a word of lower-case letters, digits and inner dots, dashes and underscores.",
    ),
]
