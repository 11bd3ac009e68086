"""String types of what other systems report: names on one line, longer texts, addresses."""

from typing import Annotated, Final

from msgspec import Meta

from proto.identity import MAX_URL_LENGTH, NAME_PATTERN, UNPRINTABLE

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
