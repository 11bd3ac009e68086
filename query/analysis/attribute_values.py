"""The values of a key, most spans first: GET .../explore/attributes/values. For suggestions while a filter is typed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.http.validation import Issues, bounded_int, single_value
from query.analysis import scan_limit
from query.analysis.aggregate_json import group_text
from query.fields import SPANS
from query.json_types import Count, Range
from query.read_store import ReadStore
from query.request.filters import MAX_VALUE, Filter, Op, check_key, conditions, parse_filters, resolve_key
from query.request.parameters import FILTERS_PATH, parse_time_range
from query.statements import Condition, Fn, GroupRanking, Subject
from query.statements.window import Window
from query.timestamps import format_timestamp

DEFAULT_VALUES: Final = 20
MAX_VALUES: Final = 100
MAX_SPANS: Final = 1_000_000  # the newest, which are read: somebody waits while typing


class ValueCount(msgspec.Struct):
    """A value, and the spans that have it, of those that were read."""

    value: str
    count: Count


class AttributeValues(msgspec.Struct):
    """Values of a key in the newest spans. `complete`: every span of the window was read, and every value is listed."""

    key: str
    data: list[ValueCount]
    complete: Annotated[bool, Meta(description="Whether all spans of the window were read, and all values are listed.")]
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


def plan(query: Mapping[str, str], now_ns: int) -> ValuesPlan:
    """Validate the query string; BadRequest names every offending parameter."""
    issues = Issues()
    key, prefix = single_value(query, "key", issues) or "", single_value(query, "prefix", issues) or ""
    check_key(key, "query.key", issues)
    if len(prefix) > MAX_VALUE:
        issues.add("query.prefix", f"Must have at most {MAX_VALUE} characters.", "too_long")
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    limit = bounded_int(query, "limit", DEFAULT_VALUES, 1, MAX_VALUES, issues)
    resolved = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a missing window must have an issue")
    having = (Filter(key, Op.EXISTS), *([Filter(key, Op.STARTS_WITH, (prefix,))] if prefix else []))
    resolved += conditions(having, SPANS, now_ns, "query.prefix", issues)
    issues.raise_if_any()
    return ValuesPlan(key, resolve_key(key, SPANS), filters, resolved, window, limit)


async def read(store: ReadStore, project_id: int, plan: ValuesPlan) -> bytes:
    """The values as JSON. Raises StoreErrors."""
    scan_window = await scan_limit.newest_within_limit(store, project_id, plan.window, MAX_SPANS)
    window, rows = scan_window.window, list[tuple[Any, ...]]()
    if scan_window.spans:
        subjects = [plan.subject, *(subject for each in plan.conditions for subject in each.subjects)]
        statement = GroupRanking(
            project_id=project_id,
            existing_attributes=await store.find_existing_attributes(project_id, window, subjects),
            window=window,
            conditions=plan.conditions,
            fn=Fn.COUNT,
            subject=None,
            group_by=plan.subject,
            limit=plan.limit,
        )
        rows = await store.rows(statement)
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
