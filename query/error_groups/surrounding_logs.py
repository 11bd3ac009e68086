"""The log records around a point in time, of a trace or of a service."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from query.error_groups.schemas import LogContext, LogPart
from query.fields import LOGS
from query.read_store import ReadStore
from query.rows import OccurrenceColumns, text_size
from query.search.listing import read_bounded
from query.search.serializers import log
from query.statements import Condition, Listing, TextIn
from query.statements.window import Window, slices, slices_oldest_first
from query.timestamps import HOUR, MAX_NANOS
from query.trace_windows import trace_windows

SERVICE_LOGS_RADIUS_NS: Final = HOUR  # how far from the occurrence a service's records are searched


@dataclass(frozen=True, slots=True)
class SurroundingLogs:
    """Rows of LOG_SELECT on both sides of a point in time, nearest first, and whether there are more beyond."""

    scope: str
    before: tuple[list[tuple[Any, ...]], bool]
    after: tuple[list[tuple[Any, ...]], bool]


async def read_surrounding_logs(
    store: ReadStore, project_id: int, occurrence: OccurrenceColumns, moment_ns: int, limit: int
) -> SurroundingLogs | None:
    """At most `limit` records on each side of `moment_ns`, of at most half a page's bytes. None if there is neither a
    trace with records nor a service.
    """
    moment_ns = min(moment_ns, MAX_NANOS - 2)
    scoped = await _scope(store, project_id, occurrence, moment_ns)
    if scoped is None:
        return None
    scope, statement = scoped
    budget = store.max_page_bytes // 2
    before = statement.window.intersect(Window(0, moment_ns + 1))
    after = statement.window.intersect(Window(moment_ns + 1, MAX_NANOS))
    return SurroundingLogs(
        scope,
        await _nearest(store, statement, slices(before) if before else iter(()), limit, budget),
        await _nearest(
            store,
            replace(statement, oldest_first=True),
            slices_oldest_first(after) if after else iter(()),
            limit,
            budget,
        ),
    )


def log_context(logs: SurroundingLogs) -> LogContext:
    """The records as a response: in order of time."""
    before, more_before = logs.before
    after, more_after = logs.after
    return LogContext(
        logs.scope,
        LogPart([log(row) for row in reversed(before)], more_before),
        LogPart([log(row) for row in after], more_after),
    )


async def _scope(
    store: ReadStore, project_id: int, occurrence: OccurrenceColumns, moment_ns: int
) -> tuple[str, Listing] | None:
    """The log records to choose from: of the trace, if it has any, else of the service in its environment."""
    if any(occurrence.trace_id):
        trace_window = (await trace_windows(store, project_id, occurrence.trace_id)).get(LOGS.trace_index_code)
        if trace_window is not None:
            listing = Listing(
                project_id=project_id, signal=LOGS, window=trace_window, trace_id=occurrence.trace_id, limit=1
            )
            return "trace", listing
    if not occurrence.service_name:
        return None
    window = Window(max(0, moment_ns - SERVICE_LOGS_RADIUS_NS), min(MAX_NANOS, moment_ns + SERVICE_LOGS_RADIUS_NS))
    names = {"serviceName": occurrence.service_name, "environment": occurrence.environment}
    conditions = tuple(Condition(LOGS.fields[field], TextIn((name,))) for field, name in names.items())
    return "service", Listing(project_id=project_id, signal=LOGS, window=window, conditions=conditions, limit=1)


async def _nearest(
    store: ReadStore, statement: Listing, parts: Iterator[Window], limit: int, budget: int
) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows, read from one part of the time range after the other; and whether there are more."""
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        found, is_cut = await read_bounded(
            store, replace(statement, window=part), limit + 1 - len(rows), budget, bool(rows)
        )
        rows += found
        budget -= sum(map(text_size, found))
        if len(rows) > limit or is_cut:
            return rows[:limit], True
    return rows, False
