"""The meaning of a price of the payment processor: a plan, and its items per month."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from proto.identity import MAX_MONTHLY_ITEMS

MAX_PLAN_LENGTH: Final = 64
MAX_PRICE_LENGTH: Final = 255  # of the processor's ids; its lookup keys have at most 200
_PRICE: Final = re.compile(rf"[!-<>-~]{{1,{MAX_PRICE_LENGTH}}}")
_NAME: Final = re.compile(rf"[^\W_][\w .+-]{{0,{MAX_PLAN_LENGTH - 1}}}")
_ITEMS: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `monthly_items` 0: no quota."""

    name: str
    monthly_items: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `PLAN:ITEMS`. Raises ValueError."""
        name, _, items = text.rpartition(":")
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{text!r} must be PLAN:ITEMS. PLAN is a name of at most {MAX_PLAN_LENGTH} characters")
        if _ITEMS.fullmatch(items) is None or int(items) > MAX_MONTHLY_ITEMS:
            raise ValueError(f"{text!r} must be PLAN:ITEMS. ITEMS is a number from 0 to {MAX_MONTHLY_ITEMS}")
        return cls(name, int(items))

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Sort key of plans: greater for a plan that gives more."""
        return not self.monthly_items, self.monthly_items, self.name


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of the settings. `free` is the plan of an organization whose subscription has ended."""

    by_price: Mapping[str, Plan] = field(default_factory=lambda: MappingProxyType({}))
    free: Plan | None = None

    @classmethod
    def parse(cls, plans: Sequence[str], free_plan: str) -> Self:
        """Read the settings `plans` (PRICE=PLAN:ITEMS) and `free_plan` (PLAN:ITEMS). Raises ValueError."""
        by_price: dict[str, Plan] = {}
        for text in plans:
            price, equals, plan = text.partition("=")
            if not equals or _PRICE.fullmatch(price) is None:
                raise ValueError(f"{text!r} is not PRICE=PLAN:ITEMS")
            if price in by_price:
                raise ValueError(f"the price {price!r} is named twice")
            by_price[price] = Plan.parse(plan)
        return cls(MappingProxyType(by_price), Plan.parse(free_plan) if free_plan else None)

    def find(self, prices: Iterable[str]) -> Plan | None:
        """The plan of these prices, given by ids or lookup keys. If several plans match, the one that gives most."""
        found = [self.by_price[price] for price in prices if price in self.by_price]
        return max(found, key=lambda plan: plan.rank, default=None)
