"""The keys of spans: GET .../explore/attributes (specification 4.2).

    plan   from, to, hours -> a window                                                                        -> 400
    read   attribute keys: complete five-minute buckets from the roll-up, the rest of the window from attribute lists;
           one query counts the spans that have each built-in field, and each key that is found in two locations. If
           many keys are, they are counted from the lists of all spans instead. If there are too many keys, an estimate
           in bounded memory selects the most frequent, and only these are counted, in complete buckets and only from
           the roll-up
           -> the keys as filters name them, with the keys of the most spans first

The count of a key is the number of spans that the filter `exists` finds. So if any span has `host` itself, spans with
`resource.host` count for `host` too.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from chassis.clickhouse import QueryTooLarge
from chassis.http.validation import Issues
from proto.storage.attribute_encoding import AFTER_KEY, BEFORE_KEY
from query.analysis.attribute_usage import (
    RESOURCE_PREFIX,
    AttributeSet,
    AttributeUsage,
    count_usage,
    double_resource_keys,
)
from query.read_store import MAX_RESULT_BYTES, ReadStore
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.request.parameters import checked, parse_time_range
from query.rows import SPANS, ColumnKind
from query.send_buffer import JsonResult
from query.statements import (
    BUCKET,
    Attribute,
    AttributeKeys,
    DistinctAttributeSets,
    NonFiniteCounts,
    PresenceCounts,
    RollupKeys,
    Subject,
    Window,
)
from query.values import Count

# Each subject adds about 1 ms of planning to the counting query. Reading the lists costs as much as 16 subjects.
_MAX_QUERIED_SUBJECTS: Final = 16
MAX_RECHECKED: Final = 16
MAX_ATTRIBUTE_SETS: Final = 20_000  # distinct sets that are parsed for one response
MAX_ATTRIBUTE_SET_BYTES: Final = 8 * 2**20  # about a second of CPU time
_MAX_GROUP_BY_KEYS: Final = 200_000  # keys, or lists of keys, that ClickHouse counts individually for one response
DOUBLE_MARKER: Final = f"{AFTER_KEY}d{BEFORE_KEY}"
_OPTIONAL: Final = tuple(field for field in SPANS.fields.values() if field.optional)
_NO_USAGE: Final = AttributeUsage(0, 0)
_UNNAMED: Final = ""  # in the roll-up: stands for attributes whose keys are not listed


class Key(msgspec.Struct, rename="camel"):
    """A key for filters and groups. `numeric`: whether its value is a finite number in all of these spans."""

    key: str
    spans: Count
    numeric: bool


class Keys(msgspec.Struct, rename="camel"):
    """Built-in fields and attributes, sorted by the number of spans, then by key."""

    # Specification 4.2.

    data: list[Key]


class _AttributeCounts(NamedTuple):
    """The number of spans that have `name`, and of spans where it is a number; and both numbers for
    `resource.<name>`."""

    name: str
    spans: int
    numbers: int
    resource_spans: int
    resource_numbers: int

    @property
    def is_numeric(self) -> bool:
        return self.numbers == self.spans

    @property
    def is_resource_numeric(self) -> bool:
        return self.resource_numbers == self.resource_spans


def plan(query: Mapping[str, str], now_ns: int) -> Window:
    """The requested window; BadRequest names each offending parameter."""
    issues = Issues()
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    return checked(window, issues)


async def read(store: ReadStore, project_id: int, window: Window, max_keys: int) -> JsonResult:
    """The built-in fields that at least one span has, and at most `max_keys` attributes, as JSON. Raises
    StoreErrors."""
    counts_by_attribute, truncated = await _read_attributes(store, project_id, window, max_keys + 1)
    truncated, counts_by_attribute = truncated or len(counts_by_attribute) > max_keys, counts_by_attribute[:max_keys]
    own_only, shared = (
        [each for each in counts_by_attribute if not each.resource_spans],
        [each for each in counts_by_attribute if each.resource_spans],
    )
    attribute_sets = (
        await _read_attribute_sets(store, project_id, window) if len(shared) > _MAX_QUERIED_SUBJECTS else None
    )
    if attribute_sets is None:
        truncated, shared = truncated or len(shared) > _MAX_QUERIED_SUBJECTS, shared[:_MAX_QUERIED_SUBJECTS]
    queried = tuple(Attribute(each.name) for each in shared) if attribute_sets is None else ()
    statement = PresenceCounts(project_id=project_id, window=window, present=(*_OPTIONAL, *queried))
    ((total, *counts),) = await store.rows(statement)
    if not total:
        return JsonResult(msgspec.json.encode(Keys([])))
    present = dict(zip(statement.present, counts, strict=True))
    keys = [_key(each.name, each.spans, all_numbers=each.is_numeric) for each in own_only]
    if attribute_sets is None:
        keys += await _count_by_query(store, statement, shared, present)
    else:
        keys += await _count_by_sets(store, statement, shared, attribute_sets)
    keys += _own_fields(total, present)
    body = Keys(sorted(keys, key=lambda key: (-key.spans, key.key)))
    return JsonResult(msgspec.json.encode(body), "keys" if truncated else "")


def split_buckets(window: Window) -> tuple[Window | None, tuple[Window, ...]]:
    """The complete buckets of a window, and the rest of it at either end."""
    first, last = -(-window.from_ns // BUCKET) * BUCKET, window.to_ns // BUCKET * BUCKET
    if first >= last:
        return None, (window,)
    ends = ((window.from_ns, first), (last, window.to_ns))
    return Window(first, last), tuple(Window(start, end) for start, end in ends if start < end)


async def _read_attributes(
    store: ReadStore, project_id: int, window: Window, limit: int
) -> tuple[list[_AttributeCounts], bool]:
    """The attributes with the most spans, at most `limit`, and whether more are known to exist. If there are too many
    to be summed here, ClickHouse sums them, although planning such a query takes longer than running it.
    """
    whole_buckets, partial_buckets = split_buckets(window)
    keys: Mapping[str, AttributeUsage] | None = {}
    if whole_buckets is not None:
        keys = await _read_rollup(store, project_id, whole_buckets, limit)
    partial_usage = await _read_partial_buckets(store, project_id, partial_buckets) if keys is not None else None
    truncated = keys is None or _UNNAMED in keys
    if keys is not None and partial_usage is not None:
        return _filterable_attributes(_sum_usage(keys, partial_usage))[:limit], truncated
    statement = AttributeKeys(
        project_id=project_id, whole_buckets=whole_buckets, partial_buckets=partial_buckets, limit=limit
    )
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, _MAX_GROUP_BY_KEYS)
    except QueryTooLarge:
        estimate = replace(statement, whole_buckets=_covering_buckets(window), partial_buckets=(), estimated=True)
        rows, truncated = await store.rows(estimate), True
    return [_AttributeCounts._make(row) for row in rows], truncated


def _covering_buckets(window: Window) -> Window:
    """All buckets that overlap a window."""
    return Window(window.from_ns // BUCKET * BUCKET, -(-window.to_ns // BUCKET) * BUCKET)


async def _read_rollup(
    store: ReadStore, project_id: int, whole_buckets: Window, limit: int
) -> Mapping[str, AttributeUsage] | None:
    """The attributes of complete buckets; None if there are `limit` or more."""
    statement = RollupKeys(project_id=project_id, whole_buckets=whole_buckets, limit=limit)
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, limit)
    except QueryTooLarge:
        return None
    return {key: AttributeUsage(spans, numbers) for key, spans, numbers in rows} if len(rows) < limit else None


async def _read_partial_buckets(
    store: ReadStore, project_id: int, partial_buckets: tuple[Window, ...]
) -> Mapping[str, AttributeUsage] | None:
    """The attributes of partial buckets; None if they have too many distinct lists."""
    lists = await _read_attribute_sets(store, project_id, *partial_buckets) if partial_buckets else []
    if not lists:
        return {} if lists is not None else None
    keys = await asyncio.to_thread(count_usage, lists)
    if any(DOUBLE_MARKER in each.attribute_types for each in lists):
        rows = await store.rows(NonFiniteCounts(project_id=project_id, windows=partial_buckets))
        keys = _sum_usage(keys, {key: AttributeUsage(0, -spans) for key, spans in rows})
    return keys


async def _read_attribute_sets(store: ReadStore, project_id: int, *windows: Window) -> list[AttributeSet] | None:
    """The distinct lists of the spans of `windows`; None if there are too many."""
    statement = DistinctAttributeSets(project_id=project_id, windows=windows)
    try:
        rows = await store.rows(statement, MAX_ATTRIBUTE_SET_BYTES, MAX_ATTRIBUTE_SETS)
    except QueryTooLarge:
        return None
    return [AttributeSet._make(row) for row in rows]


def _sum_usage(keys: Mapping[str, AttributeUsage], others: Mapping[str, AttributeUsage]) -> dict[str, AttributeUsage]:
    sums = dict(keys)
    for key, other in others.items():
        usage = sums.get(key, _NO_USAGE)
        sums[key] = AttributeUsage(usage.spans + other.spans, usage.numbers + other.numbers)
    return sums


def _filterable_attributes(keys: Mapping[str, AttributeUsage]) -> list[_AttributeCounts]:
    """The attributes that a filter can name; attributes of the most spans come first."""
    named = ((name, found) for name, found in keys.items() if found.spans and 1 <= len(name) <= MAX_KEY)
    counts = [_AttributeCounts(name, *found, *keys.get(RESOURCE_PREFIX + name, _NO_USAGE)) for name, found in named]
    return sorted(counts, key=lambda each: (-each.spans - each.resource_spans, each.name))


def _key(name: str, spans: int, *, all_numbers: bool) -> Key:
    """The attribute `name`, named as in a filter."""
    forced = name in SPANS.fields or name.startswith(ATTRIBUTE_PREFIX)
    return Key(ATTRIBUTE_PREFIX + name if forced else name, spans, all_numbers)


def _own_fields(total: int, present: Mapping[Subject, int]) -> list[Key]:
    found = ((field, present.get(field, total)) for field in SPANS.fields.values())
    return [Key(field.name, spans, field.kind is ColumnKind.DURATION) for field, spans in found if spans]


async def _count_by_sets(
    store: ReadStore,
    statement: PresenceCounts,
    shared: Sequence[_AttributeCounts],
    attribute_sets: Sequence[AttributeSet],
) -> list[Key]:
    """Count keys that were found in two locations from the lists of all spans. The roll-up shows whether the spans' own
    values are all numbers, but not whether a span's own double named `resource.<name>` is finite. A query checks up to
    MAX_RECHECKED such keys; the rest count as not numeric.
    """
    usage_by_key = await asyncio.to_thread(count_usage, attribute_sets, frozenset(each.name for each in shared))
    numbers = {each.name for each in shared if each.is_numeric and usage_by_key.get(each.name, _NO_USAGE).is_numeric}
    doubles = double_resource_keys(attribute_sets)
    doubtful = [each.name for each in shared if each.name in numbers & doubles and not each.is_resource_numeric]
    numeric_counts = await _read_numeric_counts(store, statement, doubtful[:MAX_RECHECKED])
    numbers -= {name for name in doubtful if numeric_counts.get(name) != usage_by_key[name].spans}
    return [_key(name, usage.spans, all_numbers=name in numbers) for name, usage in usage_by_key.items()]


async def _count_by_query(
    store: ReadStore, statement: PresenceCounts, shared: Sequence[_AttributeCounts], present: Mapping[Subject, int]
) -> list[Key]:
    """Count keys that were found in two locations with a query. Whether a key is numeric usually follows from the
    counts; if not, a second query checks it.
    """
    unclear = [each.name for each in shared if each.is_numeric and not each.is_resource_numeric]
    numeric_counts = await _read_numeric_counts(store, statement, unclear)
    keys = []
    for each in shared:
        spans = present[Attribute(each.name)]
        keys.append(
            _key(each.name, spans, all_numbers=each.is_numeric and numeric_counts.get(each.name, spans) == spans)
        )
    return keys


async def _read_numeric_counts(store: ReadStore, statement: PresenceCounts, names: Sequence[str]) -> dict[str, int]:
    """The number of spans in which each of the attributes `names` is a number."""
    if not names:
        return {}
    ((_, *counts),) = await store.rows(replace(statement, present=(), numbers=tuple(map(Attribute, names))))
    return dict(zip(names, counts, strict=True))
