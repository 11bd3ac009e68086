"""Statements of a service map: services, and the calls between them."""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.predicates import Condition
from query.statements.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCalls(BaseStatement):
    """The calls between services in `window`, most calls first, at most `limit` pairs of services.

    A call is a SERVER or CONSUMER span that meets all conditions and whose parent is a CLIENT or PRODUCER span in
    `window`. `one_in`: only of traces whose id has a hash that this divides (1: of all).
    """

    window: Window
    conditions: tuple[Condition, ...]
    one_in: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures(BaseStatement):
    """The services of spans in `window` that meet all conditions, most spans first, at most `limit`; only those in
    `services`, unless that is None. `one_in` as in `ServiceCalls`.
    """

    window: Window
    conditions: tuple[Condition, ...]
    one_in: int
    services: tuple[str, ...] | None = None
    limit: int
