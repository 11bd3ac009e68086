"""Which keys spans carry: GET .../explore/attributes (specification 4.2).

    plan   from, to, hours -> a window                                                                        -> 400
    read   attribute keys: whole five minutes from the roll-up, the rest of the window from the spans
           a tally of the spans: how many have each own field, and each key that is found in two places
           -> the keys as filters take them, those of most spans first

A key counts the spans that the filter `exists` finds with it: as soon as any span carries `host` itself, those with
`resource.host` count for `host` too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from chassis.validation import Issues
from query.asking.filters import ATTRIBUTE_PREFIX
from query.asking.parameters import read_time
from query.asking.window import BUCKET, Window
from query.fields import SPANS, Form
from query.formats import Count
from query.store import Store
from query.tree import Attribute, AttributeKeys, Subject, Tally

_CHUNK: Final = 50  # subjects of one statement: their keys are in a URL
_OPTIONAL: Final = tuple(field for field in SPANS.fields.values() if field.optional)


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


class _Carried(NamedTuple):
    """Spans that carry `name`, and those where it is a number; the same of `resource.<name>`."""

    name: str
    spans: int
    numbers: int
    beneath: int
    numbers_beneath: int


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
    whole, edges = split(window)
    rows = await store.rows(AttributeKeys(project_id=project_id, whole=whole, edges=edges, limit=max_keys + 1))
    carried = [_Carried._make(row) for row in rows[:max_keys]]
    alone, shared = [each for each in carried if not each.beneath], [each for each in carried if each.beneath]
    tally = Tally(project_id=project_id, window=window)
    total, present = await _present(store, tally, (*_OPTIONAL, *(Attribute(each.name) for each in shared)))
    if not total:
        return Found(Keys([]), truncated=False)
    keys = [_key(each.name, each.spans, each.numbers) for each in alone]
    keys += await _shared_keys(store, tally, shared, present)
    keys += _own_fields(total, present)
    keys.sort(key=lambda key: (-key.spans, key.key))
    return Found(Keys(keys), truncated=len(rows) > max_keys)


def split(window: Window) -> tuple[Window | None, tuple[Window, ...]]:
    """The whole buckets of a window, and what is left of it at either end."""
    first, last = -(-window.from_ns // BUCKET) * BUCKET, window.to_ns // BUCKET * BUCKET
    if first >= last:
        return None, (window,)
    ends = ((window.from_ns, first), (last, window.to_ns))
    return Window(first, last), tuple(Window(start, end) for start, end in ends if start < end)


def _key(name: str, spans: int, numbers: int) -> Key:
    """The attribute `name`, as a filter reaches it."""
    forced = name in SPANS.fields or name.startswith(ATTRIBUTE_PREFIX)
    return Key(ATTRIBUTE_PREFIX + name if forced else name, spans, numbers == spans)


def _own_fields(total: int, present: Mapping[Subject, int]) -> list[Key]:
    found = ((field, present.get(field, total)) for field in SPANS.fields.values())
    return [Key(field.name, spans, field.form is Form.DURATION) for field, spans in found if spans]


async def _shared_keys(
    store: Store, tally: Tally, shared: Sequence[_Carried], present: Mapping[Subject, int]
) -> list[Key]:
    """Keys found in two places. That all is numbers there, or that something is none, mostly shows without a look."""
    unclear = [each.name for each in shared if each.numbers == each.spans and each.numbers_beneath < each.beneath]
    numbers = await _numbers(store, tally, tuple(map(Attribute, unclear)))
    keys = []
    for each in shared:
        subject = Attribute(each.name)
        spans = present[subject]
        all_numbers = spans if each.numbers == each.spans else 0
        keys.append(_key(each.name, spans, numbers.get(subject, all_numbers)))
    return keys


async def _present(store: Store, tally: Tally, subjects: tuple[Subject, ...]) -> tuple[int, dict[Subject, int]]:
    """How many spans there are, and how many have each of `subjects`."""
    total, found = 0, dict[Subject, int]()
    for part in _parts(subjects):
        ((total, *counts),) = await store.rows(replace(tally, present=part))
        found.update(zip(part, counts, strict=True))
    return total, found


async def _numbers(store: Store, tally: Tally, subjects: tuple[Subject, ...]) -> dict[Subject, int]:
    """In how many spans each of `subjects` is a number."""
    found = dict[Subject, int]()
    for part in _parts(subjects):
        ((_, *counts),) = await store.rows(replace(tally, numbers=part))
        found.update(zip(part, counts, strict=True))
    return found


def _parts(subjects: tuple[Subject, ...]) -> Iterator[tuple[Subject, ...]]:
    return (subjects[at : at + _CHUNK] for at in range(0, len(subjects), _CHUNK))
