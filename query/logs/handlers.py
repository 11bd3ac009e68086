"""The log endpoints that count, each a list of steps from the request to one response; and the keys of log records,
GET .../explore/logs/attributes:

    read_log_keys   the newest records of the window, within a limit (`query.analysis.windows`); the distinct lists of
                    keys that they share, each parsed once; if there are too many lists, fewer records are read
                    -> the keys as filters name them, with the keys of the most records first

The count of a key is the number of records that the filter `exists` finds. So if any record has `host` itself, records
with `resource.host` count for `host` too.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from chassis.clickhouse import QueryTooLarge
from query.analysis import attribute_values, windows
from query.analysis.attribute_usage import RESOURCE_PREFIX, AttributeSet, AttributeUsage, count_usage
from query.analysis.attributes import DOUBLE_MARKER, MAX_ATTRIBUTE_SET_BYTES, MAX_ATTRIBUTE_SETS, MAX_RECHECKED
from query.analysis.attributes import plan as plan_window
from query.logs import counts
from query.read_store import ReadStore
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.routing import FILTERS_OF_LOGS, LOG_TAG, TIME, Endpoints, analysis, explore, get_project_id
from query.rows import LOGS, ColumnKind
from query.scheduler import QueryKey
from query.send_buffer import TRUNCATED_HEADER, JsonResult
from query.settings import QuerySettings
from query.statements import Attribute, DistinctAttributeSets, NonFiniteCounts, PresenceCounts, Window
from query.values import Range, format_timestamp

# Only the newest records are read: without a roll-up, a million takes half a second on one processor.
MAX_RECORDS: Final = 5_000_000
_SHRINK_FACTOR: Final = 16
_BODY: Final = LOGS.fields["body"]
_OPTIONAL: Final = tuple(field for field in LOGS.fields.values() if field.optional or field is _BODY)


class _Lists(NamedTuple):
    """The distinct lists of the records of a window."""

    scan_window: windows.ScanWindow
    lists: list[AttributeSet]


async def read_log_keys(store: ReadStore, settings: QuerySettings, project_id: int, window: Window) -> JsonResult:
    """The built-in fields that at least one record has, and at most `settings.max_attribute_keys` attributes, as JSON.
    Raises StoreErrors.
    """
    scan_window, lists = await _read_lists(store, project_id, window, min(settings.max_scan_rows, MAX_RECORDS))
    keys, truncated = list[counts.LogKey](), False
    if scan_window.spans:
        usage = await asyncio.to_thread(_count, lists)
        shown = sorted(usage, key=lambda key: (-usage[key].spans, key))[: settings.max_attribute_keys]
        truncated = len(shown) < len(usage)
        not_numeric = await _read_not_numeric(store, project_id, scan_window.window, lists, usage)
        keys = [_key(key, usage[key].spans, numeric=usage[key].is_numeric and key not in not_numeric) for key in shown]
        keys += await _read_fields(store, project_id, scan_window.window)
    body = counts.LogKeys(
        data=sorted(keys, key=lambda key: (-key.records, key.key)),
        range=Range(format_timestamp(scan_window.window.from_ns), format_timestamp(scan_window.window.to_ns)),
        scanned=scan_window.spans,
        scan_truncated=scan_window.truncated,
    )
    return JsonResult(msgspec.json.encode(body), "keys" if truncated else "")


async def _read_lists(store: ReadStore, project_id: int, window: Window, limit: int) -> _Lists:
    """The lists of the newest `limit` records, or of fewer records if there are too many lists or they are too long."""
    while True:
        scan_window = await windows.newest_within_limit(store, project_id, window, limit, LOGS)
        if not scan_window.spans:
            return _Lists(scan_window, [])
        statement = DistinctAttributeSets(project_id=project_id, windows=(scan_window.window,), signal=LOGS)
        try:
            rows = await store.rows(statement, MAX_ATTRIBUTE_SET_BYTES, MAX_ATTRIBUTE_SETS)
        except QueryTooLarge:
            if limit == 1:
                raise
            limit = max(1, min(limit, scan_window.spans) // _SHRINK_FACTOR)
        else:
            return _Lists(scan_window, [AttributeSet._make(row) for row in rows])


def _count(lists: Sequence[AttributeSet]) -> dict[str, AttributeUsage]:
    """Each key of `attributes` that a filter can name, as the filter finds it."""
    named = frozenset(key for key in count_usage(lists) if 1 <= len(key) <= MAX_KEY)
    return count_usage(lists, named)


async def _read_not_numeric(
    store: ReadStore,
    project_id: int,
    window: Window,
    lists: Sequence[AttributeSet],
    usage: dict[str, AttributeUsage],
) -> set[str]:
    """The keys that are not numeric although their lists have only numbers: lists do not show whether a double is
    finite. A record's own double named `resource.<key>` may or may not be the value of the key. A query checks up to
    MAX_RECHECKED such keys; the rest count as not numeric.
    """
    if not any(DOUBLE_MARKER in each.attribute_types for each in lists):
        return set()
    rows = await store.rows(NonFiniteCounts(project_id=project_id, windows=(window,), signal=LOGS))
    found = {key for key, _ in rows}
    beneath = {key.removeprefix(RESOURCE_PREFIX) for key in found if key.startswith(RESOURCE_PREFIX)}
    doubtful = sorted(key for key in beneath - found if key in usage and usage[key].is_numeric)
    checked = doubtful[:MAX_RECHECKED]
    if checked:
        numbers = tuple(map(Attribute, checked))
        statement = PresenceCounts(project_id=project_id, window=window, numbers=numbers, signal=LOGS)
        ((_, *numeric),) = await store.rows(statement)
        for key, records in zip(checked, numeric, strict=True):
            if records < usage[key].spans:
                found.add(key)
    return found | set(doubtful[MAX_RECHECKED:])


async def _read_fields(store: ReadStore, project_id: int, window: Window) -> list[counts.LogKey]:
    """The built-in fields that at least one record has."""
    statement = PresenceCounts(project_id=project_id, window=window, present=_OPTIONAL, numbers=(_BODY,), signal=LOGS)
    ((total, *found_in, numeric_bodies),) = await store.rows(statement)
    present = dict(zip(_OPTIONAL, found_in, strict=True))
    found = ((field, present.get(field, total)) for field in LOGS.fields.values())
    return [
        counts.LogKey(
            field.name,
            records,
            numeric=field.kind is ColumnKind.INTEGER or (field is _BODY and numeric_bodies == records),
        )
        for field, records in found
        if records
    ]


def _key(name: str, records: int, *, numeric: bool) -> counts.LogKey:
    """The attribute `name`, named as in a filter."""
    forced = name in LOGS.fields or name.startswith(ATTRIBUTE_PREFIX)
    return counts.LogKey(ATTRIBUTE_PREFIX + name if forced else name, records, numeric)


class LogHandlers(Endpoints):
    """The endpoints over each principal's read store."""

    @explore(
        LOG_TAG,
        "/logs/attributes",
        counts.LogKeys,
        *TIME,
        headers={TRUNCATED_HEADER: "`keys` if there are more keys than were listed."},
    )
    async def list_log_attributes(self, request: web.Request) -> web.StreamResponse:
        """List the keys of log records.

        The keys are built-in fields and attributes of the newest records of the window, named as in filters and groups.
        The count of a key is the number of records that the filter `exists` finds.
        """
        project_id, window = get_project_id(request), plan_window(request.query, self.clock())
        key = QueryKey.of("log attributes", project_id, window, to_ns=window.to_ns)
        return await self.respond(request, key, lambda store: read_log_keys(store, self.settings, project_id, window))

    @explore(
        LOG_TAG,
        "/logs/attributes/values",
        attribute_values.AttributeValues,
        *attribute_values.values_of(FILTERS_OF_LOGS, "serviceName"),
    )
    async def list_log_attribute_values(self, request: web.Request) -> web.StreamResponse:
        """List the values of a key of log records, the most frequent first.

        Only the newest million records of the window are read. `complete` tells whether these were all records.
        """
        project_id, planned = get_project_id(request), attribute_values.plan(request.query, self.clock(), LOGS)
        key = QueryKey.of("log attribute values", project_id, planned, to_ns=planned.window.to_ns)
        return await self.respond(request, key, lambda store: attribute_values.read(store, project_id, planned))

    @analysis(
        LOG_TAG,
        "/logs/aggregate",
        counts.LogCountsRequest,
        counts.LogCounts,
        "Without `groupBy`, all records are one group.",
        {
            "groupBy": "severityNumber",
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
            "hours": 3,
            "limit": 25,
            "intervalSeconds": 300,
        },
    )
    async def aggregate_logs(self, request: web.Request) -> web.StreamResponse:
        """Count log records by group, over time.

        Counts are exact for the part of the window that `range` shows. The response has the groups with the most
        records.
        """
        return await self.analyse(request, "log counts", counts.plan, counts.read, counts.build_response)
