"""Which attribute keys spans have, and in which of the places where a filter looks for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from query.asking.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.fields import SPANS
from query.sql.compare import LISTS, SCOPE_FIELDS

Place = tuple[str, str]  # a column of lists, or a column that is a scope's; the key there

OWN, RESOURCE, SCOPE = LISTS
_NUMERIC: Final = frozenset("id")
_PREFIXES: Final = {RESOURCE: "resource.", SCOPE: "scope."}
# The own fields are made of these: reported once, under the field's name.
_DUPLICATES: Final = frozenset(
    f"resource.{key}"
    for key in ("service.name", "service.version", "deployment.environment", "deployment.environment.name")
)


@dataclass
class Known:
    """A key in one place: how many spans have it there, how many of them the baseline's, and in which types
    (docs/codec.md 2).
    """

    spans: int = 0
    baseline: int = 0
    letters: frozenset[str] = frozenset()


@dataclass
class Catalogue:
    """All keys of both cohorts by place. `complete`: no key was left out."""

    known: dict[Place, Known] = field(default_factory=dict)
    complete: bool = True

    def add(self, place: Place, spans: int, letters: frozenset[str], *, of_baseline: bool = False) -> None:
        """More spans that have a key in a place."""
        known = self.known.setdefault(place, Known())
        known.spans += spans
        known.baseline += spans * of_baseline
        known.letters |= letters

    def places(self, key: str) -> list[Place]:
        """Where a filter on `attr:<key>` finds a value in these spans."""
        return [place for place in (*_named(key), *_named(f"resource.{key}")) if place in self.known]

    def letters(self, key: str) -> frozenset[str]:
        """The types that values of `key` have."""
        return frozenset().union(*(self.known[place].letters for place in self.places(key)))

    def numeric(self, key: str) -> bool:
        """Whether every value of `key` is a number."""
        return self.letters(key) <= _NUMERIC

    def is_numeric(self, place: Place) -> bool:
        """Whether every value in one place is a number."""
        return self.known[place].letters <= _NUMERIC

    def single(self, key: str) -> bool:
        """Whether one place has the key, so that what is counted there is all."""
        return self.complete and len(self.places(key)) == 1

    def names(self) -> frozenset[str]:
        """Every attribute key."""
        return frozenset(key_of(place) for place in self.known)

    def usual(self, names: Iterable[str]) -> bool:
        """Whether no span has itself what is spelled like an attribute of its resource or scope and is one of `names`:
        `query.sql.values.places` looks for that only where everything is looked for.
        """
        prefixes = tuple(_PREFIXES.values())
        return self.complete and not any((OWN, name) in self.known for name in names if name.startswith(prefixes))

    def compared(self) -> list[str]:
        """The attribute keys to compare by, those of most spans first: without what own fields say, and what no filter
        could name.
        """
        spans: dict[str, int] = {}
        for place, known in self.known.items():
            name = key_of(place)
            spans[name] = spans.get(name, 0) + known.spans
        named = (key for key in spans if 1 <= len(spelled(key).removeprefix(ATTRIBUTE_PREFIX)) <= MAX_KEY)
        return sorted((key for key in named if key not in _DUPLICATES), key=lambda key: (-spans[key], key))


def key_of(place: Place) -> str:
    """The attribute key of what stands in a place."""
    column, key = place
    return _PREFIXES.get(column, "") + key


def spelled(key: str) -> str:
    """How a filter names the attribute `key`."""
    return f"{ATTRIBUTE_PREFIX}{key}" if key in SPANS.fields or key.startswith(ATTRIBUTE_PREFIX) else key


def _named(name: str) -> Iterator[Place]:
    """The places of `name`, as `query.sql.values` looks for it."""
    yield OWN, name
    for column, prefix in _PREFIXES.items():
        if name.startswith(prefix):
            yield column, name.removeprefix(prefix)
    if name in SCOPE_FIELDS:
        yield name, name
