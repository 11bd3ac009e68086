"""Aggregates as JSON: counts are integers, durations milliseconds to the nanosecond, values of attributes doubles."""

from typing import Any, Final

import msgspec

from query.fields import ColumnKind, Field
from query.statements import Fn, GroupKey, Subject
from query.timestamps import format_millis, format_timestamp

_ZERO_WHEN_EMPTY: Final = frozenset({Fn.COUNT, Fn.COUNT_UNIQUE, Fn.SUM})

JsonNumber = int | float | msgspec.Raw | None


def to_json(value: Any, fn: Fn, subject: Subject | None) -> JsonNumber:
    """Convert a value from ClickHouse; None if there was nothing to aggregate."""
    if value is None:
        return None
    if fn in (Fn.COUNT, Fn.COUNT_UNIQUE):
        return int(value)
    if isinstance(subject, Field):
        return msgspec.Raw(format_millis(int(value)))
    return float(value)


def empty_value(fn: Fn) -> int | None:
    """The value of a group or a time bucket without spans."""
    return 0 if fn in _ZERO_WHEN_EMPTY else None


def group_text(group: GroupKey, subject: Subject | None) -> str | None:
    """The text of a group from ClickHouse, as filters take it; None for the spans without the key."""
    if group is None or not isinstance(subject, Field):
        return group if isinstance(group, str) else None
    if subject.optional and (not any(group) if isinstance(group, bytes) else not group):
        return None
    match subject.kind:
        case ColumnKind.ENUM:
            return subject.names[int(group)] if int(group) < len(subject.names) else ""
        case ColumnKind.DURATION:
            return format_millis(int(group))
        case ColumnKind.TIMESTAMP:
            return format_timestamp(int(group))
    return group.hex() if isinstance(group, bytes) else str(group)
