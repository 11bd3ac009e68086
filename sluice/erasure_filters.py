"""Filters of erasures, checked and stored in the form of explore, because control cannot import the query service."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from chassis.erasures.repository import StoredErasure
from chassis.http.validation import Issues, decode_json
from query.request.exclusion import excludes_nothing, matches_every_row
from query.request.filters import Filter, Op, WrittenFilter, conditions, members_of, parse_filters
from query.request.filters import check_filters as check_written_filters
from query.rows import LOGS, SPANS
from query.sql.bindings import Bindings
from query.sql.predicates import condition_sql
from query.statements import Condition

_NANOS_PER_MILLISECOND = 10**6


def check_filters(
    filters: Sequence[Mapping[str, Any]], now: datetime, path: str, issues: Issues
) -> list[dict[str, Any]]:
    """The filters of a body as they are stored. Each must be valid for spans and for log records. Errors are recorded
    as issues under `path`; then the result must not be used.
    """
    try:
        raw = msgspec.json.encode(filters)
    except UnicodeEncodeError:  # lone surrogates, which JSON can express
        issues.add(path, "Must be valid Unicode.", "format")
        return []
    inputs = decode_json(list[WrittenFilter], raw, path, issues)
    return _stored(check_written_filters(inputs or (), path, issues), now, path, issues)


def check_filter_text(text: str, now: datetime, path: str, issues: Issues) -> list[dict[str, Any]]:
    """The filters of a command line as they are stored: JSON, or terms such as `user.id:4711`."""
    return _stored(parse_filters(text, path, issues), now, path, issues)


def compile_filters(erasure: StoredErasure) -> tuple[str, str, Mapping[str, object]]:
    """The SQL conditions of a stored erasure on spans and on logs, and the values bound in them."""
    issues = Issues()
    inputs = decode_json(list[WrittenFilter], msgspec.json.encode(erasure.filters or []), "filters", issues)
    filters = check_written_filters(inputs or (), "filters", issues)
    bindings, requested_ns = Bindings(), _nanoseconds(erasure.requested_at)
    sql = []
    for table in (SPANS, LOGS):
        parts = ["1"]
        if erasure.from_ns is not None:
            parts.append(f"{table.time_column} >= {bindings.timestamp(erasure.from_ns)}")
        if erasure.to_ns is not None:
            parts.append(f"{table.time_column} < {bindings.timestamp(erasure.to_ns)}")
        parts += [condition_sql(one, bindings) for one in conditions(filters, table, requested_ns, "filters", issues)]
        sql.append(" AND ".join(parts))
    if len(issues):
        raise ValueError(f"stored filters are not valid: {issues}")
    return sql[0], sql[1], bindings.values


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000) * _NANOS_PER_MILLISECOND


def _stored(filters: Sequence[Filter], now: datetime, path: str, issues: Issues) -> list[dict[str, Any]]:
    now_ns = _nanoseconds(now)
    resolved = []
    for table in (SPANS, LOGS):
        if not issues.has_issue_under(path):
            resolved.append(conditions(tuple(filters), table, now_ns, path, issues))
    if not issues.has_issue_under(path):
        _check_exclusion(resolved, path, issues)
    return [
        {"any": [_stored_one(each) for _, each in members_of(one, "")]} if one.alternatives else _stored_one(one)
        for one in filters
    ]


def _check_exclusion(resolved: Sequence[Sequence[Condition]], path: str, issues: Issues) -> None:
    """Add an issue for each filter that matches every span and every log record, and for filters that together match
    every span or every log record. `resolved`: the conditions of the filters, by table.
    """
    for n, by_table in enumerate(zip(*resolved, strict=True)):
        if all(map(matches_every_row, by_table)):
            issues.add(
                f"{path}[{n}]",
                "Matches every item. Remove the filter, or use a value that excludes some items.",
                "not_allowed",
            )
    for name, table_conditions in zip(("span", "log record"), resolved, strict=True):
        if table_conditions and not issues.has_issue_under(path) and excludes_nothing(table_conditions):
            together = f"Together these filters match every {name}. Add a filter that excludes some {name}s"
            issues.add(path, f"{together}, or omit `filters` and set `from` and `to`.", "not_allowed")


def _stored_one(one: Filter) -> dict[str, Any]:
    return {"key": one.key, "op": one.op.value, "value": _value(one)}


def _value(one: Filter) -> str | list[str] | None:
    if one.op in (Op.IN, Op.NOT_IN):
        return list(one.values)
    return one.values[0] if one.values else None
