"""Which attribute keys spans have, and in which of the locations that a filter reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from query.fields import SPANS
from query.request.filters import ATTRIBUTE_PREFIX, MAX_KEY
from query.sql.compare import LIST_COLUMNS, SCOPE_FIELDS

KeyLocation = tuple[str, str]  # a column of lists, or a field of the scope; the key in it

OWN_COLUMN, RESOURCE_COLUMN, SCOPE_COLUMN = LIST_COLUMNS
_NUMERIC_LETTERS: Final = frozenset("id")
_PREFIXES: Final = {RESOURCE_COLUMN: "resource.", SCOPE_COLUMN: "scope."}
# Built-in fields are derived from these: they are reported once, under the field's name.
_DUPLICATES: Final = frozenset(
    f"resource.{key}"
    for key in ("service.name", "service.version", "deployment.environment", "deployment.environment.name")
)


@dataclass
class KeyUsage:
    """A key in one location: the number of spans that have it there, how many of them are the baseline's, and its types
    (docs/codec.md 2).
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
        """Whether exactly one location has the key, so that counts there are complete."""
        return self.is_complete and len(self.locations(key)) == 1

    def attribute_keys(self) -> frozenset[str]:
        """Every attribute key."""
        return frozenset(attribute_key(location) for location in self.usage)

    def has_no_prefixed_keys(self, names: Iterable[str]) -> bool:
        """Whether no span has an attribute of its own that is one of `names` and is spelled like one of its resource or
        scope: `query.sql.values.attribute_sources` reads those only if it reads every location.
        """
        prefixes = tuple(_PREFIXES.values())
        return self.is_complete and not any(
            (OWN_COLUMN, name) in self.usage for name in names if name.startswith(prefixes)
        )

    def comparable_keys(self) -> list[str]:
        """The attribute keys to compare by, those of most spans first: without those that repeat built-in fields, and
        those that no filter can name.
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
    """The locations of `name`, in the order in which `query.sql.values` reads them."""
    yield OWN_COLUMN, name
    for column, prefix in _PREFIXES.items():
        if name.startswith(prefix):
            yield column, name.removeprefix(prefix)
    if name in SCOPE_FIELDS:
        yield name, name
