"""Deliveries in the database: inserting them within the limits, writing the results of attempts, deleting them.

Every function runs in the caller's transaction. `leases` assigns deliveries to workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import RateLimited
from control.notify.channels.store import Channel, purge_deleted
from control.notify.channels.tables import TERMINAL_STATES, State, deliveries, delivery_messages, notification_channels
from control.notify.deliveries.leases import LEASE, OBSOLETE, ClaimedDelivery, in_flight
from control.notify.deliveries.rules import (
    MAX_ATTEMPTS,
    AttemptResult,
    backoff,
    is_failing_too_long,
    next_failing_since,
)
from control.notify.message import Message

MAX_DELIVERIES: Final = 20_000  # per organization, in every state


async def ensure_capacity(connection: AsyncConnection, org_id: str, requested: int) -> int:
    """How many of `requested` further deliveries the organization may have. At MAX_DELIVERIES, the oldest ended
    deliveries are deleted to make room. Deliveries that have not ended are not deleted.
    """
    number = await connection.scalar(sa.select(sa.func.count()).where(deliveries.c.org_id == org_id)) or 0
    free = MAX_DELIVERIES - number
    if free < requested:
        free += await delete_deliveries(connection, _oldest_ended(org_id, requested - free))
    return max(0, min(free, requested))


async def delete_deliveries(connection: AsyncConnection, ids: sa.Select[str]) -> int:
    """Delete these deliveries, and messages that no other delivery uses. Returns the number of deliveries."""
    removed = deliveries.delete().where(deliveries.c.id.in_(ids)).returning(deliveries.c.message_id)
    message_ids = list(await connection.scalars(removed))
    if message_ids:
        referenced = sa.exists().where(deliveries.c.message_id == delivery_messages.c.id)
        unused = delivery_messages.c.id.in_(set(message_ids)) & ~referenced
        await connection.execute(delivery_messages.delete().where(unused))
    return len(message_ids)


def _oldest_ended(org_id: str, limit: int) -> sa.Select[str]:
    """Ids of the oldest ended deliveries; reads an index per state."""
    found = [
        sa.select(deliveries.c.id)
        .where(deliveries.c.org_id == org_id, deliveries.c.state == state.value)
        .order_by(deliveries.c.id)
        .limit(limit)
        .subquery()
        for state in TERMINAL_STATES
    ]
    ended = sa.union_all(*(one.select() for one in found)).subquery("ended")
    return sa.select(ended.c.id).order_by(ended.c.id).limit(limit)


PURGE_BATCH: Final = 1_000
WORKER_DELAY: Final = timedelta(seconds=2)  # during which only the process that inserted deliveries claims them
MAX_CONCURRENT_TESTS: Final = 4  # per organization
TEST_RETRY_AFTER_S: Final = 15


@dataclass(frozen=True, slots=True)
class WrittenResult:
    """The new state of a delivery, and whether its channel has to be disabled."""

    state: State
    channel_failing: bool = False  # failing for DISABLE_AFTER: it has to be disabled


async def insert(
    connection: AsyncConnection,
    channels: Sequence[Channel],
    message: Message,
    now: datetime,
    until: datetime | None = None,
) -> list[str]:
    """Insert a waiting delivery for each channel. Returns the ids, in order. For WORKER_DELAY only the inserting
    process claims them.

    `until`: when attempts stop.
    """
    waiting = {"state": State.READY.value, "next_at": now + WORKER_DELAY, "until": until}
    return await _insert(connection, channels, message, now, waiting)


async def insert_single(
    connection: AsyncConnection, channel: Channel, message: Message, now: datetime
) -> ClaimedDelivery:
    """Insert a test: a delivery with one attempt, already claimed by the caller. Raises RateLimited if the organization
    has MAX_CONCURRENT_TESTS running tests, or MAX_DELIVERIES deliveries that have not ended.
    """
    tests = (deliveries.c.org_id == channel.org_id) & (deliveries.c.max_attempts == 1)
    running_tests = sa.select(sa.func.count()).where(tests, deliveries.c.state == State.SENDING.value)
    if (await connection.scalar(running_tests) or 0) >= MAX_CONCURRENT_TESTS:
        raise RateLimited(
            f"The organization is running {MAX_CONCURRENT_TESTS} tests, the maximum. Retry when one has ended.",
            TEST_RETRY_AFTER_S,
        )
    if not await ensure_capacity(connection, channel.org_id, 1):
        raise RateLimited(
            f"The organization has {MAX_DELIVERIES} waiting deliveries, the maximum. Retry when one has ended.",
            TEST_RETRY_AFTER_S,
        )
    claimed = {"state": State.SENDING.value, "lease_until": now + LEASE, "claims": 1, "max_attempts": 1}
    ids = await _insert(connection, [channel], message, now, claimed | {"attempted_at": now})
    return (await in_flight(connection, ids))[0]


async def resolve_subject(connection: AsyncConnection, org_id: str, subject: str, now: datetime) -> None:
    """Make all earlier deliveries of the subject obsolete: cancel the waiting ones, and allow no further attempt of
    those that are in flight.
    """
    earlier = (deliveries.c.org_id == org_id) & (deliveries.c.subject == subject)
    waiting = earlier & (deliveries.c.state == State.READY.value)
    values = {"state": State.CANCELLED.value, "next_at": None, "ended_at": now, "detail": OBSOLETE}
    await connection.execute(deliveries.update().where(waiting).values(values))
    not_obsolete = deliveries.c.until.is_(None) | (deliveries.c.until > now)
    await connection.execute(deliveries.update().where(earlier, not_obsolete).values(until=now))


async def write_result(
    connection: AsyncConnection, claimed: ClaimedDelivery, result: AttemptResult, now: datetime, random_value: float
) -> WrittenResult | None:
    """Write the result of an attempt. Returns None, and writes nothing, if another claim has taken over the lease.

    No further attempt follows if the channel was disabled meanwhile, or if the message is obsolete. `random_value`:
    from 0 to 1, for the delay.
    """
    context = await _load_result_context(connection, claimed)
    if context is None:
        return None
    state = _next_state(claimed, result, context, now)
    attempts = claimed.attempts + 1
    values = {
        "state": state.value,
        "attempts": attempts,
        "lease_until": None,
        "next_at": now + backoff(attempts, result.retry_after_s, random_value) if state is State.READY else None,
        "ended_at": now if state in TERMINAL_STATES else None,
        "detail": result.detail,
        "failed": not result.ok,
        "permanent": result.permanent,
        "retry_after_s": result.retry_after_s,
        "taken": result.recipient_progress or claimed.taken,
    }
    await connection.execute(deliveries.update().where(deliveries.c.id == claimed.id).values(values))
    if result.service_fault or (claimed.is_test and not result.ok):
        return WrittenResult(state)  # a fault of this service, or a failed test: not counted for the channel
    since = await _update_failing_since(connection, claimed, result, context, now)
    return WrittenResult(state, channel_failing=context.enabled and is_failing_too_long(since, now))


async def reset(connection: AsyncConnection, delivery_id: str) -> None:
    """Let the delivery wait, due now, as if it had never been attempted. Earlier claims no longer count."""
    values: dict[str, Any] = {
        **dict.fromkeys(("ended_at", "attempted_at", "detail", "retry_after_s", "taken")),
        **dict.fromkeys(("failed", "permanent"), False),
        "state": State.READY.value,
        "attempts": 0,
        "next_at": to_milliseconds(datetime.now(UTC)),
    }
    await connection.execute(deliveries.update().where(deliveries.c.id == delivery_id).values(values))


async def purge_ended(connection: AsyncConnection, before: datetime) -> int:
    """Delete at most PURGE_BATCH deliveries that ended before `before`, and deleted channels without deliveries.
    Returns the number of deliveries.
    """
    old = sa.select(deliveries.c.id).where(deliveries.c.ended_at < before).limit(PURGE_BATCH)
    removed = await delete_deliveries(connection, old)
    await purge_deleted(connection, PURGE_BATCH)
    return removed


async def next_due(connection: AsyncConnection) -> datetime | None:
    """When the next delivery is due or the next lease ends. None if no delivery waits."""
    waiting = sa.select(sa.func.min(deliveries.c.next_at)).where(deliveries.c.state == State.READY.value)
    leased = sa.select(sa.func.min(deliveries.c.lease_until)).where(deliveries.c.state == State.SENDING.value)
    found = [time for time in (await connection.scalar(waiting), await connection.scalar(leased)) if time is not None]
    return min(found, default=None)


async def _insert(
    connection: AsyncConnection,
    channels: Sequence[Channel],
    message: Message,
    now: datetime,
    state_columns: dict[str, Any],
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
    } | state_columns
    rows = [row | {"id": new_id("dlv"), "org_id": channel.org_id, "channel_id": channel.id} for channel in channels]
    await connection.execute(deliveries.insert(), rows)
    return [str(one["id"]) for one in rows]


async def _load_result_context(connection: AsyncConnection, claimed: ClaimedDelivery) -> sa.Row[Any] | None:
    """Load the values that a result also depends on, in its transaction: `enabled`, `failing_since` and `failed_at` of
    the channel, and `until`. Returns None if this is not the latest claim, which has the highest number.
    """
    channel = notification_channels.c
    columns = (channel.enabled, channel.failing_since, channel.failed_at, deliveries.c.until)
    found: sa.Select[Any] = sa.select(*columns).join_from(
        deliveries, notification_channels, channel.id == deliveries.c.channel_id
    )
    is_current_claim = (
        deliveries.c.id == claimed.id,
        deliveries.c.state == State.SENDING.value,
        deliveries.c.claims == claimed.claims,
    )
    row: sa.Row[Any] | None = (await connection.execute(found.where(*is_current_claim))).one_or_none()
    return row


def _next_state(claimed: ClaimedDelivery, result: AttemptResult, context: sa.Row[Any], now: datetime) -> State:
    if result.ok:
        return State.DONE
    if result.permanent or claimed.attempts + 1 >= claimed.max_attempts:
        return State.DEAD
    obsolete = context.until is not None and context.until <= now
    return State.READY if context.enabled and not obsolete else State.CANCELLED


async def _update_failing_since(
    connection: AsyncConnection,
    claimed: ClaimedDelivery,
    result: AttemptResult,
    context: sa.Row[Any],
    now: datetime,
) -> datetime | None:
    """Update since when deliveries to the channel fail, and the time of the last failure. Returns since when. None: not
    failing.
    """
    succeeded = result.ok or result.recipient_progress not in ("", claimed.taken)
    if succeeded and context.failing_since is None:
        return None
    since = None if succeeded else next_failing_since(context.failing_since, context.failed_at, now)
    values = {"failing_since": since, "failed_at": None if succeeded else now}
    where = notification_channels.c.id == claimed.channel_id
    await connection.execute(notification_channels.update().where(where).values(values))
    return since
