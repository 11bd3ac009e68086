"""Statements about the keys that spans carry."""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.predicates import Subject
from query.statements.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys(BaseStatement):
    """The attribute keys of spans, most carried first, at most `limit`: in the whole buckets `whole`, which the roll-up
    has, and in the parts of buckets `edges`, together one window.

    `of_many`: there are too many to count each. Those are counted that an estimate in bounded memory takes for the most
    frequent of `whole`; there are no `edges` then.
    """

    whole_buckets: Window | None
    partial_buckets: tuple[Window, ...]
    limit: int
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupKeys(BaseStatement):
    """At most `limit` attribute keys of the whole buckets `whole`, any of them; an empty one stands for what spans
    carry under keys that the roll-up does not name.
    """

    whole_buckets: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctAttributeSets(BaseStatement):
    """The distinct lists of attributes of the spans of `windows`, with how many spans share them."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFiniteCounts(BaseStatement):
    """In how many spans of `windows` an attribute of their own is NaN or infinite, by its key."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceCounts(BaseStatement):
    """How many spans `window` has; in how many each of `present` is there, and each of `numbers` is a number."""

    window: Window
    present: tuple[Subject, ...] = ()
    numbers: tuple[Subject, ...] = ()
