"""What the events of a customer's subscriptions say together, whatever the order in which they arrive. Pure.

The processor delivers events out of order and more than once, and dates them to the second only. So the newest events
of each subscription are kept, and what holds is computed from all of them: the result depends on the set of events, not
on their order.

    seconds     a later second prevails over an earlier one
    a second    each `updated` leads from a state to a state: `previous_attributes` say from which. Together they are a
                path, and it ends where more of them arrive than leave; a path that returns to where it began ends
                there. A subscription that has ended does not begin again.
    no path     if a second has states that nothing connects, the one that gives most prevails: nothing is lowered by a
                guess
    invoices    `paid` and `payment_failed` change the status alone, and only in a second without a state

An organization has the plan of that live subscription which gives most; if all have ended, the free plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from control.plans import Plan, Plans

MAX_EVENTS: Final = 16  # kept of a subscription; what older ones said is kept as one state
MAX_EVENTS_OF_A_SECOND: Final = 64
MAX_SUBSCRIPTIONS: Final = 20  # kept of a customer; those that have ended go first
GRANTING: Final = frozenset({"active", "trialing", "past_due"})
ENDED: Final = frozenset({"canceled", "unpaid", "incomplete_expired", "paused"})
FINAL: Final = frozenset({"canceled", "incomplete_expired"})


class SubscriptionState(msgspec.Struct, frozen=True, array_like=True):
    """A subscription at some time. `prices`: ids and lookup keys, sorted. `period_end`: seconds since 1970."""

    status: str
    prices: tuple[str, ...]
    period_end: int | None = None


class EventKind(StrEnum):
    """What an event says of its subscription."""

    CREATED = "created"
    UPDATED = "updated"  # with the state before, if it is known
    SEEN = "seen"  # the state alone
    PAID = "paid"
    FAILED = "failed"  # a payment


class SubscriptionEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event of a subscription. `at`: seconds since 1970. `after`: None of an invoice."""

    at: int
    id: str
    kind: EventKind
    after: SubscriptionState | None = None
    before: SubscriptionState | None = None


class Settled(msgspec.Struct, frozen=True, array_like=True):
    """What holds after a second. `granted`: prices of the last state that gave a plan. `is_ours`: a price was one that
    a plan names.
    """

    at: int = -1
    state: SubscriptionState | None = None
    granted: tuple[str, ...] = ()
    is_ours: bool = False


class History(msgspec.Struct, frozen=True, array_like=True):
    """The newest events of a subscription, and what all before them said."""

    events: tuple[SubscriptionEvent, ...] = ()
    settled: Settled = Settled()


class CurrentSubscription(NamedTuple):
    """What holds for the organization. `id`: None if all have ended. `plan`: None if its price is unknown
    or nothing was paid so far; then nothing is changed.
    """

    id: str | None
    status: str
    plan: Plan | None
    period_end: int | None


def add_event(
    histories: Mapping[str, History], subscription_id: str, event: SubscriptionEvent, plans: Plans
) -> dict[str, History]:
    """The histories with one more event. One that is known, or older than what is kept, changes nothing."""
    history = histories.get(subscription_id, History())
    if event.at > history.settled.at and event.id not in {one.id for one in history.events}:
        events = sorted((*history.events, event), key=lambda one: (one.at, one.id))
        history = _shorten(History(tuple(events), history.settled), plans)
    return _forget_oldest({**histories, subscription_id: history}, plans)


def find_current(histories: Mapping[str, History], plans: Plans) -> CurrentSubscription | None:
    """What holds, by subscriptions that have or had a price of a plan; None without one."""
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
    """Whether no plan names the price of a subscription: now, or of one that has ended, ever."""
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
    """Where the path of a second ends: see the top of this module."""
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
    """With the oldest seconds settled, so that few events remain."""
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
