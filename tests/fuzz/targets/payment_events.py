"""Events of the payment processor: refused as malformed; or what they say is bounded, is read back as it was stored and
holds in any order.

An input is one event, or several with a NUL between them.
"""

from typing import Final

import msgspec

from control.governance.billing.events import MAX_PRICES, MAX_TIME, PaymentEvent, parse_event
from control.governance.billing.history import MAX_SUBSCRIPTIONS, CurrentSubscription, History, add_event, find_current
from control.inbound.webhooks.platform import PayloadError
from control.plans import MAX_PRICE_LENGTH, Plans

PLANS: Final = Plans.parse(("price_team=Team:1000", "business=Business:50000"), "Free:10")
_LONGEST: Final = 255


def check(data: bytes) -> None:
    events: dict[str, PaymentEvent] = {}
    for body in data.split(b"\0")[:8]:
        try:
            event = parse_event(body)
        except PayloadError as error:
            assert len(str(error)) < 400
            assert str(error).isprintable()
            continue
        check_bounds(event)
        events.setdefault(event.id, event)
    found = list(events.values())
    assert outcome_of(found) == outcome_of(found[::-1])


def check_bounds(event: PaymentEvent) -> None:
    for name in (event.id, event.customer_id or "x", event.subscription_id or "x"):
        assert 1 <= len(name) <= _LONGEST
        assert name.isascii()
        assert name.isprintable()
    if event.change is None:
        return
    assert 0 <= event.change.at <= MAX_TIME
    for state in (event.change.before, event.change.after):
        if state is not None:
            assert len(state.status) <= 32
            assert len(state.prices) <= MAX_PRICES
            assert all(len(price) <= MAX_PRICE_LENGTH for price in state.prices)


def outcome_of(events: list[PaymentEvent]) -> CurrentSubscription | None:
    histories: dict[str, History] = {}
    for event in events:
        if event.change is not None and event.subscription_id is not None:
            histories = add_event(histories, event.subscription_id, event.change, PLANS)
            stored = msgspec.json.decode(msgspec.json.encode(histories))
            assert msgspec.convert(stored, dict[str, History]) == histories
    assert len(histories) <= MAX_SUBSCRIPTIONS
    return find_current(histories, PLANS)
