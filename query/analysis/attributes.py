"""Which keys spans carry: GET .../explore/attributes (specification 4.2).

    plan   from, to, hours -> a window                                                                        -> 400
    read   attribute keys: whole five minutes from the roll-up, the rest of the window from the lists of its spans
           a tally of the spans: how many have each own field, and the keys that are found in two places while these
           are few; many are counted from the lists of all spans. Of very many keys those are counted that an estimate
           in bounded memory takes for the most frequent, in whole five minutes and by the roll-up alone
           -> the keys as filters take them, those of most spans first

A key counts the spans that the filter `exists` finds with it: as soon as any span carries `host` itself, those with
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
from query.fields import SPANS, ColumnKind
from query.json_types import Count
from query.read_store import MAX_RESULT_BYTES, ReadStore
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.request.parameters import parse_time_range
from query.statements import (
    Attribute,
    AttributeKeys,
    DistinctAttributeSets,
    NonFiniteCounts,
    PresenceCounts,
    RollupKeys,
    Subject,
)
from query.statements.window import BUCKET, Window

_MAX_QUERIED_SUBJECTS: Final = (
    16  # a subject costs a tally about 1 ms of planning, and a span of lists as much as 16 of them
)
_MAX_RECHECKED: Final = 16
_MAX_ATTRIBUTE_SETS: Final = 20_000  # distinct ones that are taken apart for one answer
_MAX_ATTRIBUTE_SET_BYTES: Final = 8 * 2**20  # about a second of the processor
_MAX_GROUP_BY_KEYS: Final = 200_000  # keys, or lists of them, that the engine counts each of for one answer
_DOUBLE_MARKER: Final = f"{AFTER_KEY}d{BEFORE_KEY}"
_OPTIONAL: Final = tuple(field for field in SPANS.fields.values() if field.optional)
_NO_USAGE: Final = AttributeUsage(0, 0)
_UNNAMED: Final = ""  # of the roll-up: what spans carry under keys that it does not name


class Key(msgspec.Struct, rename="camel"):
    """What a filter or a group takes as its key. `numeric`: for all of these spans it is a finite number."""

    key: str
    spans: Count
    numeric: bool


class Keys(msgspec.Struct, rename="camel"):
    """Own fields and attributes, those of most spans first, then by key."""

    # Specification 4.2.

    data: list[Key]


class AttributeKeysResult(NamedTuple):
    """The answer, and whether there are more attributes than it has."""

    keys: Keys
    truncated: bool


class _AttributeCounts(NamedTuple):
    """Spans that carry `name`, and those where it is a number; the same of `resource.<name>`."""

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
    """The window that is asked for; BadRequest names each offending parameter."""
    issues = Issues()
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a time that gives no window has an issue")
    return window


async def read(store: ReadStore, project_id: int, window: Window, max_keys: int) -> AttributeKeysResult:
    """The own fields that any span has, and at most `max_keys` attributes. Raises StoreErrors."""
    carried, cut = await _read_attributes(store, project_id, window, max_keys + 1)
    cut, carried = cut or len(carried) > max_keys, carried[:max_keys]
    alone, shared = (
        [each for each in carried if not each.resource_spans],
        [each for each in carried if each.resource_spans],
    )
    lists = await _read_attribute_sets(store, project_id, window) if len(shared) > _MAX_QUERIED_SUBJECTS else None
    if lists is None:
        cut, shared = cut or len(shared) > _MAX_QUERIED_SUBJECTS, shared[:_MAX_QUERIED_SUBJECTS]
    tallied = tuple(Attribute(each.name) for each in shared) if lists is None else ()
    tally = PresenceCounts(project_id=project_id, window=window, present=(*_OPTIONAL, *tallied))
    ((total, *counts),) = await store.rows(tally)
    if not total:
        return AttributeKeysResult(Keys([]), truncated=False)
    present = dict(zip(tally.present, counts, strict=True))
    keys = [_key(each.name, each.spans, all_numbers=each.is_numeric) for each in alone]
    if lists is None:
        keys += await _count_by_query(store, tally, shared, present)
    else:
        keys += await _count_by_sets(store, tally, shared, lists)
    keys += _own_fields(total, present)
    return AttributeKeysResult(Keys(sorted(keys, key=lambda key: (-key.spans, key.key))), truncated=cut)


def split_buckets(window: Window) -> tuple[Window | None, tuple[Window, ...]]:
    """The whole buckets of a window, and what is left of it at either end."""
    first, last = -(-window.from_ns // BUCKET) * BUCKET, window.to_ns // BUCKET * BUCKET
    if first >= last:
        return None, (window,)
    ends = ((window.from_ns, first), (last, window.to_ns))
    return Window(first, last), tuple(Window(start, end) for start, end in ends if start < end)


async def _read_attributes(
    store: ReadStore, project_id: int, window: Window, limit: int
) -> tuple[list[_AttributeCounts], bool]:
    """The attributes of most spans, at most `limit`, and whether there are others for certain. Where they are too many
    to be added up here, the engine does it, which takes it longer to plan than to run.
    """
    whole, edges = split_buckets(window)
    keys: Mapping[str, AttributeUsage] | None = {}
    if whole is not None:
        keys = await _read_rollup(store, project_id, whole, limit)
    at_edges = await _read_partial_buckets(store, project_id, edges) if keys is not None else None
    unnamed = keys is None or _UNNAMED in keys
    if keys is not None and at_edges is not None:
        return _filterable_attributes(_sum_usage(keys, at_edges))[:limit], unnamed
    statement = AttributeKeys(project_id=project_id, whole_buckets=whole, partial_buckets=edges, limit=limit)
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, _MAX_GROUP_BY_KEYS)
    except QueryTooLarge:
        of_many = replace(statement, whole_buckets=_covering_buckets(window), partial_buckets=(), estimated=True)
        rows, unnamed = await store.rows(of_many), True
    return [_AttributeCounts._make(row) for row in rows], unnamed


def _covering_buckets(window: Window) -> Window:
    """All buckets that a window has a part of."""
    return Window(window.from_ns // BUCKET * BUCKET, -(-window.to_ns // BUCKET) * BUCKET)


async def _read_rollup(
    store: ReadStore, project_id: int, whole: Window, limit: int
) -> Mapping[str, AttributeUsage] | None:
    """The attributes of whole buckets; None when they are `limit` or more."""
    statement = RollupKeys(project_id=project_id, whole_buckets=whole, limit=limit)
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, limit)
    except QueryTooLarge:
        return None
    return {key: AttributeUsage(spans, numbers) for key, spans, numbers in rows} if len(rows) < limit else None


async def _read_partial_buckets(
    store: ReadStore, project_id: int, edges: tuple[Window, ...]
) -> Mapping[str, AttributeUsage] | None:
    """The attributes of parts of buckets; None when they have too many lists."""
    lists = await _read_attribute_sets(store, project_id, *edges) if edges else []
    if not lists:
        return {} if lists is not None else None
    keys = await asyncio.to_thread(count_usage, lists)
    if any(_DOUBLE_MARKER in each.attribute_types for each in lists):
        rows = await store.rows(NonFiniteCounts(project_id=project_id, windows=edges))
        keys = _sum_usage(keys, {key: AttributeUsage(0, -spans) for key, spans in rows})
    return keys


async def _read_attribute_sets(store: ReadStore, project_id: int, *windows: Window) -> list[AttributeSet] | None:
    """The lists of the spans of `windows`; None when they are too many."""
    statement = DistinctAttributeSets(project_id=project_id, windows=windows)
    try:
        rows = await store.rows(statement, _MAX_ATTRIBUTE_SET_BYTES, _MAX_ATTRIBUTE_SETS)
    except QueryTooLarge:
        return None
    return [AttributeSet._make(row) for row in rows]


def _sum_usage(keys: Mapping[str, AttributeUsage], others: Mapping[str, AttributeUsage]) -> dict[str, AttributeUsage]:
    found = dict(keys)
    for key, more in others.items():
        mine = found.get(key, _NO_USAGE)
        found[key] = AttributeUsage(mine.spans + more.spans, mine.numbers + more.numbers)
    return found


def _filterable_attributes(keys: Mapping[str, AttributeUsage]) -> list[_AttributeCounts]:
    """The attributes that a filter can name, those of most spans first."""
    named = ((name, found) for name, found in keys.items() if found.spans and 1 <= len(name) <= MAX_KEY)
    places = [_AttributeCounts(name, *found, *keys.get(RESOURCE_PREFIX + name, _NO_USAGE)) for name, found in named]
    return sorted(places, key=lambda each: (-each.spans - each.resource_spans, each.name))


def _key(name: str, spans: int, *, all_numbers: bool) -> Key:
    """The attribute `name`, as a filter reaches it."""
    forced = name in SPANS.fields or name.startswith(ATTRIBUTE_PREFIX)
    return Key(ATTRIBUTE_PREFIX + name if forced else name, spans, all_numbers)


def _own_fields(total: int, present: Mapping[Subject, int]) -> list[Key]:
    found = ((field, present.get(field, total)) for field in SPANS.fields.values())
    return [Key(field.name, spans, field.kind is ColumnKind.DURATION) for field, spans in found if spans]


async def _count_by_sets(
    store: ReadStore, tally: PresenceCounts, shared: Sequence[_AttributeCounts], lists: Sequence[AttributeSet]
) -> list[Key]:
    """Keys found in two places, by the lists of all spans. Where their own are all numbers the roll-up knows; of a
    double that a span itself has as `resource.<name>` nobody does: these few are looked at, but if they are many none
    is taken for a number.
    """
    found = await asyncio.to_thread(count_usage, lists, frozenset(each.name for each in shared))
    numbers = {each.name for each in shared if each.is_numeric and found.get(each.name, _NO_USAGE).is_numeric}
    doubles = double_resource_keys(lists)
    doubtful = [each.name for each in shared if each.name in numbers & doubles and not each.is_resource_numeric]
    looked_at = await _read_numeric_counts(store, tally, doubtful[:_MAX_RECHECKED])
    numbers -= {name for name in doubtful if looked_at.get(name) != found[name].spans}
    return [_key(name, here.spans, all_numbers=name in numbers) for name, here in found.items()]


async def _count_by_query(
    store: ReadStore, tally: PresenceCounts, shared: Sequence[_AttributeCounts], present: Mapping[Subject, int]
) -> list[Key]:
    """Keys found in two places. That all is numbers there, or that something is none, mostly shows without a look."""
    unclear = [each.name for each in shared if each.is_numeric and not each.is_resource_numeric]
    numbers = await _read_numeric_counts(store, tally, unclear)
    keys = []
    for each in shared:
        spans = present[Attribute(each.name)]
        keys.append(_key(each.name, spans, all_numbers=each.is_numeric and numbers.get(each.name, spans) == spans))
    return keys


async def _read_numeric_counts(store: ReadStore, tally: PresenceCounts, names: Sequence[str]) -> dict[str, int]:
    """In how many spans each of the attributes `names` is a number."""
    if not names:
        return {}
    ((_, *counts),) = await store.rows(replace(tally, present=(), numbers=tuple(map(Attribute, names))))
    return dict(zip(names, counts, strict=True))
