"""Counts attribute keys: which keys spans have, and in which of the locations that a filter reads. Spans share lists of
attributes, so each distinct list is parsed only once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from proto.storage.attribute_encoding import BEFORE_KEY, parse_attributes
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.rows import SPANS
from query.sql.compare import LIST_COLUMNS, SCOPE_FIELDS

RESOURCE_PREFIX: Final = "resource."
_SCOPE_PREFIX: Final = "scope."
_NUMERIC_LETTERS: Final = frozenset("id")

_NumericByKey = Mapping[str, bool]  # by key: whether the value is a number


class AttributeSet(NamedTuple):
    """Spans with equal attribute lists. Lists of resource and scope have no texts; non-finite doubles have the type
    s."""

    attribute_types: str
    resource: str
    scope: str
    has_scope_name: bool
    has_scope_version: bool
    spans: int


class AttributeUsage(NamedTuple):
    """The number of spans that have a key, and of spans where its value is a number. Every double of a span's own
    attributes counts as a number."""

    spans: int
    numbers: int

    @property
    def is_numeric(self) -> bool:
        return self.numbers == self.spans


class _SetKeys(NamedTuple):
    """The keys of one list: named as in `attributes` of the API; and the keys that begin with `resource.`, without this
    prefix.
    """

    keys: _NumericByKey
    resource_keys: _NumericByKey


def count_usage(lists: Iterable[AttributeSet], shared: Collection[str] | None = None) -> dict[str, AttributeUsage]:
    """Count the spans of each key, named as in `attributes` of the API. With `shared`, count only these keys, and in
    the way that filters match them: if a span does not have the key itself, `resource.<key>` counts.
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
    """The lists of the spans' own attributes, with their number of spans, by resource and scope."""
    found = dict[_ResourceScope, list[tuple[str, int]]]()
    for each in lists:
        origin = _ResourceScope(each.resource, each.scope, each.has_scope_name, each.has_scope_version)
        found.setdefault(origin, []).append((each.attribute_types, each.spans))
    return found


class _UsageSums:
    """By key, the number of spans, and the number of spans with a numeric value."""

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
    """Keys of the spans' own doubles that begin with `resource.`, without this prefix."""
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


KeyLocation = tuple[str, str]  # a column of lists, or a field of the scope; and the key in it

OWN_COLUMN, RESOURCE_COLUMN, SCOPE_COLUMN = LIST_COLUMNS
_PREFIXES: Final = {RESOURCE_COLUMN: "resource.", SCOPE_COLUMN: "scope."}
# Attributes from which built-in fields are derived: they are reported only under the field's name.
_DUPLICATES: Final = frozenset(
    f"resource.{key}"
    for key in ("service.name", "service.version", "deployment.environment", "deployment.environment.name")
)


@dataclass
class KeyUsage:
    """A key in one location: the number of spans that have it there, how many of these spans are in the baseline, and
    the types of its values (docs/codec.md 2).
    """

    spans: int = 0
    baseline: int = 0
    type_letters: frozenset[str] = frozenset()


@dataclass
class KeyIndex:
    """All keys of both cohorts by location. `is_complete`: no key was left out."""

    usage: dict[KeyLocation, KeyUsage] = field(default_factory=dict)
    is_complete: bool = True

    def add(self, location: KeyLocation, spans: int, letters: frozenset[str], *, of_baseline: bool = False) -> None:
        """Add spans that have a key in a location."""
        usage = self.usage.setdefault(location, KeyUsage())
        usage.spans += spans
        usage.baseline += spans * of_baseline
        usage.type_letters |= letters

    def locations(self, key: str) -> list[KeyLocation]:
        """The locations where a filter on `attr:<key>` finds a value in these spans."""
        return [
            location
            for location in (*_locations_of_name(key), *_locations_of_name(f"resource.{key}"))
            if location in self.usage
        ]

    def type_letters(self, key: str) -> frozenset[str]:
        """The types of the values of `key`."""
        return frozenset().union(*(self.usage[location].type_letters for location in self.locations(key)))

    def is_numeric_key(self, key: str) -> bool:
        """Whether every value of `key` is a number."""
        return self.type_letters(key) <= _NUMERIC_LETTERS

    def is_numeric_at(self, location: KeyLocation) -> bool:
        """Whether every value in one location is a number."""
        return self.usage[location].type_letters <= _NUMERIC_LETTERS

    def has_single_location(self, key: str) -> bool:
        """Whether exactly one location has the key, so that its counts are complete."""
        return self.is_complete and len(self.locations(key)) == 1

    def attribute_keys(self) -> frozenset[str]:
        """Every attribute key."""
        return frozenset(attribute_key(location) for location in self.usage)

    def has_no_prefixed_keys(self, names: Iterable[str]) -> bool:
        """Whether no span has an own attribute with one of `names` that is spelled like an attribute of its resource or
        scope (such as `resource.host`). `query.sql.predicates.attribute_sources` reads such attributes only if it reads
        every location.
        """
        prefixes = tuple(_PREFIXES.values())
        return self.is_complete and not any(
            (OWN_COLUMN, name) in self.usage for name in names if name.startswith(prefixes)
        )

    def comparable_keys(self) -> list[str]:
        """The attribute keys to compare by; keys of the most spans come first. Keys that repeat built-in fields and
        keys that no filter can name are left out.
        """
        spans: dict[str, int] = {}
        for location, usage in self.usage.items():
            name = attribute_key(location)
            spans[name] = spans.get(name, 0) + usage.spans
        filterable = (key for key in spans if 1 <= len(filter_key(key).removeprefix(ATTRIBUTE_PREFIX)) <= MAX_KEY)
        return sorted((key for key in filterable if key not in _DUPLICATES), key=lambda key: (-spans[key], key))


def attribute_key(location: KeyLocation) -> str:
    """The attribute key of a location."""
    column, key = location
    return _PREFIXES.get(column, "") + key


def filter_key(key: str) -> str:
    """The name of the attribute `key` in a filter."""
    return f"{ATTRIBUTE_PREFIX}{key}" if key in SPANS.fields or key.startswith(ATTRIBUTE_PREFIX) else key


def _locations_of_name(name: str) -> Iterator[KeyLocation]:
    """The locations of `name`, in the order in which `query.sql.predicates` reads them."""
    yield OWN_COLUMN, name
    for column, prefix in _PREFIXES.items():
        if name.startswith(prefix):
            yield column, name.removeprefix(prefix)
    if name in SCOPE_FIELDS:
        yield name, name
