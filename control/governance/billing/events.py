"""Parses the events of the payment processor, as its API documents them, in older and newer versions. Unknown fields
are ignored.

`id` and `type` are read from every event, the other fields only from events that are handled. The object of `data` is
the subscription, invoice or checkout session after the event. `previous_attributes` has the earlier values of the
fields that an `updated` event has changed. Since version 2025-03-31 the end of the period is in the items of a
subscription, and an invoice names its subscription below `parent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from control.governance.billing.history import EventKind, SubscriptionEvent, SubscriptionState
from control.governance.billing.store import MAX_PROCESSOR_ID_LENGTH
from control.inbound.webhooks.platform import PayloadError, convert, decode
from control.plans import MAX_PRICE_LENGTH

MAX_ITEMS: Final = 100  # per subscription; the processor allows 20
MAX_PRICES: Final = 40  # kept per subscription
MAX_TIME: Final = 253_402_300_799  # the end of the year 9999

T = TypeVar("T")
_Id = Annotated[str, Meta(pattern=rf"^[!-~]{{1,{MAX_PROCESSOR_ID_LENGTH}}}(?!\n)$")]
_Price = Annotated[str, Meta(pattern=rf"^[ -~]{{1,{MAX_PRICE_LENGTH}}}(?!\n)$")]
_Type = Annotated[str, Meta(pattern=r"^[a-z0-9_.]{1,100}(?!\n)$")]
_Status = Annotated[str, Meta(pattern=r"^[a-z_]{1,32}(?!\n)$")]
_Time = Annotated[int, Meta(ge=0, le=MAX_TIME)]


class _Expanded(msgspec.Struct, frozen=True):
    id: _Id


_Reference = _Id | _Expanded | None


class _PriceObject(msgspec.Struct, frozen=True):
    id: _Price
    lookup_key: _Price | None = None


class _Item(msgspec.Struct, frozen=True):
    price: _PriceObject | None = None
    plan: _PriceObject | None = None  # from the time before prices existed
    current_period_end: _Time | None = None


class _Items(msgspec.Struct, frozen=True):
    data: Annotated[list[_Item], Meta(max_length=MAX_ITEMS)] = []


class _Subscription(msgspec.Struct, frozen=True):
    id: _Id
    status: _Status
    customer: _Reference
    items: _Items = _Items()
    current_period_end: _Time | None = None


class _Previous(msgspec.Struct, frozen=True):
    status: _Status | UnsetType | None = UNSET
    items: _Items | UnsetType | None = UNSET
    current_period_end: _Time | UnsetType | None = UNSET


class _SubscriptionDetails(msgspec.Struct, frozen=True):
    subscription: _Reference = None


class _InvoiceParent(msgspec.Struct, frozen=True):
    subscription_details: _SubscriptionDetails | None = None


class _CheckoutSession(msgspec.Struct, frozen=True):
    customer: _Reference = None
    subscription: _Reference = None


class _Invoice(_CheckoutSession, frozen=True):  # an invoice has the fields of a session, too
    parent: _InvoiceParent | None = None


class _Head(msgspec.Struct, frozen=True):
    id: _Id
    type: _Type


class _Data(msgspec.Struct, Generic[T], frozen=True):
    object: T
    previous_attributes: Any = None


class _Event(msgspec.Struct, Generic[T], frozen=True):
    created: _Time
    data: _Data[T]


_SUBSCRIPTION_EVENTS: Final = {
    "customer.subscription.created": EventKind.CREATED,
    "customer.subscription.updated": EventKind.UPDATED,
    "customer.subscription.deleted": EventKind.SEEN,
    "customer.subscription.paused": EventKind.SEEN,
    "customer.subscription.resumed": EventKind.SEEN,
}
_INVOICE_EVENTS: Final = {"invoice.paid": EventKind.PAID, "invoice.payment_failed": EventKind.FAILED}
CHECKOUT_COMPLETED: Final = "checkout.session.completed"


@dataclass(frozen=True, slots=True)
class PaymentEvent:
    """An event. `is_handled`: False for an event of another type, whose other fields are empty. `change`: None for a
    checkout, and for an invoice without a subscription.
    """

    id: str
    type: str
    is_handled: bool
    customer_id: str | None = None
    subscription_id: str | None = None
    change: SubscriptionEvent | None = None


def parse_event(body: bytes) -> PaymentEvent:
    """Parse a verified body. Raises PayloadError."""
    head = decode(_Head, body, "of a payment")
    if head.type in _SUBSCRIPTION_EVENTS:
        return _subscription_event(head, decode(_Event[_Subscription], body, head.type))
    if head.type in _INVOICE_EVENTS:
        return _invoice_event(head, decode(_Event[_Invoice], body, head.type))
    if head.type == CHECKOUT_COMPLETED:
        session = decode(_Event[_CheckoutSession], body, head.type).data.object
        return PaymentEvent(head.id, head.type, True, _id_of(session.customer), _id_of(session.subscription))
    return PaymentEvent(head.id, head.type, False)


def _subscription_event(head: _Head, event: _Event[_Subscription]) -> PaymentEvent:
    found, kind = event.data.object, _SUBSCRIPTION_EVENTS[head.type]
    after = SubscriptionState(
        found.status, _prices(found.items.data), _period_end(found.current_period_end, found.items.data)
    )
    before = _state_before(after, event.data.previous_attributes) if kind is EventKind.UPDATED else None
    change = SubscriptionEvent(event.created, head.id, kind, after, before)
    return PaymentEvent(head.id, head.type, True, _id_of(found.customer), found.id, change)


def _state_before(after: SubscriptionState, previous_attributes: Any) -> SubscriptionState | None:
    """The state before the event. None if it is not known, because versions differ in the fields that they contain."""
    if previous_attributes is None:
        return None
    try:
        previous = convert(_Previous, previous_attributes, "updated")
    except PayloadError:
        return None
    status, prices, period_end = after.status, after.prices, after.period_end
    if isinstance(previous.status, str):
        status = previous.status
    if isinstance(previous.items, _Items):
        prices = _prices(previous.items.data)
        period_end = _period_end(after.period_end, previous.items.data)
    if not isinstance(previous.current_period_end, UnsetType):
        period_end = previous.current_period_end
    return SubscriptionState(status, prices, period_end)


def _invoice_event(head: _Head, event: _Event[_Invoice]) -> PaymentEvent:
    invoice = event.data.object
    subscription_id = _id_of(invoice.subscription)
    if subscription_id is None and invoice.parent is not None and invoice.parent.subscription_details is not None:
        subscription_id = _id_of(invoice.parent.subscription_details.subscription)
    change = None if subscription_id is None else SubscriptionEvent(event.created, head.id, _INVOICE_EVENTS[head.type])
    return PaymentEvent(head.id, head.type, True, _id_of(invoice.customer), subscription_id, change)


def _id_of(reference: _Reference) -> str | None:
    """The id of an object, of which the event contains either the id or the whole object."""
    return reference.id if isinstance(reference, _Expanded) else reference


def _prices(items: Sequence[_Item]) -> tuple[str, ...]:
    names: set[str] = set()
    for price in (item.price or item.plan for item in items):
        if price is not None:
            names |= {price.id} if price.lookup_key is None else {price.id, price.lookup_key}
    return tuple(sorted(names)[:MAX_PRICES])


def _period_end(of_subscription: int | None, items: Sequence[_Item]) -> int | None:
    """The end of the subscription's period, or the last end among its items."""
    ends = [item.current_period_end for item in items if item.current_period_end is not None]
    return max(ends) if ends else of_subscription
