"""Computes the current subscription from all events of a customer's subscriptions. The order in which they arrive makes
no difference. Pure functions.

The processor delivers events out of order and more than once, with times in whole seconds. The newest events of each
subscription are therefore kept, and the current subscription is computed from all of them. The result depends on the
set of events, not on their order.

    seconds     events of a later second prevail over events of an earlier one
    a second    each `updated` leads from one state to another; `previous_attributes` name the earlier one. Together the
                events of a second form a path. It ends at the state at which more events arrive than leave. A path that
                returns to its beginning ends there. A subscription that has ended does not begin again.
    no path     if the states of a second are not connected, the state that gives most prevails, so that the plan is
                never lowered by a guess
    invoices    `paid` and `payment_failed` change only the status, and only in a second without a state

An organization has the plan of its live subscription that gives most. If all have ended, it has the free plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from control.plans import Plan, Plans

MAX_EVENTS: Final = 16  # kept per subscription; the effect of older events is kept as one state
MAX_EVENTS_OF_A_SECOND: Final = 64
MAX_SUBSCRIPTIONS: Final = 20  # kept per customer; subscriptions that have ended are deleted first
GRANTING: Final = frozenset({"active", "trialing", "past_due"})
ENDED: Final = frozenset({"canceled", "unpaid", "incomplete_expired", "paused"})
FINAL: Final = frozenset({"canceled", "incomplete_expired"})


class SubscriptionState(msgspec.Struct, frozen=True, array_like=True):
    """A subscription at a point in time. `prices`: ids and lookup keys, sorted. `period_end`: seconds since 1970."""

    status: str
    prices: tuple[str, ...]
    period_end: int | None = None


class EventKind(StrEnum):
    """The kind of an event of a subscription."""

    CREATED = "created"
    UPDATED = "updated"  # with the previous state, if it is known
    SEEN = "seen"  # only the state
    PAID = "paid"
    FAILED = "failed"  # a failed payment


class SubscriptionEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event of a subscription. `at`: seconds since 1970. `after`: the state after the event, None for an invoice."""

    at: int
    id: str
    kind: EventKind
    after: SubscriptionState | None = None
    before: SubscriptionState | None = None


class Settled(msgspec.Struct, frozen=True, array_like=True):
    """The state after all events of a second. `granted`: prices of the last state that gave a plan. `is_ours`: a price
    of the subscription has belonged to a plan.
    """

    at: int = -1
    state: SubscriptionState | None = None
    granted: tuple[str, ...] = ()
    is_ours: bool = False


class History(msgspec.Struct, frozen=True, array_like=True):
    """The newest events of a subscription, and the state after all earlier ones."""

    events: tuple[SubscriptionEvent, ...] = ()
    settled: Settled = Settled()


class CurrentSubscription(NamedTuple):
    """The current subscription of the organization. `id`: None if all have ended. `plan`: None if its price is unknown
    or nothing was paid so far. Then the plan is not changed.
    """

    id: str | None
    status: str
    plan: Plan | None
    period_end: int | None


def add_event(
    histories: Mapping[str, History], subscription_id: str, event: SubscriptionEvent, plans: Plans
) -> dict[str, History]:
    """Add an event to the histories. An event that is known, or older than the kept ones, changes nothing."""
    history = histories.get(subscription_id, History())
    if event.at > history.settled.at and event.id not in {one.id for one in history.events}:
        events = sorted((*history.events, event), key=lambda one: (one.at, one.id))
        history = _shorten(History(tuple(events), history.settled), plans)
    return _forget_oldest({**histories, subscription_id: history}, plans)


def find_current(histories: Mapping[str, History], plans: Plans) -> CurrentSubscription | None:
    """Find the current subscription among the subscriptions that have or had a price of a plan. Returns None if there
    are none.
    """
    found = {name: _settle(history, plans) for name, history in histories.items()}
    ours = [(name, one, one.state) for name, one in found.items() if one.state is not None and one.is_ours]
    ended = [(name, one, state) for name, one, state in ours if state.status in ENDED]
    live = [(name, one, state) for name, one, state in ours if state.status not in ENDED]
    granting = [(plan.rank, *each, plan) for each in live if (plan := plans.find(each[1].granted)) is not None]
    if granting:
        _, name, _, state, plan = max(granting, key=lambda each: (each[0], each[2].at, each[1]))
        return CurrentSubscription(name, state.status, plan, state.period_end)
    if ended:
        _, last, state = max(ended, key=lambda each: (each[1].at, each[0]))
        return CurrentSubscription(None, state.status, plans.free or plans.find(last.granted), state.period_end)
    if live:
        name, _, state = max(live, key=lambda each: (each[1].at, each[0]))
        return CurrentSubscription(name, state.status, None, state.period_end)
    return None


def has_unknown_price(history: History, plans: Plans) -> bool:
    """Whether no plan has the price of a subscription. For a subscription that has ended, whether no plan has any price
    that it ever had.
    """
    settled = _settle(history, plans)
    if settled.state is None or settled.state.status in ENDED:
        return settled.state is not None and not settled.is_ours
    return plans.find(settled.state.prices) is None


def _settle(history: History, plans: Plans) -> Settled:
    settled = history.settled
    for _, events in groupby(history.events, key=lambda event: event.at):
        settled = _after_second(settled, list(events), plans)
    return settled


def _after_second(before: Settled, events: Sequence[SubscriptionEvent], plans: Plans) -> Settled:
    states = [event.after for event in events if event.after is not None]
    state = _last_state(before.state, events, plans) if states else _with_invoices(before.state, events)
    granting = [one for one in states if one.status in GRANTING and plans.find(one.prices) is not None]
    granted = before.granted
    if state in granting:
        granted = state.prices
    elif granting:
        granted = max(granting, key=lambda one: _rank(one, plans)).prices
    return Settled(
        events[0].at, state, granted, before.is_ours or any(plans.find(one.prices) is not None for one in states)
    )


def _last_state(
    start: SubscriptionState | None, events: Sequence[SubscriptionEvent], plans: Plans
) -> SubscriptionState | None:
    """The state at which the path of a second ends, as the docstring of this module explains."""
    states = {event.after for event in events if event.after is not None}
    final = {state for state in states if state.status in FINAL}
    if final:
        return max(final, key=lambda state: _rank(state, plans))
    arrivals: Counter[SubscriptionState | None] = Counter()
    for event in events:
        if event.kind is EventKind.CREATED or (event.before is not None and event.before != event.after):
            arrivals[event.after] += 1
            arrivals[event.before] -= 1
    ends = {state for state in states if arrivals[state] > 0}
    if not ends and start in arrivals:
        return start
    return max(ends or states, key=lambda state: _rank(state, plans))


def _with_invoices(state: SubscriptionState | None, events: Iterable[SubscriptionEvent]) -> SubscriptionState | None:
    kinds = {event.kind for event in events}
    if state is not None and state.status == "past_due" and EventKind.PAID in kinds:
        return msgspec.structs.replace(state, status="active")
    if state is not None and state.status == "active" and EventKind.PAID not in kinds:
        return msgspec.structs.replace(state, status="past_due")
    return state


def _rank(state: SubscriptionState, plans: Plans) -> tuple[object, ...]:
    plan = plans.find(state.prices)
    gives = (False, -1, "") if plan is None else plan.rank
    return state.status in GRANTING, gives, state.period_end or 0, state.status, state.prices


def _shorten(history: History, plans: Plans) -> History:
    """The history with its oldest seconds settled, so that few events remain."""
    events, settled = history.events, history.settled
    while len(events) > MAX_EVENTS and events[0].at != events[-1].at:
        oldest = [event for event in events if event.at == events[0].at]
        settled = _after_second(settled, oldest, plans)
        events = events[len(oldest) :]
    return History(events[:MAX_EVENTS_OF_A_SECOND], settled)


def _forget_oldest(histories: dict[str, History], plans: Plans) -> dict[str, History]:
    if len(histories) > MAX_SUBSCRIPTIONS:
        found = {name: _settle(history, plans) for name, history in histories.items()}

        def age(name: str) -> tuple[bool, int, str]:
            state = found[name].state
            return state is not None and state.status not in ENDED, found[name].at, name

        del histories[min(histories, key=age)]
    return histories
