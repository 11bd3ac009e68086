"""Which attribute keys spans have, and in which of the places where a filter looks for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from query.fields import SPANS
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.sql.compare import LIST_COLUMNS, SCOPE_FIELDS

KeyLocation = tuple[str, str]  # a column of lists, or a column that is a scope's; the key there

OWN_COLUMN, RESOURCE_COLUMN, SCOPE_COLUMN = LIST_COLUMNS
_NUMERIC_LETTERS: Final = frozenset("id")
_PREFIXES: Final = {RESOURCE_COLUMN: "resource.", SCOPE_COLUMN: "scope."}
# The own fields are made of these: reported once, under the field's name.
_DUPLICATES: Final = frozenset(
    f"resource.{key}"
    for key in ("service.name", "service.version", "deployment.environment", "deployment.environment.name")
)


@dataclass
class KeyUsage:
    """A key in one place: how many spans have it there, how many of them the baseline's, and in which types
    (docs/codec.md 2).
    """

    spans: int = 0
    baseline: int = 0
    type_letters: frozenset[str] = frozenset()


@dataclass
class KeyIndex:
    """All keys of both cohorts by place. `complete`: no key was left out."""

    usage: dict[KeyLocation, KeyUsage] = field(default_factory=dict)
    is_complete: bool = True

    def add(self, location: KeyLocation, spans: int, letters: frozenset[str], *, of_baseline: bool = False) -> None:
        """More spans that have a key in a place."""
        known = self.usage.setdefault(location, KeyUsage())
        known.spans += spans
        known.baseline += spans * of_baseline
        known.type_letters |= letters

    def locations(self, key: str) -> list[KeyLocation]:
        """Where a filter on `attr:<key>` finds a value in these spans."""
        return [
            place for place in (*_locations_of_name(key), *_locations_of_name(f"resource.{key}")) if place in self.usage
        ]

    def type_letters(self, key: str) -> frozenset[str]:
        """The types that values of `key` have."""
        return frozenset().union(*(self.usage[place].type_letters for place in self.locations(key)))

    def is_numeric_key(self, key: str) -> bool:
        """Whether every value of `key` is a number."""
        return self.type_letters(key) <= _NUMERIC_LETTERS

    def is_numeric_at(self, location: KeyLocation) -> bool:
        """Whether every value in one place is a number."""
        return self.usage[location].type_letters <= _NUMERIC_LETTERS

    def has_single_location(self, key: str) -> bool:
        """Whether one place has the key, so that what is counted there is all."""
        return self.is_complete and len(self.locations(key)) == 1

    def attribute_keys(self) -> frozenset[str]:
        """Every attribute key."""
        return frozenset(attribute_key(place) for place in self.usage)

    def has_no_prefixed_keys(self, names: Iterable[str]) -> bool:
        """Whether no span has itself what is spelled like an attribute of its resource or scope and is one of `names`:
        `query.sql.values.places` looks for that only where everything is looked for.
        """
        prefixes = tuple(_PREFIXES.values())
        return self.is_complete and not any(
            (OWN_COLUMN, name) in self.usage for name in names if name.startswith(prefixes)
        )

    def comparable_keys(self) -> list[str]:
        """The attribute keys to compare by, those of most spans first: without what own fields say, and what no filter
        could name.
        """
        spans: dict[str, int] = {}
        for place, known in self.usage.items():
            name = attribute_key(place)
            spans[name] = spans.get(name, 0) + known.spans
        named = (key for key in spans if 1 <= len(filter_key(key).removeprefix(ATTRIBUTE_PREFIX)) <= MAX_KEY)
        return sorted((key for key in named if key not in _DUPLICATES), key=lambda key: (-spans[key], key))


def attribute_key(location: KeyLocation) -> str:
    """The attribute key of what stands in a place."""
    column, key = location
    return _PREFIXES.get(column, "") + key


def filter_key(key: str) -> str:
    """How a filter names the attribute `key`."""
    return f"{ATTRIBUTE_PREFIX}{key}" if key in SPANS.fields or key.startswith(ATTRIBUTE_PREFIX) else key


def _locations_of_name(name: str) -> Iterator[KeyLocation]:
    """The places of `name`, as `query.sql.values` looks for it."""
    yield OWN_COLUMN, name
    for column, prefix in _PREFIXES.items():
        if name.startswith(prefix):
            yield column, name.removeprefix(prefix)
    if name in SCOPE_FIELDS:
        yield name, name
