"""A payment processor as its API documents it: subscriptions that change, and the events that it sends of them."""

import copy
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

SECRET: Final = "whsec_of_tests_only"
PRICES: Final = ("price_team", "price_business", "price_unlimited")
STATUSES: Final = ("active", "past_due", "unpaid", "trialing", "paused")


def signature(body: bytes, at: int, secret: str = SECRET) -> str:
    digest = hmac.digest(secret.encode(), b"%d." % at + body, "sha256").hex()
    return f"t={at},v1={digest}"


def price(name: str, lookup_key: str | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "object": "price",
        "active": True,
        "currency": "eur",
        "lookup_key": lookup_key,
        "product": "prod_1",
        "recurring": {"interval": "month", "interval_count": 1, "usage_type": "licensed"},
        "type": "recurring",
        "unit_amount": 2_900,
    }


def subscription(
    name: str = "sub_1",
    *,
    customer: Any = "cus_1",
    status: str = "active",
    prices: Sequence[Mapping[str, Any]] = (price("price_team"),),
    period_end: int = 1_792_000_000,
    is_basil: bool = True,
) -> dict[str, Any]:
    """A subscription; before the version basil it had the end of its period itself."""
    end = {"current_period_start": period_end - 2_592_000, "current_period_end": period_end}
    items = [
        {
            "id": f"si_{at}",
            "object": "subscription_item",
            "price": dict(one),
            "quantity": 1,
            **(end if is_basil else {}),
        }
        for at, one in enumerate(prices)
    ]
    return {
        "id": name,
        "object": "subscription",
        "cancel_at_period_end": False,
        "collection_method": "charge_automatically",
        "created": 1_780_000_000,
        "currency": "eur",
        "customer": customer,
        "items": {
            "object": "list",
            "data": items,
            "has_more": False,
            "url": f"/v1/subscription_items?subscription={name}",
        },
        "latest_invoice": "in_1",
        "livemode": False,
        "metadata": {"organization": "globex"},  # what a payload says of organizations is not believed
        "status": status,
        **({} if is_basil else end),
    }


def invoice(subscription_id: str | None = "sub_1", *, customer: Any = "cus_1", is_basil: bool = True) -> dict[str, Any]:
    details: dict[str, Any] = {"metadata": {}, "subscription": subscription_id}
    parent = None if subscription_id is None else {"type": "subscription_details", "subscription_details": details}
    place = {"parent": parent} if is_basil else {"subscription": subscription_id}
    return {"id": "in_1", "object": "invoice", "amount_due": 2_900, "customer": customer, "status": "paid", **place}


def event(
    kind: str, data: Mapping[str, Any], *, at: int, name: str, previous: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "id": name,
        "object": "event",
        "api_version": "2025-03-31.basil",
        "created": at,
        "data": {"object": data, **({} if previous is None else {"previous_attributes": previous})},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": kind,
    }


def encode(one: Mapping[str, Any]) -> bytes:
    return json.dumps(one).encode()


@dataclass
class Processor:
    """Changes subscriptions at random, several times in a second, and notes an event for each."""

    random: Random
    at: int = 1_790_000_000
    events: list[dict[str, Any]] = field(default_factory=list)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, kind: str, data: Mapping[str, Any], previous: Mapping[str, Any] | None = None) -> None:
        name = f"evt_{self.random.randrange(10**9)}_{len(self.events)}"
        self.events.append(event(kind, copy.deepcopy(data), at=self.at, name=name, previous=previous))

    def step(self) -> None:
        self.at += self.random.choice((0, 0, 0, 1, 30))
        open_ones = [one for one in self.subscriptions.values() if one["status"] != "canceled"]
        if not open_ones or (len(self.subscriptions) < 3 and self.random.random() < 0.1):
            self.create()
        elif self.random.random() < 0.08:
            one = self.random.choice(open_ones)
            one["status"] = "canceled"
            self.note("customer.subscription.deleted", one)
        else:
            self.change(self.random.choice(open_ones))

    def create(self) -> None:
        name = f"sub_{len(self.subscriptions) + 1}"
        status = self.random.choice(("incomplete", "active", "trialing"))
        self.subscriptions[name] = subscription(name, status=status, prices=[price(self.random.choice(PRICES))])
        self.note("customer.subscription.created", self.subscriptions[name])

    def change(self, one: dict[str, Any]) -> None:
        before = copy.deepcopy(one)
        what = self.random.choice(("status", "items", "both", "metadata"))
        if what in {"status", "both"}:
            one["status"] = self.random.choice(STATUSES)
        if what in {"items", "both"}:
            one["items"]["data"][0]["price"] = price(self.random.choice(PRICES))
            one["items"]["data"][0]["current_period_end"] += self.random.choice((0, 0, 86_400))
        if what == "metadata":
            one["metadata"]["seats"] = str(self.random.randrange(9))
        previous: dict[str, Any] = {name: before[name] for name in ("status", "metadata") if before[name] != one[name]}
        if before["items"] != one["items"]:
            previous["items"] = {"data": before["items"]["data"]}  # arrays are there as a whole, objects are not
        self.note("customer.subscription.updated", one, previous)
        if before["status"] != one["status"] and one["status"] == "paused":
            self.note("customer.subscription.paused", one)
