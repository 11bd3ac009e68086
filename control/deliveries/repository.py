"""Deliveries in the store: how they come to be, what an outcome makes of them, and how they are forgotten.

Every function works in the caller's transaction. `claims` has who works on which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.errors import RateLimited
from control.channels.delivery_tables import TERMINAL_STATES, State, deliveries, delivery_messages
from control.channels.repository import Channel, purge_deleted
from control.channels.tables import notification_channels
from control.deliveries.capacity import MAX_DELIVERIES, delete_deliveries, ensure_capacity
from control.deliveries.leases import LEASE, OBSOLETE, ClaimedDelivery, in_flight
from control.deliveries.outcome import MAX_ATTEMPTS, AttemptOutcome, backoff, is_failing_too_long, next_failing_since
from control.message import Message

PURGE_BATCH: Final = 1_000
WORKER_DELAY: Final = timedelta(seconds=2)  # of who has inserted deliveries over those who look for some
MAX_CONCURRENT_TESTS: Final = 4  # of an organization
TEST_RETRY_AFTER_S: Final = 15


@dataclass(frozen=True, slots=True)
class OutcomeResult:
    """What became of a delivery, and what that means for its channel."""

    state: State
    channel_failing: bool = False  # for too long: it is to be switched off


@dataclass(frozen=True, slots=True)
class _OutcomeContext:
    """What counts for an outcome beside the claim, as of its transaction."""

    enabled: bool
    failing_since: datetime | None
    failed_at: datetime | None
    until: datetime | None


async def insert(
    connection: AsyncConnection,
    channels: Sequence[Channel],
    message: Message,
    now: datetime,
    until: datetime | None = None,
) -> list[str]:
    """A waiting delivery for each channel; their ids, in order. Whoever inserts them may claim them first.

    `until`: from then on it is not attempted any more.
    """
    waiting = {"state": State.READY.value, "next_at": now + WORKER_DELAY, "until": until}
    return await _insert(connection, channels, message, now, waiting)


async def insert_single(
    connection: AsyncConnection, channel: Channel, message: Message, now: datetime
) -> ClaimedDelivery:
    """A delivery of one attempt, which is the caller's from the start: a test. Raises RateLimited while the
    organization makes TESTS_AT_ONCE others, or has MAX_DELIVERIES that have not ended.
    """
    tests = (deliveries.c.org_id == channel.org_id) & (deliveries.c.max_attempts == 1)
    under_way = sa.select(sa.func.count()).where(tests, deliveries.c.state == State.SENDING.value)
    if (await connection.scalar(under_way) or 0) >= MAX_CONCURRENT_TESTS:
        raise RateLimited(
            f"The organization makes {MAX_CONCURRENT_TESTS} tests already; wait for one to end.", TEST_RETRY_AFTER_S
        )
    if not await ensure_capacity(connection, channel.org_id, 1):
        raise RateLimited(
            f"{MAX_DELIVERIES} deliveries of the organization wait; wait for one to end.", TEST_RETRY_AFTER_S
        )
    held = {"state": State.SENDING.value, "lease_until": now + LEASE, "claims": 1, "max_attempts": 1}
    ids = await _insert(connection, [channel], message, now, held | {"attempted_at": now})
    return (await in_flight(connection, ids))[0]


async def resolve_subject(connection: AsyncConnection, org_id: str, subject: str, now: datetime) -> None:
    """What was told of the subject so far is over: what waits is cancelled, and no attempt follows one under way."""
    earlier = (deliveries.c.org_id == org_id) & (deliveries.c.subject == subject)
    waiting = earlier & (deliveries.c.state == State.READY.value)
    values = {"state": State.CANCELLED.value, "next_at": None, "ended_at": now, "detail": OBSOLETE}
    await connection.execute(deliveries.update().where(waiting).values(values))
    still = deliveries.c.until.is_(None) | (deliveries.c.until > now)
    await connection.execute(deliveries.update().where(earlier, still).values(until=now))


async def write_outcome(
    connection: AsyncConnection, claimed: ClaimedDelivery, outcome: AttemptOutcome, now: datetime, random_value: float
) -> OutcomeResult | None:
    """Write what came of an attempt. None, and nothing written, when the lease was lost and the delivery is another's.

    When the channel was switched off meanwhile, or what it tells of is over, no further attempt follows. `draw`: from 0
    to 1, for the pause.
    """
    standing = await _load_outcome_context(connection, claimed)
    if standing is None:
        return None
    state = _next_state(claimed, outcome, standing, now)
    attempts = claimed.attempts + 1
    values = {
        "state": state.value,
        "attempts": attempts,
        "lease_until": None,
        "next_at": now + backoff(attempts, outcome.retry_after_s, random_value) if state is State.READY else None,
        "ended_at": now if state in TERMINAL_STATES else None,
        "detail": outcome.detail,
        "failed": not outcome.ok,
        "permanent": outcome.permanent,
        "retry_after_s": outcome.retry_after_s,
        "taken": outcome.recipient_progress or claimed.taken,
    }
    await connection.execute(deliveries.update().where(deliveries.c.id == claimed.id).values(values))
    if outcome.service_fault or (claimed.is_test and not outcome.ok):
        return OutcomeResult(state)  # which says nothing of the receiver, or nothing of the traffic
    since = await _update_failing_since(connection, claimed, outcome, standing, now)
    return OutcomeResult(state, channel_failing=standing.enabled and is_failing_too_long(since, now))


async def purge_ended(connection: AsyncConnection, before: datetime) -> int:
    """Remove at most EXPIRED_AT_ONCE deliveries that ended before then, and deleted channels that none is of any more.
    How many deliveries.
    """
    old = sa.select(deliveries.c.id).where(deliveries.c.ended_at < before).limit(PURGE_BATCH)
    removed = await delete_deliveries(connection, old)
    await purge_deleted(connection, PURGE_BATCH)
    return removed


async def next_due(connection: AsyncConnection) -> datetime | None:
    """When there is something to do: a delivery is due, or a lease ends. None: nothing waits."""
    waiting = sa.select(sa.func.min(deliveries.c.next_at)).where(deliveries.c.state == State.READY.value)
    leased = sa.select(sa.func.min(deliveries.c.lease_until)).where(deliveries.c.state == State.SENDING.value)
    found = [time for time in (await connection.scalar(waiting), await connection.scalar(leased)) if time is not None]
    return min(found, default=None)


async def _insert(
    connection: AsyncConnection, channels: Sequence[Channel], message: Message, now: datetime, more: dict[str, Any]
) -> list[str]:
    if not channels:
        return []
    stored = {"id": new_id("msg"), "message": msgspec.json.encode(message).decode()}
    await connection.execute(delivery_messages.insert().values(stored))
    row = {
        "type": message.type,
        "subject": message.subject,
        "message_id": stored["id"],
        "attempts": 0,
        "max_attempts": MAX_ATTEMPTS,
        "claims": 0,
        "failed": False,
        "permanent": False,
        "created_at": now,
    } | more
    rows = [row | {"id": new_id("dlv"), "org_id": channel.org_id, "channel_id": channel.id} for channel in channels]
    await connection.execute(deliveries.insert(), rows)
    return [str(one["id"]) for one in rows]


async def _load_outcome_context(connection: AsyncConnection, claimed: ClaimedDelivery) -> _OutcomeContext | None:
    """None when the claim is not the last one any more: a later one has a higher number."""
    channel = notification_channels.c
    columns = (channel.enabled, channel.failing_since, channel.failed_at, deliveries.c.until)
    found = sa.select(*columns).join_from(deliveries, notification_channels, channel.id == deliveries.c.channel_id)
    ours = (
        deliveries.c.id == claimed.id,
        deliveries.c.state == State.SENDING.value,
        deliveries.c.claims == claimed.claims,
    )
    row = (await connection.execute(found.where(*ours))).one_or_none()
    return None if row is None else _OutcomeContext(*row)


def _next_state(claimed: ClaimedDelivery, outcome: AttemptOutcome, context: _OutcomeContext, now: datetime) -> State:
    if outcome.ok:
        return State.DONE
    if outcome.permanent or claimed.attempts + 1 >= claimed.max_attempts:
        return State.DEAD
    over = context.until is not None and context.until <= now
    return State.READY if context.enabled and not over else State.CANCELLED


async def _update_failing_since(
    connection: AsyncConnection,
    claimed: ClaimedDelivery,
    outcome: AttemptOutcome,
    context: _OutcomeContext,
    now: datetime,
) -> datetime | None:
    """Write since when nothing comes through to the channel, and when that was last seen; the former."""
    came_through = outcome.ok or outcome.recipient_progress not in ("", claimed.taken)
    if came_through and context.failing_since is None:
        return None
    since = None if came_through else next_failing_since(context.failing_since, context.failed_at, now)
    values = {"failing_since": since, "failed_at": None if came_through else now}
    where = notification_channels.c.id == claimed.channel_id
    await connection.execute(notification_channels.update().where(where).values(values))
    return since
