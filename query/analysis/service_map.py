"""The calls between services: GET .../explore/services/map.

    plan     query string -> time and filters, or all its faults at once                                       -> 400
    read     the newest part of the window within the scan limit (`scan_limit`); above MAX_JOINED_SPANS only
             one trace in `sample`, as a whole; then the calls between services, and the figures of each service

Joining calls with their callers needs memory for every calling span, while reading spans needs none. So above a number
of spans the join has fewer traces, but each of them is complete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.http.validation import Issues, single_value
from query.analysis import windows
from query.analysis.aggregate import Limits
from query.read_store import ReadStore
from query.request.filters import Filter, conditions, parse_filters
from query.request.parameters import FILTERS_PATH, checked, parse_time_range
from query.rows import SPANS
from query.settings import QuerySettings
from query.statements import Condition, ServiceCalls, ServiceFigures, Window, subjects_of
from query.values import Count, Millis, Range, format_millis, format_timestamp

MAX_JOINED_SPANS: Final = 1_000_000  # approximately, in the traces of a map; their join takes up to 200 MB
MAX_EDGES: Final = 1_000
MAX_NODES: Final = 500  # in addition to the nodes that the edges need

_Row = tuple[Any, ...]


class ServiceNode(msgspec.Struct, rename="camel"):
    """A service and the number of its matching spans. For its matching SERVER and CONSUMER spans: their number, the
    number with the status ERROR, and their mean duration. `serviceName` is null for spans without a service name.
    """

    service_name: str | None
    spans: Count
    count: Count
    errors: Count
    avg_ms: Millis | None


class ServiceEdge(msgspec.Struct, rename="camel"):
    """Calls from one service to another, or to itself: their number, how many failed in the called service, and their
    mean duration in the called service.
    """

    from_: str | None = msgspec.field(name="from")
    to: str | None
    count: Count
    errors: Count
    avg_ms: Millis


class ServiceMap(msgspec.Struct, rename="camel"):
    """Services and the calls between them. Services with the most spans and edges with the most calls come first."""

    range: Range
    sample: Annotated[
        int,
        Meta(
            ge=1,
            description="1: all traces were counted, and every number is exact. N: only one in N traces was counted, "
            "with all its spans.",
        ),
    ]
    nodes: list[ServiceNode]
    edges: list[ServiceEdge]
    truncated: Annotated[bool, Meta(description="Whether there are more services or edges than are shown.")]
    scanned: Count
    scan_truncated: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class MapPlan:
    """A validated request."""

    filters: tuple[Filter, ...]
    conditions: tuple[Condition, ...]
    window: Window


def plan(query: Mapping[str, str], now_ns: int) -> MapPlan:
    """Validate the query string; BadRequest names every offending parameter."""
    issues = Issues()
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    resolved = conditions(filters, SPANS, now_ns, FILTERS_PATH, issues)
    window = checked(window, issues)
    return MapPlan(filters, resolved, window)


async def read(store: ReadStore, settings: QuerySettings, project_id: int, plan: MapPlan) -> bytes:
    """The map as JSON. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    scan_window = await windows.newest_within_limit(store, project_id, plan.window, settings.max_scan_rows)
    window, sample = scan_window.window, max(1, -(-scan_window.spans // MAX_JOINED_SPANS))
    calls, services, is_truncated = list[_Row](), list[_Row](), False
    if scan_window.spans:
        calls, services, is_truncated = await _read_services(store, project_id, plan, window, sample)
    return msgspec.json.encode(
        ServiceMap(
            range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
            sample=sample,
            nodes=[
                ServiceNode(name or None, spans, count, errors, _mean(length, count))
                for name, spans, count, errors, length in services
            ],
            edges=[
                ServiceEdge(caller or None, callee or None, count, errors, _mean(length, count) or msgspec.Raw(b"0"))
                for caller, callee, count, errors, length in calls
            ],
            truncated=is_truncated,
            scanned=scan_window.spans,
            scan_truncated=scan_window.truncated,
            limits=Limits(settings.max_scan_rows, settings.max_series, settings.max_group_cardinality),
        )
    )


async def _read_services(
    store: ReadStore, project_id: int, plan: MapPlan, window: Window, sample: int
) -> tuple[list[_Row], list[_Row], bool]:
    """Calls, services (including both ends of every call), and whether there are more calls or services."""
    existing = await store.find_existing_attributes(project_id, window, subjects_of(plan.conditions))

    def figures(limit: int, services: tuple[str, ...] | None = None) -> ServiceFigures:
        return ServiceFigures(
            project_id=project_id,
            existing_attributes=existing,
            window=window,
            conditions=plan.conditions,
            one_in=sample,
            services=services,
            limit=limit,
        )

    calls = await store.rows(
        ServiceCalls(
            project_id=project_id,
            existing_attributes=existing,
            window=window,
            conditions=plan.conditions,
            one_in=sample,
            limit=MAX_EDGES + 1,
        )
    )
    services = await store.rows(figures(MAX_NODES + 1))
    is_truncated = len(calls) > MAX_EDGES or len(services) > MAX_NODES
    calls, found = calls[:MAX_EDGES], services[:MAX_NODES]
    missing = _missing(calls, found)
    if missing and len(services) > MAX_NODES:
        found += await store.rows(figures(len(missing), missing))
    found += [(name, 0, 0, 0, 0) for name in _missing(calls, found)]  # callers without a matching span
    return calls, sorted(found, key=lambda row: (-row[1], row[0])), is_truncated


def _missing(calls: Iterable[_Row], services: Iterable[_Row]) -> tuple[str, ...]:
    """The ends of calls that are not among the services."""
    known = {row[0] for row in services}
    return tuple(sorted({name for row in calls for name in row[:2]} - known))


def _mean(length_ns: int, count: int) -> msgspec.Raw | None:
    """The mean, rounded half up to the nanosecond, as in aggregates."""
    return msgspec.Raw(format_millis((2 * length_ns + count) // (2 * count))) if count else None
