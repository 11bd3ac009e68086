"""The queue of messages to replace or add in a chat, through a URL that the platform gave with the request.

    enqueue     in the transaction of the change that they show
    claim       a due update belongs to the process that has moved its next attempt into the future; should that process
                die, the update is due again
    finish      deletes what is done, and plans the next attempt of what failed, unless another process claimed it since

Every function runs in the caller's transaction. A URL is worth as much as a secret: it is stored encrypted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.db.database import to_milliseconds
from control.identity.chat_links import ChatPlatform
from control.inbound.chat.tables import chat_updates
from control.secrets.secret_box import DecryptionError, SecretBox

LEASE: Final = timedelta(seconds=60)  # longer than an attempt takes
MAX_ATTEMPTS: Final = 3  # that reach the platform
MAX_CLAIMED: Final = 16
LIFETIMES: Final = {ChatPlatform.CHAT_A: timedelta(minutes=30), ChatPlatform.CHAT_B: timedelta(minutes=15)}


class NewUpdate(NamedTuple):
    """An update to send. `attempts`: how many of MAX_ATTEMPTS it does not get; `delay`: before the first."""

    platform: ChatPlatform
    url: str
    body: Mapping[str, Any]
    attempts: int = 0
    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class ClaimedUpdate:
    """An update that this process sends. `url` None: it cannot be decrypted. `claimed_until`: identifies the claim."""

    id: str
    org_id: str
    platform: ChatPlatform
    url: str | None = field(repr=False)
    body: dict[str, Any]
    attempts: int
    expires_at: datetime
    claimed_until: datetime


async def enqueue(
    connection: AsyncConnection, secret_box: SecretBox, org_id: str, updates: Sequence[NewUpdate], now: datetime
) -> None:
    """Store updates. Raises EncryptionUnavailable."""
    now = to_milliseconds(now)
    rows = [_row(secret_box, org_id, one, now) for one in updates]
    if rows:
        await connection.execute(chat_updates.insert(), rows)


async def next_due(connection: AsyncConnection) -> datetime | None:
    """When the next attempt is due; None without one."""
    due: datetime | None = await connection.scalar(
        sa.select(chat_updates.c.next_attempt_at).order_by(chat_updates.c.next_attempt_at).limit(1)
    )
    return due


async def claim(connection: AsyncConnection, secret_box: SecretBox, now: datetime) -> list[ClaimedUpdate]:
    """Claim up to MAX_CLAIMED due updates."""
    claimed_until = to_milliseconds(now) + LEASE
    found = sa.select(chat_updates).where(chat_updates.c.next_attempt_at <= now)
    found = found.order_by(chat_updates.c.next_attempt_at).limit(MAX_CLAIMED)
    rows = (await connection.execute(found)).mappings().all()
    ids = [row["id"] for row in rows]
    if ids:
        claimed = chat_updates.update().where(chat_updates.c.id.in_(ids)).values(next_attempt_at=claimed_until)
        await connection.execute(claimed)
    return [_claimed(secret_box, row, claimed_until) for row in rows]


async def finish(
    connection: AsyncConnection, done: Sequence[ClaimedUpdate], again: Sequence[tuple[ClaimedUpdate, int, datetime]]
) -> None:
    """Delete what is done. `again`: updates that failed, with the number of attempts and the time of the next one."""
    if done:
        await connection.execute(chat_updates.delete().where(chat_updates.c.id.in_([one.id for one in done])))
    if again:
        statement = (
            chat_updates.update()
            .where(chat_updates.c.id == sa.bindparam("of_id"))
            .where(
                chat_updates.c.next_attempt_at == sa.bindparam("of_claim", type_=chat_updates.c.next_attempt_at.type)
            )
            .values(attempts=sa.bindparam("new_attempts"), next_attempt_at=sa.bindparam("new_time"))
        )
        rows = [
            {"of_id": one.id, "of_claim": one.claimed_until, "new_attempts": attempts, "new_time": to_milliseconds(at)}
            for one, attempts, at in again
        ]
        await connection.execute(statement, rows)


def _row(secret_box: SecretBox, org_id: str, update: NewUpdate, now: datetime) -> dict[str, Any]:
    id_ = new_id("chu")
    url = secret_box.encrypt(update.url.encode(), table=chat_updates.name, row=id_, org=org_id, column="url")
    return {
        "id": id_,
        "org_id": org_id,
        "platform": update.platform.value,
        "url": url,
        "body": dict(update.body),
        "attempts": update.attempts,
        "next_attempt_at": now + update.delay,
        "expires_at": now + LIFETIMES[update.platform],
        "created_at": now,
    }


def _claimed(secret_box: SecretBox, row: sa.RowMapping, claimed_until: datetime) -> ClaimedUpdate:
    try:
        place = {"table": chat_updates.name, "row": row["id"], "org": row["org_id"], "column": "url"}
        url = secret_box.decrypt(bytes(row["url"]), **place).decode()
    except DecryptionError:
        url = None
    return ClaimedUpdate(
        row["id"],
        row["org_id"],
        ChatPlatform(row["platform"]),
        url,
        row["body"],
        row["attempts"],
        row["expires_at"],
        claimed_until,
    )
