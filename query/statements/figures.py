"""Statements that compute several figures of the same groups of spans in one scan."""

from dataclasses import dataclass

from query.statements.aggregate import Fn, GroupKey, TimeBuckets
from query.statements.base import BaseStatement
from query.statements.predicates import Condition, Subject
from query.statements.window import Window


@dataclass(frozen=True, slots=True)
class Figure:
    """`fn` over `subject`, for those spans of a group that meet all of `conditions`."""

    fn: Fn
    subject: Subject | None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _FiguresStatement(BaseStatement):
    """`figures` for groups of the spans in `window` that meet all conditions. A group is one value of each of
    `group_by`; without any, all spans are one group.
    """

    window: Window
    conditions: tuple[Condition, ...]
    figures: tuple[Figure, ...]
    group_by: tuple[Subject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRanking(_FiguresStatement):
    """The first `limit` groups by the figure at index `rank_by`."""

    rank_by: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSeries(_FiguresStatement):
    """For each of `groups` (empty: for all), the figures of every bucket that has spans."""

    buckets: TimeBuckets
    groups: tuple[tuple[GroupKey, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFigures(_FiguresStatement):
    """The first `limit` groups by the figure at index `rank_by`, each with those of every bucket that has spans."""

    buckets: TimeBuckets
    rank_by: int
    limit: int
