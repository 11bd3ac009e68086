"""What spans carry, told by the lists that they share: each distinct list is taken apart once for all of its spans."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from proto.storage.lists import BEFORE_KEY, entries

RESOURCE: Final = "resource."
_SCOPE: Final = "scope."
_NUMBERS: Final = frozenset("id")

_Names = Mapping[str, bool]  # whether the value is a number, by name


class Lists(NamedTuple):
    """Spans of equal lists. Those of resource and scope have no texts, and doubles that are not finite as type s."""

    attribute_types: str
    resource: str
    scope: str
    named: bool
    versioned: bool
    spans: int


class Carried(NamedTuple):
    """Spans that carry a name, and those where it is a number. Every double of a span itself counts as one."""

    spans: int
    numbers: int

    @property
    def all_numbers(self) -> bool:
        return self.numbers == self.spans


class _Part(NamedTuple):
    """What one list gives: by the names in `attributes` of the API, and by what follows `resource.` in these."""

    named: _Names
    beneath: _Names


def counted(lists: Iterable[Lists], shared: Collection[str] | None = None) -> dict[str, Carried]:
    """The spans of each name of `attributes` of the API; or of each of `shared`, as filters find it: a span that has
    none of its name is asked for `resource.<name>`.
    """
    own, resource, scope = (_parts(prefix, shared) for prefix in ("", RESOURCE, _SCOPE))
    sums = _Sums()
    for rest, group in _by_rest(lists).items():
        its = resource(rest.resource)
        named = {**_of_scope(rest, shared), **scope(rest.scope).named, **its.named}
        inherited = {**its.beneath, **named}
        sums.add(inherited, sum(spans for _, spans in group))
        for text, spans in group:
            mine = own(text)
            beneath = {name: number for name, number in mine.beneath.items() if name not in named}
            found = {**beneath, **mine.named}
            sums.add(found, spans)
            sums.add({name: inherited[name] for name in found.keys() & inherited.keys()}, -spans)
    return sums.carried()


class _Rest(NamedTuple):
    """What spans have from their resource and scope."""

    resource: str
    scope: str
    named: bool
    versioned: bool


def _by_rest(lists: Iterable[Lists]) -> dict[_Rest, list[tuple[str, int]]]:
    """The lists of spans themselves, with how many have them."""
    found = dict[_Rest, list[tuple[str, int]]]()
    for each in lists:
        rest = _Rest(each.resource, each.scope, each.named, each.versioned)
        found.setdefault(rest, []).append((each.attribute_types, each.spans))
    return found


class _Sums:
    """Spans and numbers by name."""

    def __init__(self) -> None:
        self._spans = defaultdict[str, int](int)
        self._numbers = defaultdict[str, int](int)

    def add(self, names: _Names, spans: int) -> None:
        for name, number in names.items():
            self._spans[name] += spans
            if number:
                self._numbers[name] += spans

    def carried(self) -> dict[str, Carried]:
        return {name: Carried(spans, self._numbers[name]) for name, spans in self._spans.items()}


def doubles_beneath(lists: Iterable[Lists]) -> set[str]:
    """What follows `resource.` in the keys of doubles that are of spans themselves."""
    texts = {each.attribute_types for each in lists if BEFORE_KEY + RESOURCE in each.attribute_types}
    keys = (key for text in texts for key, letter, _ in entries(text) if letter == "d")
    return {key.removeprefix(RESOURCE) for key in keys if key.startswith(RESOURCE)}


def _parts(prefix: str, shared: Collection[str] | None) -> Callable[[str], _Part]:
    """Takes a list apart whose keys have `prefix` in the API, each distinct one once."""

    @cache
    def part(text: str) -> _Part:
        found = {prefix + key: letter in _NUMBERS for key, letter, _ in entries(text)}
        if shared is None:
            return _Part(found, {})
        under = {name.removeprefix(RESOURCE): number for name, number in found.items() if name.startswith(RESOURCE)}
        return _Part(_among(found, shared), _among(under, shared))

    return part


def _of_scope(rest: _Rest, shared: Collection[str] | None) -> _Names:
    columns = {"scope.name": rest.named, "scope.version": rest.versioned}
    found = {name: False for name, present in columns.items() if present}
    return found if shared is None else _among(found, shared)


def _among(found: _Names, shared: Collection[str]) -> _Names:
    return {name: number for name, number in found.items() if name in shared}
