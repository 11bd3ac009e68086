"""What events say together: whatever their order, the last state that the processor had."""

from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.governance.billing.events import parse_event
from control.governance.billing.history import (
    ENDED,
    GRANTING,
    MAX_EVENTS,
    MAX_SUBSCRIPTIONS,
    CurrentSubscription,
    EventKind,
    History,
    SubscriptionEvent,
    SubscriptionState,
    add_event,
    find_current,
    has_unknown_price,
)
from control.plans import Plan, Plans
from tests.control.governance.billing.processor import Processor, encode, event, price, subscription

PLANS: Final = Plans.parse(
    ("price_team=Team:1000", "business=Business:50000", "price_business=Business:50000", "price_unlimited=Unlimited:0"),
    "Free:10",
)
AT: Final = 1_790_000_000


def current_of(events: list[dict[str, Any]], plans: Plans = PLANS) -> CurrentSubscription | None:
    histories: dict[str, History] = {}
    for one in events:
        parsed = parse_event(encode(one))
        if parsed.change is None or parsed.subscription_id is None:
            raise AssertionError(one)
        histories = add_event(histories, parsed.subscription_id, parsed.change, plans)
    return find_current(histories, plans)


def plan_of(events: list[dict[str, Any]], plans: Plans = PLANS) -> Plan | None:
    """Of events that give a plan."""
    found = current_of(events, plans)
    assert found is not None
    return found.plan


def expected(processor: Processor) -> CurrentSubscription | None:
    """By the subscriptions as the processor has them in the end, and what was granted before."""
    granting, ended = [], []
    for name, one in processor.subscriptions.items():
        mine = [each for each in processor.events if each["data"]["object"]["id"] == name]
        end = one["items"]["data"][0]["current_period_end"]
        if one["status"] in GRANTING:
            plan = PLANS.find([one["items"]["data"][0]["price"]["id"]])
            if plan is None:
                raise AssertionError
            granting.append((plan.rank, mine[-1]["created"], name, CurrentSubscription(name, one["status"], plan, end)))
        elif one["status"] in ENDED:
            ended.append((True, mine[-1]["created"], name, CurrentSubscription(None, one["status"], PLANS.free, end)))
        else:
            ended.append((False, mine[-1]["created"], name, CurrentSubscription(name, one["status"], None, end)))
    return max(granting)[-1] if granting else max(ended)[-1] if ended else None


@given(st.integers(0, 2**32), st.integers(1, MAX_EVENTS))
def test_the_last_state_of_the_processor_prevails_whatever_the_order(seed: int, steps: int) -> None:
    random = Random(seed)
    processor = Processor(random)
    for _ in range(steps):
        processor.step()
    events = processor.events[:MAX_EVENTS]
    if len(events) < len(processor.events):
        return
    delivered = [*events, *random.choices(events, k=len(events) // 2)]
    random.shuffle(delivered)
    assert current_of(delivered) == expected(processor)
    assert current_of(events) == expected(processor)


def updated(name: str, at: int, previous: dict[str, Any], **after: Any) -> dict[str, Any]:
    return event("customer.subscription.updated", subscription(**after), at=at, name=name, previous=previous)


def test_within_a_second_the_path_decides() -> None:
    created = event("customer.subscription.created", subscription(status="incomplete"), at=AT, name="evt_9")
    paid = updated("evt_5", AT, {"status": "incomplete"})
    upgrade = updated(
        "evt_1",
        AT,
        {"items": {"data": subscription()["items"]["data"]}},
        prices=[price("price_business")],
    )
    for order in (
        [created, paid, upgrade],
        [upgrade, paid, created],
        [paid, upgrade, created],
        [paid, created, upgrade],
    ):
        assert current_of(order) == CurrentSubscription("sub_1", "active", Plan("Business", 50_000), 1_792_000_000)
    back = updated("evt_0", AT, {"items": {"data": subscription(prices=[price("price_business")])["items"]["data"]}})
    team = CurrentSubscription("sub_1", "active", Plan("Team", 1_000), 1_792_000_000)
    assert current_of([back, created, upgrade, paid]) == team
    # Alone, what is left and come back to in a second is known by what held before it.
    before = event("customer.subscription.created", subscription(), at=AT - 5, name="evt_7")
    assert current_of([before, upgrade, back]) == team
    assert current_of([back, upgrade, before]) == team
    assert current_of([upgrade, back]) == CurrentSubscription(
        "sub_1", "active", Plan("Business", 50_000), 1_792_000_000
    )


def test_what_has_ended_in_a_second_does_not_begin_again() -> None:
    deleted = event("customer.subscription.deleted", subscription(status="canceled"), at=AT, name="evt_1")
    paid = updated("evt_2", AT, {"status": "past_due"})
    for order in ([deleted, paid], [paid, deleted]):
        assert current_of(order) == CurrentSubscription(None, "canceled", Plan("Free", 10), 1_792_000_000)


@pytest.mark.parametrize("is_basil", [True, False])
def test_versions_of_the_api(is_basil: bool) -> None:
    before = subscription(status="past_due", period_end=1_791_000_000, is_basil=is_basil)
    items = before["items"]["data"]
    previous = {
        "status": "past_due",
        **({"items": {"data": items}} if is_basil else {"current_period_end": 1_791_000_000}),
    }
    after = subscription(is_basil=is_basil, customer={"id": "cus_1", "object": "customer"})
    parsed = parse_event(encode(event("customer.subscription.updated", after, at=AT, name="evt_1", previous=previous)))
    assert parsed.customer_id == "cus_1"
    assert parsed.change == SubscriptionEvent(
        AT,
        "evt_1",
        EventKind.UPDATED,
        SubscriptionState("active", ("price_team",), 1_792_000_000),
        SubscriptionState("past_due", ("price_team",), 1_791_000_000),
    )


def test_the_status_that_an_invoice_says() -> None:
    def invoice(kind: str, name: str, at: int) -> tuple[str, SubscriptionEvent]:
        return "sub_1", SubscriptionEvent(at, name, EventKind(kind))

    active = "sub_1", SubscriptionEvent(AT, "evt_1", EventKind.CREATED, SubscriptionState("active", ("price_team",)))
    for order, status in (
        ([active, invoice("failed", "evt_2", AT + 1)], "past_due"),
        ([active, invoice("failed", "evt_2", AT + 1), invoice("paid", "evt_3", AT + 2)], "active"),
        ([active, invoice("failed", "evt_2", AT + 1), invoice("paid", "evt_3", AT + 1)], "active"),
        ([active, invoice("failed", "evt_2", AT)], "active"),
    ):
        for arrived in (order, order[::-1]):
            histories: dict[str, History] = {}
            for name, one in arrived:
                histories = add_event(histories, name, one, PLANS)
            found = find_current(histories, PLANS)
            assert found is not None
            assert (found.status, found.plan) == (status, Plan("Team", 1_000))


def test_an_unknown_price_changes_nothing() -> None:
    known = updated("evt_1", AT, {})
    unknown = updated("evt_2", AT + 1, {}, prices=[price("price_other")])
    of_other = subscription("sub_2", status="canceled", prices=[price("price_other")])
    ended = event("customer.subscription.deleted", of_other, at=AT + 9, name="evt_3")
    for order in ([known, unknown], [unknown, known], [known, ended]):  # the last one is of another product
        assert plan_of(order) == Plan("Team", 1_000)
    assert current_of([unknown]) is None
    state = SubscriptionState("active", ("price_other",))
    assert has_unknown_price(History((SubscriptionEvent(AT, "evt_1", EventKind.SEEN, state),)), PLANS)


def test_which_plan_it_is() -> None:
    """The free one at the end, if there is one, else what it had. By lookup keys, the largest of several items; of two
    states of one second, of which nothing says which was first, none is lowered by a guess.
    """
    active = updated("evt_1", AT, {})
    for status in ("canceled", "unpaid", "incomplete_expired", "paused"):
        ended = updated("evt_2", AT + 1, {}, status=status)
        found = current_of([active, ended])
        assert found is not None
        assert (found.id, found.plan) == (None, Plan("Free", 10))
        assert plan_of([active, ended], Plans(PLANS.by_price)) == Plan("Team", 1_000)
    prices = [price("price_addon"), price("price_x", "business"), price("price_team")]
    assert plan_of([updated("evt_1", AT, {}, prices=prices)]) == Plan("Business", 50_000)
    large = updated("evt_2", AT, {}, prices=[price("price_business")])
    for order in ([active, large], [large, active]):
        assert plan_of(order) == Plan("Business", 50_000)


def test_what_is_kept_is_bounded() -> None:
    histories: dict[str, History] = {}

    def add(name: str, number: int, at: int, status: str = "active") -> dict[str, History]:
        state = SubscriptionState(status, ("price_team",), number)
        return add_event(histories, name, SubscriptionEvent(at, f"evt_{name}_{number}", EventKind.SEEN, state), PLANS)

    for number in range(500):
        histories = add("sub_1", number, AT + number // 3, "active" if number % 2 else "past_due")
    assert len(histories["sub_1"].events) <= MAX_EVENTS
    assert add("sub_1", 999, AT, "canceled") == histories, "it is too old"
    for number in range(500):
        histories = add("sub_2", number, AT)
    assert len(histories["sub_2"].events) == 64
    for number in range(3, 100):
        histories = add(f"sub_{number}", number, AT, "canceled")
    assert len(histories) == MAX_SUBSCRIPTIONS
    assert {"sub_1", "sub_2"} <= set(histories)
