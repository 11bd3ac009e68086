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
from chassis.validation import Issues
from proto.storage.lists import AFTER_KEY, BEFORE_KEY
from query.analysis.carried import RESOURCE, Carried, Lists, counted, doubles_beneath
from query.asking.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.asking.parameters import read_time
from query.asking.window import BUCKET, Window
from query.fields import SPANS, Form
from query.formats import Count
from query.store import MAX_RESULT_BYTES, Store
from query.tree import Attribute, AttributeKeys, CarriedLists, NotFinite, RolledUpKeys, Subject, Tally

_MAX_TALLIED: Final = 16  # a subject costs a tally about 1 ms of planning, and a span of lists as much as 16 of them
_MAX_DOUBTFUL: Final = 16
_MAX_LISTS: Final = 20_000  # distinct ones that are taken apart for one answer
_MAX_LIST_BYTES: Final = 8 * 2**20  # about a second of the processor
_MAX_COUNTED: Final = 200_000  # keys, or lists of them, that the engine counts each of for one answer
_DOUBLE: Final = f"{AFTER_KEY}d{BEFORE_KEY}"
_OPTIONAL: Final = tuple(field for field in SPANS.fields.values() if field.optional)
_NONE: Final = Carried(0, 0)
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


class Found(NamedTuple):
    """The answer, and whether there are more attributes than it has."""

    keys: Keys
    truncated: bool


class _Places(NamedTuple):
    """Spans that carry `name`, and those where it is a number; the same of `resource.<name>`."""

    name: str
    spans: int
    numbers: int
    beneath: int
    numbers_beneath: int

    @property
    def all_numbers(self) -> bool:
        return self.numbers == self.spans

    @property
    def all_numbers_beneath(self) -> bool:
        return self.numbers_beneath == self.beneath


def plan(query: Mapping[str, str], now_ns: int) -> Window:
    """The window that is asked for; BadRequest names each offending parameter."""
    issues = Issues()
    window = read_time(query, issues).resolve(now_ns, "query", issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a time that gives no window has an issue")
    return window


async def read(store: Store, project_id: int, window: Window, max_keys: int) -> Found:
    """The own fields that any span has, and at most `max_keys` attributes. Raises StoreErrors."""
    carried, cut = await _carried(store, project_id, window, max_keys + 1)
    cut, carried = cut or len(carried) > max_keys, carried[:max_keys]
    alone, shared = [each for each in carried if not each.beneath], [each for each in carried if each.beneath]
    lists = await _lists(store, project_id, window) if len(shared) > _MAX_TALLIED else None
    if lists is None:
        cut, shared = cut or len(shared) > _MAX_TALLIED, shared[:_MAX_TALLIED]
    tallied = tuple(Attribute(each.name) for each in shared) if lists is None else ()
    tally = Tally(project_id=project_id, window=window, present=(*_OPTIONAL, *tallied))
    ((total, *counts),) = await store.rows(tally)
    if not total:
        return Found(Keys([]), truncated=False)
    present = dict(zip(tally.present, counts, strict=True))
    keys = [_key(each.name, each.spans, all_numbers=each.all_numbers) for each in alone]
    if lists is None:
        keys += await _tallied(store, tally, shared, present)
    else:
        keys += await _listed(store, tally, shared, lists)
    keys += _own_fields(total, present)
    return Found(Keys(sorted(keys, key=lambda key: (-key.spans, key.key))), truncated=cut)


def split(window: Window) -> tuple[Window | None, tuple[Window, ...]]:
    """The whole buckets of a window, and what is left of it at either end."""
    first, last = -(-window.from_ns // BUCKET) * BUCKET, window.to_ns // BUCKET * BUCKET
    if first >= last:
        return None, (window,)
    ends = ((window.from_ns, first), (last, window.to_ns))
    return Window(first, last), tuple(Window(start, end) for start, end in ends if start < end)


async def _carried(store: Store, project_id: int, window: Window, limit: int) -> tuple[list[_Places], bool]:
    """The attributes of most spans, at most `limit`, and whether there are others for certain. Where they are too many
    to be added up here, the engine does it, which takes it longer to plan than to run.
    """
    whole, edges = split(window)
    keys: Mapping[str, Carried] | None = {}
    if whole is not None:
        keys = await _rolled_up(store, project_id, whole, limit)
    at_edges = await _at_edges(store, project_id, edges) if keys is not None else None
    unnamed = keys is None or _UNNAMED in keys
    if keys is not None and at_edges is not None:
        return _places(_added(keys, at_edges))[:limit], unnamed
    statement = AttributeKeys(project_id=project_id, whole=whole, edges=edges, limit=limit)
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, _MAX_COUNTED)
    except QueryTooLarge:
        of_many = replace(statement, whole=_buckets_of(window), edges=(), of_many=True)
        rows, unnamed = await store.rows(of_many), True
    return [_Places._make(row) for row in rows], unnamed


def _buckets_of(window: Window) -> Window:
    """All buckets that a window has a part of."""
    return Window(window.from_ns // BUCKET * BUCKET, -(-window.to_ns // BUCKET) * BUCKET)


async def _rolled_up(store: Store, project_id: int, whole: Window, limit: int) -> Mapping[str, Carried] | None:
    """The attributes of whole buckets; None when they are `limit` or more."""
    statement = RolledUpKeys(project_id=project_id, whole=whole, limit=limit)
    try:
        rows = await store.rows(statement, MAX_RESULT_BYTES, limit)
    except QueryTooLarge:
        return None
    return {key: Carried(spans, numbers) for key, spans, numbers in rows} if len(rows) < limit else None


async def _at_edges(store: Store, project_id: int, edges: tuple[Window, ...]) -> Mapping[str, Carried] | None:
    """The attributes of parts of buckets; None when they have too many lists."""
    lists = await _lists(store, project_id, *edges) if edges else []
    if not lists:
        return {} if lists is not None else None
    keys = await asyncio.to_thread(counted, lists)
    if any(_DOUBLE in each.attribute_types for each in lists):
        rows = await store.rows(NotFinite(project_id=project_id, windows=edges))
        keys = _added(keys, {key: Carried(0, -spans) for key, spans in rows})
    return keys


async def _lists(store: Store, project_id: int, *windows: Window) -> list[Lists] | None:
    """The lists of the spans of `windows`; None when they are too many."""
    statement = CarriedLists(project_id=project_id, windows=windows)
    try:
        rows = await store.rows(statement, _MAX_LIST_BYTES, _MAX_LISTS)
    except QueryTooLarge:
        return None
    return [Lists._make(row) for row in rows]


def _added(keys: Mapping[str, Carried], others: Mapping[str, Carried]) -> dict[str, Carried]:
    found = dict(keys)
    for key, more in others.items():
        mine = found.get(key, _NONE)
        found[key] = Carried(mine.spans + more.spans, mine.numbers + more.numbers)
    return found


def _places(keys: Mapping[str, Carried]) -> list[_Places]:
    """The attributes that a filter can name, those of most spans first."""
    named = ((name, found) for name, found in keys.items() if found.spans and 1 <= len(name) <= MAX_KEY)
    places = [_Places(name, *found, *keys.get(RESOURCE + name, _NONE)) for name, found in named]
    return sorted(places, key=lambda each: (-each.spans - each.beneath, each.name))


def _key(name: str, spans: int, *, all_numbers: bool) -> Key:
    """The attribute `name`, as a filter reaches it."""
    forced = name in SPANS.fields or name.startswith(ATTRIBUTE_PREFIX)
    return Key(ATTRIBUTE_PREFIX + name if forced else name, spans, all_numbers)


def _own_fields(total: int, present: Mapping[Subject, int]) -> list[Key]:
    found = ((field, present.get(field, total)) for field in SPANS.fields.values())
    return [Key(field.name, spans, field.form is Form.DURATION) for field, spans in found if spans]


async def _listed(store: Store, tally: Tally, shared: Sequence[_Places], lists: Sequence[Lists]) -> list[Key]:
    """Keys found in two places, by the lists of all spans. Where their own are all numbers the roll-up knows; of a
    double that a span itself has as `resource.<name>` nobody does: these few are looked at, but if they are many none
    is taken for a number.
    """
    found = await asyncio.to_thread(counted, lists, frozenset(each.name for each in shared))
    numbers = {each.name for each in shared if each.all_numbers and found.get(each.name, _NONE).all_numbers}
    doubles = doubles_beneath(lists)
    doubtful = [each.name for each in shared if each.name in numbers & doubles and not each.all_numbers_beneath]
    looked_at = await _numbers(store, tally, doubtful[:_MAX_DOUBTFUL])
    numbers -= {name for name in doubtful if looked_at.get(name) != found[name].spans}
    return [_key(name, here.spans, all_numbers=name in numbers) for name, here in found.items()]


async def _tallied(store: Store, tally: Tally, shared: Sequence[_Places], present: Mapping[Subject, int]) -> list[Key]:
    """Keys found in two places. That all is numbers there, or that something is none, mostly shows without a look."""
    unclear = [each.name for each in shared if each.all_numbers and not each.all_numbers_beneath]
    numbers = await _numbers(store, tally, unclear)
    keys = []
    for each in shared:
        spans = present[Attribute(each.name)]
        keys.append(_key(each.name, spans, all_numbers=each.all_numbers and numbers.get(each.name, spans) == spans))
    return keys


async def _numbers(store: Store, tally: Tally, names: Sequence[str]) -> dict[str, int]:
    """In how many spans each of the attributes `names` is a number."""
    if not names:
        return {}
    ((_, *counts),) = await store.rows(replace(tally, present=(), numbers=tuple(map(Attribute, names))))
    return dict(zip(names, counts, strict=True))
