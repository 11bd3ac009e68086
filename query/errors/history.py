"""One group of errors, and how often it occurred over the window."""

from collections.abc import Mapping
from dataclasses import dataclass

from chassis.validation import Issues, single
from query.analysis.buckets import default_minutes, labels
from query.asking.filters import Filter, conditions, parse_filters
from query.asking.instant import MINUTE, format_instant
from query.asking.parameters import FILTERS_PATH, read_time
from query.errors.groups import Asked, error_group, no_occurrences, read_groups
from query.errors.shapes import ErrorHistory, HistoryPoint
from query.fields import ERRORS
from query.formats import Range
from query.store import Store
from query.tree import ErrorSeries, KnownError


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request."""

    asked: Asked
    filters: tuple[Filter, ...]
    fingerprint: bytes


def plan(query: Mapping[str, str], project_id: int, fingerprint: bytes, now_ns: int) -> Plan:
    """Check everything that can be checked without the store; BadRequest names each offending field."""
    issues = Issues()
    window = read_time(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single(query, "filters", issues) or "", FILTERS_PATH, issues)
    tests = conditions(filters, ERRORS, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("without a window there is an issue")
    return Plan(Asked(project_id, window, tests), filters, fingerprint)


async def read_history(store: Store, plan: Plan) -> ErrorHistory | None:
    """The group as far as the window and the filters show it; None where the project has never had it."""
    await store.check_patterns(plan.filters, FILTERS_PATH)
    found = await read_groups(store, plan.asked, (plan.fingerprint,))
    if plan.fingerprint in found:
        fields = error_group(found[plan.fingerprint])
    else:
        type_ = await known_type(store, plan.asked.project_id, plan.fingerprint)
        if type_ is None:
            return None
        fields = no_occurrences(plan.fingerprint, type_)
    window, minutes = plan.asked.window, default_minutes(plan.asked.window)
    return ErrorHistory(
        **fields,
        range=Range(format_instant(window.from_ns), format_instant(window.to_ns)),
        interval_minutes=minutes,
        series=await _series(store, plan, minutes),
    )


async def known_type(store: Store, project_id: int, fingerprint: bytes) -> str | None:
    """The type of a group, however long ago it occurred; None for an unknown one."""
    rows = await store.rows(KnownError(project_id=project_id, fingerprint=fingerprint))
    return str(rows[0][0]) if rows else None


async def _series(store: Store, plan: Plan, minutes: int) -> list[HistoryPoint]:
    length = minutes * MINUTE
    statement = ErrorSeries(
        project_id=plan.asked.project_id,
        window=plan.asked.window,
        conditions=plan.asked.conditions,
        fingerprint=plan.fingerprint,
        interval_ns=length,
    )
    counts = dict(await store.rows(statement))
    first = plan.asked.window.from_ns // length
    return [HistoryPoint(label, counts.get(n, 0)) for n, label in enumerate(labels(plan.asked.window, minutes), first)]
