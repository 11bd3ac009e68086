"""Counts attribute keys by the lists that spans share: each distinct list is parsed once for all of its spans."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from proto.storage.attribute_encoding import BEFORE_KEY, parse_attributes

RESOURCE_PREFIX: Final = "resource."
_SCOPE_PREFIX: Final = "scope."
_NUMERIC_LETTERS: Final = frozenset("id")

_NumericByKey = Mapping[str, bool]  # by key: whether the value is a number


class AttributeSet(NamedTuple):
    """Spans with equal lists. Those of resource and scope have no texts, and non-finite doubles have type s."""

    attribute_types: str
    resource: str
    scope: str
    has_scope_name: bool
    has_scope_version: bool
    spans: int


class AttributeUsage(NamedTuple):
    """Spans that carry a key, and those where it is a number. Every double of a span itself counts as a number."""

    spans: int
    numbers: int

    @property
    def is_numeric(self) -> bool:
        return self.numbers == self.spans


class _SetKeys(NamedTuple):
    """The keys of one list: as named in `attributes` of the API, and those among them that begin with `resource.`,
    without it.
    """

    keys: _NumericByKey
    resource_keys: _NumericByKey


def count_usage(lists: Iterable[AttributeSet], shared: Collection[str] | None = None) -> dict[str, AttributeUsage]:
    """Count the spans of each key of `attributes` of the API; or of each of `shared`, as filters match it: for a span
    that does not have the key, `resource.<key>` counts.
    """
    own, resource, scope = (_set_parser(prefix, shared) for prefix in ("", RESOURCE_PREFIX, _SCOPE_PREFIX))
    sums = _UsageSums()
    for origin, group in _group_by_resource_scope(lists).items():
        resource_part = resource(origin.resource)
        named = {**_scope_keys(origin, shared), **scope(origin.scope).keys, **resource_part.keys}
        inherited = {**resource_part.resource_keys, **named}
        sums.add(inherited, sum(spans for _, spans in group))
        for text, spans in group:
            own_part = own(text)
            own_resource_keys = {name: number for name, number in own_part.resource_keys.items() if name not in named}
            found = {**own_resource_keys, **own_part.keys}
            sums.add(found, spans)
            sums.add({name: inherited[name] for name in found.keys() & inherited.keys()}, -spans)
    return sums.usage()


class _ResourceScope(NamedTuple):
    """The lists that spans have from their resource and scope."""

    resource: str
    scope: str
    has_scope_name: bool
    has_scope_version: bool


def _group_by_resource_scope(lists: Iterable[AttributeSet]) -> dict[_ResourceScope, list[tuple[str, int]]]:
    """The lists of spans themselves, with their number of spans, by resource and scope."""
    found = dict[_ResourceScope, list[tuple[str, int]]]()
    for each in lists:
        origin = _ResourceScope(each.resource, each.scope, each.has_scope_name, each.has_scope_version)
        found.setdefault(origin, []).append((each.attribute_types, each.spans))
    return found


class _UsageSums:
    """Spans and numeric spans by key."""

    def __init__(self) -> None:
        self._spans = defaultdict[str, int](int)
        self._numbers = defaultdict[str, int](int)

    def add(self, names: _NumericByKey, spans: int) -> None:
        for name, number in names.items():
            self._spans[name] += spans
            if number:
                self._numbers[name] += spans

    def usage(self) -> dict[str, AttributeUsage]:
        return {name: AttributeUsage(spans, self._numbers[name]) for name, spans in self._spans.items()}


def double_resource_keys(lists: Iterable[AttributeSet]) -> set[str]:
    """The keys of doubles of spans themselves that begin with `resource.`, without that prefix."""
    texts = {each.attribute_types for each in lists if BEFORE_KEY + RESOURCE_PREFIX in each.attribute_types}
    keys = (key for text in texts for key, letter, _ in parse_attributes(text) if letter == "d")
    return {key.removeprefix(RESOURCE_PREFIX) for key in keys if key.startswith(RESOURCE_PREFIX)}


def _set_parser(prefix: str, shared: Collection[str] | None) -> Callable[[str], _SetKeys]:
    """A parser of lists whose keys have `prefix` in the API; it parses each distinct list once."""

    @cache
    def parse_set(text: str) -> _SetKeys:
        found = {prefix + key: letter in _NUMERIC_LETTERS for key, letter, _ in parse_attributes(text)}
        if shared is None:
            return _SetKeys(found, {})
        resource_keys = {
            name.removeprefix(RESOURCE_PREFIX): number
            for name, number in found.items()
            if name.startswith(RESOURCE_PREFIX)
        }
        return _SetKeys(_restrict_to(found, shared), _restrict_to(resource_keys, shared))

    return parse_set


def _scope_keys(origin: _ResourceScope, shared: Collection[str] | None) -> _NumericByKey:
    columns = {"scope.name": origin.has_scope_name, "scope.version": origin.has_scope_version}
    found = {name: False for name, present in columns.items() if present}
    return found if shared is None else _restrict_to(found, shared)


def _restrict_to(found: _NumericByKey, shared: Collection[str]) -> _NumericByKey:
    return {name: number for name, number in found.items() if name in shared}
