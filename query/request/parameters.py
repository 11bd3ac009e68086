"""Parses and validates the query string of a list (time, filters, cursor and limit) before the store is read. Also has
the functions that all JSON bodies of explore share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

from aiohttp import web
from msgspec import Meta

from chassis.http.validation import (
    Issues,
    bounded_int,
    bounded_text,
    decode_with_placeholders,
    must_be_one_of,
    read_json_bytes,
    single_value,
)
from query.request.filters import PLACEHOLDERS, Filter, parse_filters
from query.statements import MAX_HOURS, TimeRange

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
R = TypeVar("R")

MAX_BODY_BYTES: Final = 256 * 2**10  # bytes; enough for twenty filters of a hundred values each

TimeInput = Annotated[
    str | int | float,
    Meta(description="A time: RFC 3339, Unix time in seconds to nanoseconds (string or number), `now`, or `now-15m`."),
]


def time_range(from_: TimeInput | None, to: TimeInput | None, hours: int | None = None) -> TimeRange:
    """The time range of a body, as written."""
    return TimeRange(_text(from_), _text(to), hours)


async def read_body(request: web.Request, timeout_s: float) -> bytes:
    """Read the body's bytes. Raises UnsupportedMediaType, PayloadTooLarge, BadRequest, in this order."""
    return await read_json_bytes(request, max_bytes=MAX_BODY_BYTES, timeout_s=timeout_s)


def checked(value: T | None, issues: Issues) -> T:
    """Return `value`. Raises BadRequest if there are issues. If `value` is None, there must be an issue."""
    issues.raise_if_any()
    if value is None:
        raise TypeError("a missing value must have an issue")
    return value


def plan_of_body(
    type_: type[R],
    raw: bytes,
    now_ns: int,
    build: Callable[[R, int, Issues], T | None],
    placeholders: Mapping[str, Any] = PLACEHOLDERS,
) -> T:
    """Build a plan from a body with `build`; BadRequest names every offending field."""
    issues = Issues()
    request = decode_with_placeholders(type_, raw, placeholders, issues)
    return checked(None if request is None else build(request, now_ns, issues), issues)


def _text(value: TimeInput | None) -> str | None:
    """The time as it would be written in a query string."""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    return None if value is None else str(value)


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


def parse_choice(query: Mapping[str, str], name: str, choices: type[E], issues: Issues) -> E | None:
    """A value of an enum; None if the parameter is absent. For any other text, records an issue and returns None."""
    text = single_value(query, name, issues)
    try:
        return None if text is None else choices(text)
    except ValueError:
        issues.add(f"query.{name}", must_be_one_of(choices), "not_allowed")
        return None


def parse_sort(query: Mapping[str, str], issues: Issues) -> str:
    """One of `SORTS`; errors are recorded in `issues`."""
    sort = single_value(query, "sort", issues)
    if sort is not None and sort not in SORTS:
        issues.add("query.sort", must_be_one_of(SORTS), "not_allowed")
    return SORTS[0] if sort is None else sort


def parse_time_range(query: Mapping[str, str], issues: Issues) -> TimeRange:
    """The time range of a request, as written; errors are recorded in `issues`."""
    hours = bounded_int(query, "hours", 0, 1, MAX_HOURS, issues) if "hours" in query else 0
    return TimeRange(
        from_text=single_value(query, "from", issues), to_text=single_value(query, "to", issues), hours=hours or None
    )


def parse_list_request(query: Mapping[str, str], issues: Issues) -> ListRequest:
    """Parse the parameters of a list. Errors are recorded in `issues`; then the result must not be used."""
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
