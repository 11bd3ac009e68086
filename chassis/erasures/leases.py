"""Leases: one gateway at a time executes an erasure. After a crash its lease expires, and another gateway continues.

Every function runs in the caller's transaction. Write transactions are serialized, so the rows that a claim has read
are unchanged when the claim writes. A worker loses its lease if it is stopped for longer than the lease lasts. Each
function that takes a lease then returns False and changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.erasures.repository import (
    OPEN_STATES,
    StoredErasure,
    complete_if_done,
    get,
    merged_counts,
    missing_acknowledgements,
)
from chassis.erasures.tables import MAX_MESSAGE_LENGTH, ErasureState, erasures

LEASE: Final = timedelta(seconds=60)


class AcknowledgementMissing(Exception):
    """The erasure cannot be completed yet, because these journals may hold requests that it covers."""

    def __init__(self, journals: Sequence[str]) -> None:
        super().__init__(f"these journals have not acknowledged the erasure: {', '.join(journals)}")
        self.journals = tuple(journals)


@dataclass(frozen=True, slots=True)
class ErasureLease:
    """A claimed erasure, as it was when it was claimed. `attempt` is the number of this claim."""

    erasure: StoredErasure
    owner: str
    attempt: int


async def claim(
    connection: AsyncConnection, owner: str, now: datetime, lease: timedelta = LEASE, *, after_org_id: str = ""
) -> ErasureLease | None:
    """Claim the oldest erasure of telemetry that is due and that no gateway executes. Organizations take turns: the
    erasure belongs to the next organization after `after_org_id` that has one, so an organization that deletes many
    projects delays only its own erasures. None if there is no such erasure.
    """
    now = to_milliseconds(now)
    other = erasures.alias()
    # One erasure of a project at a time, because two erasures would rebuild the same derived rows.
    is_busy = sa.exists().where(
        other.c.project_id == erasures.c.project_id, other.c.id != erasures.c.id, other.c.lease_until > now
    )
    due = (
        sa.select(erasures.c.id)
        .where(
            erasures.c.state.in_([state.value for state in OPEN_STATES]),
            erasures.c.project_id.is_not(None),
            erasures.c.erased_at.is_(None),
            erasures.c.lease_until.is_(None) | (erasures.c.lease_until <= now),
            erasures.c.retry_at.is_(None) | (erasures.c.retry_at <= now),
            ~is_busy,
        )
        .order_by(
            sa.case((erasures.c.org_id > after_org_id, 0), else_=1),
            erasures.c.org_id,
            sa.func.coalesce(erasures.c.retry_at, erasures.c.requested_at),
            erasures.c.number,
        )
        .limit(1)
    )
    erasure_id = await connection.scalar(due)
    if erasure_id is None:
        return None
    values = {
        "state": ErasureState.RUNNING.value,
        "lease_owner": owner,
        "lease_until": now + lease,
        "retry_at": None,
        "attempts": erasures.c.attempts + 1,
    }
    await connection.execute(erasures.update().where(erasures.c.id == erasure_id).values(values))
    claimed = await get(connection, erasure_id)
    return ErasureLease(claimed, owner, claimed.attempts)


async def renew(connection: AsyncConnection, held: ErasureLease, now: datetime, lease: timedelta = LEASE) -> bool:
    """Extend the lease to the duration `lease` from `now`."""
    return await _change(connection, held, {"lease_until": to_milliseconds(now) + lease})


async def report_progress(
    connection: AsyncConnection,
    held: ErasureLease,
    counts: Mapping[str, int],
    now: datetime,
    message: str | None = None,
    lease: timedelta = LEASE,
    *,
    pending_deletion: Mapping[str, Any] | None = None,
    days: Sequence[str] | None = None,
) -> bool:
    """Store the numbers of rows deleted so far by table, the deletion that begins now, the current step and (unless
    None) the days of the items. Renews the lease.
    """
    merged = await merged_counts(connection, held.erasure.id, counts)
    values: dict[str, Any] = {"counts": merged, "pending_deletion": pending_deletion, "message": _shortened(message)}
    values["lease_until"] = to_milliseconds(now) + lease
    if days is not None:
        values["days"] = list(days)
    return await _change(connection, held, values)


async def release(
    connection: AsyncConnection, held: ErasureLease, retry_at: datetime | None = None, message: str | None = None
) -> bool:
    """Give up the lease before the erasure is done, at shutdown or because a store is unavailable. The erasure can be
    claimed again from `retry_at` on.
    """
    values = {"retry_at": retry_at, "message": _shortened(message), "lease_owner": None, "lease_until": None}
    return await _change(connection, held, values)


async def complete(connection: AsyncConnection, held: ErasureLease, counts: Mapping[str, int], now: datetime) -> bool:
    """Record that the telemetry is deleted or, in a dry run, counted. Raises AcknowledgementMissing while a journal may
    hold more of it. The erasure becomes COMPLETED when its relational rows are deleted too.
    """
    if not held.erasure.dry_run:
        missing = await missing_acknowledgements(connection, held.erasure.id)
        if missing:
            raise AcknowledgementMissing(missing)
    values = {
        "erased_at": to_milliseconds(now),
        "counts": await merged_counts(connection, held.erasure.id, counts),
        "pending_deletion": None,
        "message": None,
        "lease_owner": None,
        "lease_until": None,
    }
    if not await _change(connection, held, values):
        return False
    await complete_if_done(connection, held.erasure.id, held.erasure.org_id, now)
    return True


async def fail(connection: AsyncConnection, held: ErasureLease, message: str) -> bool:
    """Record that the erasure cannot be executed, for a reason that a retry does not change. The operator can restart
    the erasure.
    """
    values = {
        "state": ErasureState.FAILED.value,
        "message": _shortened(message),
        "lease_owner": None,
        "lease_until": None,
    }
    return await _change(connection, held, values)


async def _change(connection: AsyncConnection, held: ErasureLease, values: Mapping[str, Any]) -> bool:
    still_held = (
        erasures.c.id == held.erasure.id,
        erasures.c.state == ErasureState.RUNNING.value,
        erasures.c.lease_owner == held.owner,
        erasures.c.attempts == held.attempt,
    )
    return (await connection.execute(erasures.update().where(*still_held).values(values))).rowcount == 1


def _shortened(message: str | None) -> str | None:
    return None if message is None else message[:MAX_MESSAGE_LENGTH]
