"""Parses and validates the query string of a list, before the store is read: time, filters, cursor and limit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from chassis.http.validation import Issues, bounded_int, bounded_text, must_be_one_of, single_value
from query.request.filters import Filter, parse_filters
from query.statements.window import MAX_HOURS, TimeRange

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
MAX_TRACE_ID: Final = 64
MAX_SPAN_ID: Final = 64
MAX_CURSOR: Final = 500
FILTERS_PATH: Final = "query.filters"
SORTS: Final = ("time", "duration")  # the first is the default


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The parameters of a list, as written; only `filters` are parsed."""

    time: TimeRange
    trace_text: str | None
    filters_text: str
    filters: tuple[Filter, ...]
    cursor: str | None
    limit: int


def parse_sort(query: Mapping[str, str], issues: Issues) -> str:
    """One of `SORTS`; a fault is recorded in `issues`."""
    sort = single_value(query, "sort", issues)
    if sort is not None and sort not in SORTS:
        issues.add("query.sort", must_be_one_of(SORTS), "not_allowed")
    return SORTS[0] if sort is None else sort


def parse_time_range(query: Mapping[str, str], issues: Issues) -> TimeRange:
    """The time range of a request, as written; faults are recorded in `issues`."""
    hours = bounded_int(query, "hours", 0, 1, MAX_HOURS, issues) if "hours" in query else 0
    return TimeRange(
        from_text=single_value(query, "from", issues), to_text=single_value(query, "to", issues), hours=hours or None
    )


def parse_list_request(query: Mapping[str, str], issues: Issues) -> ListRequest:
    """Parse the parameters of a list; faults are recorded in `issues`, and then the result must not be used."""
    trace_text = bounded_text(query, "traceId", 1, MAX_TRACE_ID, issues)
    return replace(parse_page_request(query, issues), trace_text=trace_text)


def parse_page_request(query: Mapping[str, str], issues: Issues) -> ListRequest:
    """Like `parse_list_request`, for a list without `traceId`."""
    filters_text = single_value(query, "filters", issues) or ""
    return ListRequest(
        time=parse_time_range(query, issues),
        trace_text=None,
        filters_text=filters_text,
        filters=parse_filters(filters_text, FILTERS_PATH, issues),
        cursor=bounded_text(query, "cursor", 1, MAX_CURSOR, issues),
        limit=bounded_int(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues),
    )
