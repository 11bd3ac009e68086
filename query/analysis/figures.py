"""Figures as JSON: counts are integers, durations milliseconds to the nanosecond, numbers of attributes doubles."""

from typing import Any, Final

import msgspec

from query.asking.instant import format_instant, format_millis
from query.fields import Field, Form
from query.tree import Fn, GroupKey, Subject

_ZERO_OF_NOTHING: Final = frozenset({Fn.COUNT, Fn.COUNT_UNIQUE, Fn.SUM})

Shown = int | float | msgspec.Raw | None


def shown(figure: Any, fn: Fn, subject: Subject | None) -> Shown:
    """A figure as it came from the engine; None where there was nothing to make it of."""
    if figure is None:
        return None
    if fn in (Fn.COUNT, Fn.COUNT_UNIQUE):
        return int(figure)
    if isinstance(subject, Field):
        return msgspec.Raw(format_millis(int(figure)))
    return float(figure)


def of_no_spans(fn: Fn) -> int | None:
    """The figure of a group or a step without spans."""
    return 0 if fn in _ZERO_OF_NOTHING else None


def group_text(group: GroupKey, subject: Subject | None) -> str | None:
    """A group as it came from the engine in the text that filters take; None for the spans without it."""
    if group is None or not isinstance(subject, Field):
        return group if isinstance(group, str) else None
    if subject.optional and (not any(group) if isinstance(group, bytes) else not group):
        return None
    match subject.form:
        case Form.NAMES:
            return subject.names[int(group)] if int(group) < len(subject.names) else ""
        case Form.DURATION:
            return format_millis(int(group))
        case Form.INSTANT:
            return format_instant(int(group))
    return group.hex() if isinstance(group, bytes) else str(group)
