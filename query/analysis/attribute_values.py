"""The values of a key, the most frequent first: GET .../explore/attributes/values, and .../logs/attributes/values. The
page suggests them while a filter is typed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.http.route import Parameter
from chassis.http.validation import Issues, bounded_int, single_value
from query.analysis import windows
from query.analysis.aggregate import group_text
from query.read_store import MAX_GROUP_BYTES, ReadStore
from query.request.filters import MAX_VALUE, Filter, KeyText, Op, check_key, conditions, parse_filters, resolve_key
from query.request.parameters import FILTERS_PATH, checked, parse_time_range
from query.routing import TIME
from query.rows import SPANS, TelemetryTable
from query.statements import Condition, Fn, GroupRanking, Subject, Window, subjects_of
from query.values import Count, Range, format_timestamp

DEFAULT_VALUES: Final = 20
MAX_VALUES: Final = 100
MAX_ROWS: Final = 1_000_000  # only the newest rows are read, because a user waits while typing


class ValueCount(msgspec.Struct):
    """A value, and the number of spans (or log records) with this value among those that were read."""

    value: str
    count: Count


class AttributeValues(msgspec.Struct):
    """Values of a key in the newest spans or log records."""

    key: str
    data: list[ValueCount]
    complete: Annotated[
        bool,
        Meta(
            description="Whether the list has all values of the window. False: some spans (or log records) were not "
            "read, or some values are not listed."
        ),
    ]
    scanned: Count
    range: Range


@dataclass(frozen=True, slots=True)
class ValuesPlan:
    """A validated request."""

    key: str
    subject: Subject
    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    window: Window
    limit: int
    signal: TelemetryTable


def plan(query: Mapping[str, str], now_ns: int, signal: TelemetryTable = SPANS) -> ValuesPlan:
    """Validate the query string; BadRequest names every offending parameter."""
    issues = Issues()
    key, prefix = single_value(query, "key", issues) or "", single_value(query, "prefix", issues) or ""
    check_key(key, "query.key", issues)
    if len(prefix) > MAX_VALUE:
        issues.add("query.prefix", f"Must have at most {MAX_VALUE} characters.", "too_long")
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    limit = bounded_int(query, "limit", DEFAULT_VALUES, 1, MAX_VALUES, issues)
    resolved = conditions(filters, signal, now_ns, FILTERS_PATH, issues)
    window = checked(window, issues)
    having = (Filter(key, Op.EXISTS), *([Filter(key, Op.STARTS_WITH, (prefix,))] if prefix else []))
    resolved += conditions(having, signal, now_ns, "query.prefix", issues)
    issues.raise_if_any()
    return ValuesPlan(key, resolve_key(key, signal), filters, resolved, window, limit, signal)


async def read(store: ReadStore, project_id: int, plan: ValuesPlan) -> bytes:
    """The values as JSON. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    signal = plan.signal
    scan_window = await windows.newest_within_limit(store, project_id, plan.window, MAX_ROWS, signal)
    window, rows = scan_window.window, list[tuple[Any, ...]]()
    if scan_window.spans:
        statement = GroupRanking(
            project_id=project_id,
            existing_attributes=await store.find_existing_attributes(
                project_id, window, subjects_of(plan.conditions, plan.subject), signal
            ),
            signal=signal,
            window=window,
            conditions=plan.conditions,
            fn=Fn.COUNT,
            subject=None,
            group_by=plan.subject,
            limit=plan.limit,
        )
        rows = await store.rows(statement, MAX_GROUP_BYTES)
    found = [(group_text(key, plan.subject), spans) for key, spans, _, _ in rows]
    is_complete = not scan_window.truncated and (not rows or rows[0][3] <= len(rows))
    return msgspec.json.encode(
        AttributeValues(
            key=plan.key,
            data=[ValueCount(value, spans) for value, spans in found if value is not None],
            complete=is_complete,
            scanned=scan_window.spans,
            range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
        )
    )


def values_of(filters: Parameter, example: str) -> tuple[Parameter, ...]:
    """The parameters of a list of values; `example` is a key."""
    return (
        Parameter("key", "query", KeyText, "The key, as in filters.", required=True, example=example),
        Parameter(
            "prefix", "query", Annotated[str, Meta(max_length=MAX_VALUE)], "Only values that start with this text."
        ),
        *TIME,
        filters,
        Parameter(
            "limit", "query", Annotated[int, Meta(ge=1, le=MAX_VALUES)], "Maximum number.", default=DEFAULT_VALUES
        ),
    )
