"""What events say together: whatever their order, the last state that the processor had."""

from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.billing.events import parse_event
from control.billing.history import (
    ENDED,
    GRANTING,
    MAX_EVENTS,
    MAX_SUBSCRIPTIONS,
    EventKind,
    History,
    Outcome,
    SubscriptionEvent,
    SubscriptionState,
    add_event,
    find_outcome,
    has_unknown_price,
)
from control.plans import Plan, Plans
from tests.control.billing.processor import Processor, encode, event, price, subscription

PLANS: Final = Plans.parse(
    ("price_team=Team:1000", "business=Business:50000", "price_business=Business:50000", "price_unlimited=Unlimited:0"),
    "Free:10",
)
AT: Final = 1_790_000_000


def outcome_of(events: list[dict[str, Any]], plans: Plans = PLANS) -> Outcome | None:
    histories: dict[str, History] = {}
    for one in events:
        parsed = parse_event(encode(one))
        if parsed.change is None or parsed.subscription_id is None:
            raise AssertionError(one)
        histories = add_event(histories, parsed.subscription_id, parsed.change, plans)
    return find_outcome(histories, plans)


def expected(processor: Processor) -> Outcome | None:
    """By the subscriptions as the processor has them in the end, and what was granted before."""
    granting, ended = [], []
    for name, one in processor.subscriptions.items():
        mine = [each for each in processor.events if each["data"]["object"]["id"] == name]
        end = one["items"]["data"][0]["current_period_end"]
        if one["status"] in GRANTING:
            plan = PLANS.find([one["items"]["data"][0]["price"]["id"]])
            if plan is None:
                raise AssertionError
            granting.append((plan.rank, mine[-1]["created"], name, Outcome(name, one["status"], plan, end)))
        elif one["status"] in ENDED:
            ended.append((True, mine[-1]["created"], name, Outcome(None, one["status"], PLANS.free, end)))
        else:
            ended.append((False, mine[-1]["created"], name, Outcome(name, one["status"], None, end)))
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
    assert outcome_of(delivered) == expected(processor)
    assert outcome_of(events) == expected(processor)


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
        assert outcome_of(order) == Outcome("sub_1", "active", Plan("Business", 50_000), 1_792_000_000)
    back = updated("evt_0", AT, {"items": {"data": subscription(prices=[price("price_business")])["items"]["data"]}})
    team = Outcome("sub_1", "active", Plan("Team", 1_000), 1_792_000_000)
    assert outcome_of([back, created, upgrade, paid]) == team
    # Alone, what is left and come back to in a second is known by what held before it.
    before = event("customer.subscription.created", subscription(), at=AT - 5, name="evt_7")
    assert outcome_of([before, upgrade, back]) == team
    assert outcome_of([back, upgrade, before]) == team
    assert outcome_of([upgrade, back]) == Outcome("sub_1", "active", Plan("Business", 50_000), 1_792_000_000)


def test_what_has_ended_in_a_second_does_not_begin_again() -> None:
    deleted = event("customer.subscription.deleted", subscription(status="canceled"), at=AT, name="evt_1")
    paid = updated("evt_2", AT, {"status": "past_due"})
    for order in ([deleted, paid], [paid, deleted]):
        assert outcome_of(order) == Outcome(None, "canceled", Plan("Free", 10), 1_792_000_000)


def test_nothing_is_lowered_by_a_guess() -> None:
    """Two states of one second, and nothing says which was first."""
    small = updated("evt_1", AT, {})
    large = updated("evt_2", AT, {}, prices=[price("price_business")])
    for order in ([small, large], [large, small]):
        found = outcome_of(order)
        assert found is not None
        assert found.plan == Plan("Business", 50_000)


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
            found = find_outcome(histories, PLANS)
            assert found is not None
            assert (found.status, found.plan) == (status, Plan("Team", 1_000))


def test_an_unknown_price_changes_nothing() -> None:
    known = updated("evt_1", AT, {})
    unknown = updated("evt_2", AT + 1, {}, prices=[price("price_other")])
    for order in ([known, unknown], [unknown, known]):
        found = outcome_of(order)
        assert found is not None
        assert found.plan == Plan("Team", 1_000)
    assert outcome_of([unknown]) is None
    ended = event(
        "customer.subscription.deleted",
        subscription("sub_2", status="canceled", prices=[price("price_other")]),
        at=AT + 9,
        name="evt_3",
    )
    found = outcome_of([known, ended])  # of another product
    assert found is not None
    assert found.plan == Plan("Team", 1_000)
    state = SubscriptionState("active", ("price_other",))
    assert has_unknown_price(History((SubscriptionEvent(AT, "evt_1", EventKind.SEEN, state),)), PLANS)


def test_the_free_plan_and_without_one() -> None:
    active = updated("evt_1", AT, {})
    ended = [
        updated("evt_2", AT + 1, {}, status=status) for status in ("canceled", "unpaid", "incomplete_expired", "paused")
    ]
    for one in ended:
        found = outcome_of([active, one])
        assert found is not None
        assert (found.subscription_id, found.plan) == (None, Plan("Free", 10))
        found = outcome_of([active, one], Plans(PLANS.by_price))
        assert found is not None
        assert found.plan == Plan("Team", 1_000)  # it keeps what it had


def test_lookup_keys_and_several_items() -> None:
    prices = [price("price_addon"), price("price_x", "business"), price("price_team")]
    found = outcome_of([updated("evt_1", AT, {}, prices=prices)])
    assert found is not None
    assert found.plan == Plan("Business", 50_000)


def test_what_is_kept_is_bounded() -> None:
    histories: dict[str, History] = {}
    for number in range(500):
        state = SubscriptionState("active" if number % 2 else "past_due", ("price_team",), number)
        histories = add_event(
            histories, "sub_1", SubscriptionEvent(AT + number // 3, f"evt_{number}", EventKind.SEEN, state), PLANS
        )
    assert len(histories["sub_1"].events) <= MAX_EVENTS
    stale = add_event(
        histories,
        "sub_1",
        SubscriptionEvent(AT, "evt_x", EventKind.SEEN, SubscriptionState("canceled", ("price_team",))),
        PLANS,
    )
    assert stale == histories
    for number in range(500):
        event_ = SubscriptionEvent(
            AT, f"evt_s{number}", EventKind.SEEN, SubscriptionState("active", ("price_team",), number)
        )
        histories = add_event(histories, "sub_2", event_, PLANS)
    assert len(histories["sub_2"].events) == 64
    for number in range(3, 100):
        gone = SubscriptionState("canceled", ("price_team",))
        histories = add_event(
            histories, f"sub_{number}", SubscriptionEvent(AT, f"evt_{number}", EventKind.SEEN, gone), PLANS
        )
    assert len(histories) == MAX_SUBSCRIPTIONS
    assert {"sub_1", "sub_2"} <= set(histories)
