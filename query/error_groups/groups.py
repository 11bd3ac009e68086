"""Reads the details of error groups, only for the groups on a page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from chassis.clickhouse import QueryTooLarge
from chassis.db.database import Database, DatabaseUnavailable
from chassis.issues import IssueState, read_states
from query.error_groups.occurrences import OccurrenceKey, occurrence_id
from query.error_groups.schemas import (
    SPARKLINE_PARTS,
    EnvironmentExtent,
    ErrorIssue,
    ListedErrorGroup,
    ReleaseExtent,
    ServiceExtent,
    SourceExtent,
)
from query.read_store import ReadStore
from query.rows import text_size
from query.statements import (
    Condition,
    ErrorFacets,
    ErrorSparklines,
    ErrorTraces,
    FirstOccurrences,
    LatestOccurrences,
    Window,
)
from query.values import format_timestamp

MAX_FACET_VALUES: Final = 20  # values shown per kind
# Combinations of release, environment, service and source of all errors of a page, counted at once.
MAX_FACET_COMBINATIONS: Final = 500_000
_WHOLE, _RELEASE, _ENVIRONMENT, _SERVICE, _SOURCE = range(5)  # the kinds of `query.sql.error_groups.facets`


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_PER_MICRO: Final = 1_000


@dataclass(frozen=True, slots=True)
class OccurrenceFilter:
    """The occurrences that are counted."""

    project_id: int
    window: Window
    conditions: tuple[Condition, ...]


class Facet(NamedTuple):
    """A value of one kind in one group, with its count and its first and last time. For the kind: the number of its
    values, the first value and the last value.
    """

    fingerprint: bytes
    kind: int
    value: str
    occurrences: int
    first_ns: int
    last_ns: int
    values: int
    first_value: str
    last_value: str


class LatestOccurrence(NamedTuple):
    """The latest occurrence of a group."""

    fingerprint: bytes
    type: str
    message: str
    batch_id: int
    row: int


@dataclass(frozen=True, slots=True)
class ErrorGroupRows:
    """The rows of one group. `first_ever_ns`: its first time in the project; None if that is not known."""

    facets: tuple[Facet, ...]
    latest: LatestOccurrence
    first_ever_ns: int | None
    traces: int
    traces_exact: bool
    facets_exact: bool

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint that identifies the group."""
        return self.facets[0].fingerprint

    @property
    def text_bytes(self) -> int:
        """The approximate size of its text in bytes."""
        return text_size(self.latest) + sum(map(text_size, self.facets))


async def read_groups(
    store: ReadStore, occurrence_filter: OccurrenceFilter, fingerprints: Sequence[bytes]
) -> dict[bytes, ErrorGroupRows]:
    """Read the groups that have an occurrence. Raises StoreErrors."""
    if not fingerprints:
        return {}
    common: dict[str, Any] = {
        "project_id": occurrence_filter.project_id,
        "window": occurrence_filter.window,
        "conditions": occurrence_filter.conditions,
    }
    facets, facets_exact = await _read_facets(
        store, ErrorFacets(**common, fingerprints=tuple(fingerprints), limit=MAX_FACET_VALUES)
    )
    if not facets:
        return {}
    traces, traces_exact = await _read_trace_counts(store, ErrorTraces(**common, fingerprints=tuple(facets)))
    latest = await _read_latest(store, occurrence_filter, facets)
    first_ever = await read_first_ever(store, occurrence_filter.project_id, tuple(facets))
    # If a partition was dropped between two reads, its groups are not shown.
    return {
        each: ErrorGroupRows(
            facets[each],
            latest[each],
            first_ever.get(each),
            traces[each],
            traces_exact,
            # If all values are shown, no number is estimated.
            facets_exact or all(facet.values <= MAX_FACET_VALUES for facet in facets[each]),
        )
        for each in facets
        if each in latest and each in traces
    }


async def read_first_ever(store: ReadStore, project_id: int, fingerprints: tuple[bytes, ...]) -> dict[bytes, int]:
    """The first time of each group in the project; empty if the project has more occurrences than may be read."""
    try:
        return dict(await store.rows(FirstOccurrences(project_id=project_id, fingerprints=fingerprints)))
    except QueryTooLarge:
        return {}


async def read_sparklines(
    store: ReadStore, occurrence_filter: OccurrenceFilter, fingerprints: Sequence[bytes]
) -> dict[bytes, list[int]]:
    """The number of occurrences of each group in each part of the window. Raises StoreErrors."""
    found = {each: [0] * SPARKLINE_PARTS for each in fingerprints}
    if not found:
        return found
    statement = ErrorSparklines(
        project_id=occurrence_filter.project_id,
        window=occurrence_filter.window,
        conditions=occurrence_filter.conditions,
        fingerprints=tuple(found),
        parts=SPARKLINE_PARTS,
    )
    for fingerprint, part, occurrences in await store.rows(statement):
        found[fingerprint][part] = occurrences
    return found


def error_group_fields(group: ErrorGroupRows) -> dict[str, Any]:
    """The fields of an ErrorGroup."""
    kinds = {kind: tuple(found) for kind, found in groupby(group.facets, lambda facet: facet.kind)}
    (total,), latest, releases = kinds[_WHOLE], group.latest, kinds[_RELEASE]
    return {
        "fingerprint": total.fingerprint.hex(),
        "type": latest.type or None,
        "message": latest.message or None,
        **_extent(total),
        "first_ever": _shown(group.first_ever_ns),
        "first_release": releases[0].first_value or None,
        "last_release": releases[0].last_value or None,
        "latest_occurrence_id": occurrence_id(OccurrenceKey(total.last_ns, latest.batch_id, latest.row)),
        "traces": group.traces,
        "traces_exact": group.traces_exact,
        "facets_exact": group.facets_exact,
        "releases": [ReleaseExtent(**_extent(each), release=each.value or None) for each in releases],
        "release_count": releases[0].values,
        "environments": [EnvironmentExtent(**_extent(each), environment=each.value) for each in kinds[_ENVIRONMENT]],
        "environment_count": kinds[_ENVIRONMENT][0].values,
        "services": [ServiceExtent(**_extent(each), service_name=each.value or None) for each in kinds[_SERVICE]],
        "service_count": kinds[_SERVICE][0].values,
        "sources": [SourceExtent(**_extent(each), source=each.value) for each in kinds[_SOURCE]],
    }


def empty_group_fields(fingerprint: bytes, type_: str, first_ever_ns: int | None) -> dict[str, Any]:
    """The fields of an ErrorGroup without occurrences in the window."""
    absent = ("message", "first_seen", "last_seen", "first_release", "last_release", "latest_occurrence_id")
    return {
        "fingerprint": fingerprint.hex(),
        "type": type_ or None,
        "first_ever": _shown(first_ever_ns),
        **dict.fromkeys(absent),
        **dict.fromkeys(("count", "traces", "release_count", "environment_count", "service_count"), 0),
        "traces_exact": True,
        "facets_exact": True,
        **{name: [] for name in ("releases", "environments", "services", "sources")},
    }


def to_listed_group(
    group: ErrorGroupRows, series: list[int], states: Mapping[bytes, IssueState] | None
) -> ListedErrorGroup:
    """A group as lists show it. `states`: the issues; None while they cannot be read."""
    return ListedErrorGroup(**error_group_fields(group), series=series, issue=error_issue(states, group.fingerprint))


def _extent(facet: Facet) -> dict[str, Any]:
    return {
        "count": facet.occurrences,
        "first_seen": format_timestamp(facet.first_ns),
        "last_seen": format_timestamp(facet.last_ns),
    }


def _shown(time_ns: int | None) -> str | None:
    return None if time_ns is None else format_timestamp(time_ns)


async def _read_facets(store: ReadStore, statement: ErrorFacets) -> tuple[dict[bytes, tuple[Facet, ...]], bool]:
    """Facets by group, and whether all values were counted: if every occurrence had a release of its own, the values
    would not fit in memory.
    """
    try:
        rows, exact = await store.rows(statement, max_groups=MAX_FACET_COMBINATIONS), True
    except QueryTooLarge:
        rows, exact = await store.rows(replace(statement, exact=False)), False
    groups = groupby(map(Facet._make, rows), lambda facet: facet.fingerprint)
    return {each: tuple(found) for each, found in groups}, exact


async def _read_trace_counts(store: ReadStore, statement: ErrorTraces) -> tuple[dict[bytes, int], bool]:
    """The number of traces by group, and whether the numbers are exact: tens of millions of traces can only be
    estimated within the memory limit.
    """
    try:
        return dict(await store.rows(statement)), True
    except QueryTooLarge:
        return dict(await store.rows(replace(statement, exact=False))), False


async def _read_latest(
    store: ReadStore, occurrence_filter: OccurrenceFilter, facets: dict[bytes, tuple[Facet, ...]]
) -> dict[bytes, LatestOccurrence]:
    fingerprint_times = tuple((each, found[0].last_ns) for each, found in facets.items())
    times = [time_ns for _, time_ns in fingerprint_times]
    window = Window(min(times), max(times) + 1)
    statement = LatestOccurrences(
        project_id=occurrence_filter.project_id,
        window=window,
        conditions=occurrence_filter.conditions,
        fingerprint_times=fingerprint_times,
    )
    return {row[0]: LatestOccurrence._make(row) for row in await store.rows(statement)}


@dataclass(frozen=True, slots=True)
class IssueStates:
    """Reads the issues that errors belong to from the relational database. `clock` returns nanoseconds since 1970."""

    database: Database
    clock: Callable[[], int]

    async def read(self, project_id: int, fingerprints: Sequence[bytes]) -> Mapping[bytes, IssueState] | None:
        """The issues by fingerprint; None while the database is unavailable: then errors are shown without their
        issues."""
        if not fingerprints:
            return {}
        now = _EPOCH + timedelta(microseconds=self.clock() // _NANOS_PER_MICRO)
        try:
            async with self.database.read() as connection:
                return await read_states(connection, project_id, fingerprints, now)
        except DatabaseUnavailable:
            return None


def error_issue(states: Mapping[bytes, IssueState] | None, fingerprint: bytes) -> ErrorIssue | UnsetType | None:
    """The field `issue` of an error."""
    if states is None:
        return UNSET
    state = states.get(fingerprint)
    return None if state is None else ErrorIssue(state.id, state.short_id, state.status)
