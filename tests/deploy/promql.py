"""What a PromQL expression is about: its metrics, and the labels that it names on each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser
from promql_parser import AggregateExpr, BinaryExpr, VectorSelector


class Named(NamedTuple):
    """A metric in an expression, with the labels that it is matched, grouped or joined by."""

    metric: str
    labels: frozenset[str]


def named(expression: str) -> list[Named]:
    """Raises ValueError for what is no PromQL."""
    return list(_named(promql_parser.parse(expression), frozenset()))


def _named(node: Any, asked: frozenset[str]) -> Iterator[Named]:
    """`asked`: labels that the expression around it counts on."""
    if isinstance(node, VectorSelector):
        if node.name is None:
            raise ValueError("a selector names its metric")
        yield Named(node.name, asked | {matcher.name for matcher in node.matchers.matchers})
    elif isinstance(node, AggregateExpr):
        yield from _named(node.expr, _labels(node.modifier))
    elif isinstance(node, BinaryExpr):
        joined = asked | _labels(node.modifier and node.modifier.matching)
        yield from _named(node.lhs, joined)
        yield from _named(node.rhs, joined)
    else:  # calls, ranges, parentheses, numbers
        inner = [getattr(node, name) for name in ("expr", "vector_selector") if hasattr(node, name)]
        for child in (*inner, *getattr(node, "args", ())):
            yield from _named(child, asked)


def _labels(modifier: Any) -> frozenset[str]:
    return frozenset(modifier.labels if modifier else ())
