"""One error group, and how often it occurred over the window."""

from collections.abc import Mapping
from dataclasses import dataclass

from chassis.http.validation import Issues, single_value
from query.analysis.time_buckets import bucket_labels, default_interval_minutes
from query.error_groups.groups import (
    OccurrenceFilter,
    empty_group_fields,
    error_group_fields,
    read_first_ever,
    read_groups,
)
from query.error_groups.schemas import ErrorHistory, HistoryPoint
from query.fields import ERRORS
from query.json_types import Range
from query.read_store import ReadStore
from query.request.filters import Filter, conditions, parse_filters
from query.request.parameters import FILTERS_PATH, parse_time_range
from query.statements import ErrorGroupType, ErrorSeries
from query.timestamps import MINUTE, format_timestamp


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """A validated request."""

    occurrence_filter: OccurrenceFilter
    filters: tuple[Filter, ...]
    fingerprint: bytes


def plan(query: Mapping[str, str], project_id: int, fingerprint: bytes, now_ns: int) -> HistoryPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    resolved = conditions(filters, ERRORS, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a missing window must have an issue")
    return HistoryPlan(OccurrenceFilter(project_id, window, resolved), filters, fingerprint)


async def read_history(store: ReadStore, plan: HistoryPlan) -> ErrorHistory | None:
    """The group within the window and the filters; None if the project has never had it."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    found = await read_groups(store, plan.occurrence_filter, (plan.fingerprint,))
    if plan.fingerprint in found:
        fields = error_group_fields(found[plan.fingerprint])
    else:
        type_ = await find_error_type(store, plan.occurrence_filter.project_id, plan.fingerprint)
        if type_ is None:
            return None
        first_ever = await read_first_ever(store, plan.occurrence_filter.project_id, (plan.fingerprint,))
        fields = empty_group_fields(plan.fingerprint, type_, first_ever.get(plan.fingerprint))
    window, minutes = plan.occurrence_filter.window, default_interval_minutes(plan.occurrence_filter.window)
    return ErrorHistory(
        **fields,
        range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
        interval_minutes=minutes,
        series=await _read_series(store, plan, minutes),
    )


async def find_error_type(store: ReadStore, project_id: int, fingerprint: bytes) -> str | None:
    """The type of a group, however long ago it occurred; None for an unknown one."""
    rows = await store.rows(ErrorGroupType(project_id=project_id, fingerprint=fingerprint))
    return str(rows[0][0]) if rows else None


async def _read_series(store: ReadStore, plan: HistoryPlan, minutes: int) -> list[HistoryPoint]:
    length = minutes * MINUTE
    statement = ErrorSeries(
        project_id=plan.occurrence_filter.project_id,
        window=plan.occurrence_filter.window,
        conditions=plan.occurrence_filter.conditions,
        fingerprint=plan.fingerprint,
        interval_ns=length,
    )
    counts = dict(await store.rows(statement))
    first = plan.occurrence_filter.window.from_ns // length
    return [
        HistoryPoint(label, counts.get(n, 0))
        for n, label in enumerate(bucket_labels(plan.occurrence_filter.window, minutes), first)
    ]
