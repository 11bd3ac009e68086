"""Statements about the attribute keys of spans, and of log records."""

from dataclasses import dataclass

from query.fields import SPANS, TelemetryTable
from query.statements.base import BaseStatement
from query.statements.predicates import Subject
from query.statements.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys(BaseStatement):
    """The attribute keys of spans, the most frequent first, at most `limit`: in the complete buckets `whole_buckets`,
    read from the roll-up, and in `partial_buckets`; together they are one window.

    `estimated`: there are too many keys to count each. Only those are counted that an estimate in bounded memory
    considers the most frequent of `whole_buckets`; `partial_buckets` is empty then.
    """

    whole_buckets: Window | None
    partial_buckets: tuple[Window, ...]
    limit: int
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupKeys(BaseStatement):
    """Any `limit` attribute keys, at most, of the complete buckets `whole_buckets`; an empty key stands for attributes
    whose keys the roll-up does not name.
    """

    whole_buckets: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctAttributeSets(BaseStatement):
    """The distinct attribute lists of the rows of `windows`, with the number of rows that share them."""

    windows: tuple[Window, ...]
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFiniteCounts(BaseStatement):
    """For each attribute key of rows themselves, the number of rows of `windows` where its value is NaN or infinite."""

    windows: tuple[Window, ...]
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceCounts(BaseStatement):
    """The number of rows in `window`; for each of `present` the number of rows that have it, for each of `numbers` the
    number of rows where it is a number.
    """

    window: Window
    present: tuple[Subject, ...] = ()
    numbers: tuple[Subject, ...] = ()
    signal: TelemetryTable = SPANS
