"""Occurrence ids: time, batch and row, so that one lookup reads only the rows of its five-minute bucket."""

from typing import Final, NamedTuple

from query.timestamps import MAX_NANOS

_DIGITS: Final = 40


class OccurrenceKey(NamedTuple):
    """The stored location of an occurrence."""

    time_ns: int
    batch_id: int
    row: int


def occurrence_id(key: OccurrenceKey) -> str:
    """Format a key as 40 hex digits."""
    return f"{key.time_ns:016x}{key.batch_id:016x}{key.row:08x}"


def parse_occurrence_id(text: str) -> OccurrenceKey | None:
    """Parse an id; None for any other text."""
    if len(text) != _DIGITS or not text.isascii() or not text.isalnum():
        return None
    try:
        key = OccurrenceKey(int(text[:16], 16), int(text[16:32], 16), int(text[32:], 16))
    except ValueError:
        return None
    return key if key.time_ns < MAX_NANOS else None
