"""Filters of erasures, checked and stored as explore understands them: control cannot import the query service."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from chassis.http.validation import Issues, decode_json
from query.fields import LOGS, SPANS
from query.request.filters import Filter, Op, WrittenFilter, conditions, parse_filters
from query.request.filters import check_filters as check_written_filters

_NANOS_PER_MILLISECOND = 10**6


def check_filters(
    filters: Sequence[Mapping[str, Any]], now: datetime, path: str, issues: Issues
) -> list[dict[str, Any]]:
    """The filters of a body as they are stored. Each must be valid for spans and for log records. Faults are issues
    under `path`; then the result must not be used.
    """
    try:
        raw = msgspec.json.encode(filters)
    except UnicodeEncodeError:  # lone surrogates, which JSON can spell
        issues.add(path, "Must be valid Unicode.", "format")
        return []
    inputs = decode_json(list[WrittenFilter], raw, path, issues)
    return _stored(check_written_filters(inputs or (), path, issues), now, path, issues)


def check_filter_text(text: str, now: datetime, path: str, issues: Issues) -> list[dict[str, Any]]:
    """The same for the text of a command line: JSON, or terms such as `user.id:4711`."""
    return _stored(parse_filters(text, path, issues), now, path, issues)


def _stored(filters: Sequence[Filter], now: datetime, path: str, issues: Issues) -> list[dict[str, Any]]:
    now_ns = round(now.timestamp() * 1_000) * _NANOS_PER_MILLISECOND
    for table in (SPANS, LOGS):
        if not len(issues):
            conditions(tuple(filters), table, now_ns, path, issues)
    return [{"key": one.key, "op": one.op.value, "value": _value(one)} for one in filters]


def _value(one: Filter) -> str | list[str] | None:
    if one.op in (Op.IN, Op.NOT_IN):
        return list(one.values)
    return one.values[0] if one.values else None
