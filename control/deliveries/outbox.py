"""The outbox, as the rest of control sees it: `enqueue` inside a transaction, `attempt` after its commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from control.channels import repository as channels
from control.channels.delivery_tables import MAX_SUBJECT_LENGTH, MAX_TYPE_LENGTH
from control.channels.ids import is_channel_id
from control.channels.repository import Channel
from control.deliveries import repository
from control.deliveries.capacity import ensure_capacity
from control.message import Message

BUDGET_S: Final = 3.0
MAX_CHANNELS: Final = 100  # that one message goes to: its rows are of one transaction, and other writers wait for that
NOT_FOUND: Final = "not_found"
DISABLED: Final = "disabled"
TOO_MANY: Final = "too_many"
QUEUED: Final = "queued"
UNKNOWN_KIND: Final = "unknown"  # of a channel that there is none of


@dataclass(frozen=True, slots=True)
class ChannelIds:
    """The channels of these ids, in this order; one that there is none of, or a disabled one, gets an error."""

    channel_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class AllChannels:
    """Every enabled channel of the organization, and of the project when there is one: the oldest MAX_CHANNELS, further
    ones get an error.
    """

    project_id: int | None = None


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """One delivery that waits (`delivery_id`), or why there is none (`error`: one of those above)."""

    channel_id: str
    kind: str
    delivery_id: str | None = None
    error: str | None = None


class DeliveryResult(msgspec.Struct, frozen=True, rename="camel"):
    """How far one delivery got, as specification 4.1 shows it."""

    channel_id: str | None
    kind: str
    delivered: bool
    error: str | None


async def enqueue(
    connection: AsyncConnection,
    org_id: str,
    target: ChannelIds | AllChannels,
    message: Message,
    until: datetime | None = None,
) -> list[EnqueueResult]:
    """One delivery per channel of the target, in the caller's transaction; the answer keeps the target's order.

    `until`: from then on what it tells of is over, and no attempt is made. It is over as soon as a message of the same
    subject is `resolved`: what waits of it is cancelled, and what is under way ends before that message goes out.

    Channels get TOO_MANY where `room.MAX_DELIVERIES` of the organization have not ended; an end is told all the same.

    Raises ValueError for a message whose type or subject is longer than its column.
    """
    if len(message.type) > MAX_TYPE_LENGTH or len(message.subject) > MAX_SUBJECT_LENGTH:
        raise ValueError(f"a message of the type {message.type[:MAX_TYPE_LENGTH]} does not fit its row")
    now = to_milliseconds(datetime.now(UTC))
    if message.resolved:
        await repository.resolve_subject(connection, org_id, message.subject, now)
    if isinstance(target, AllChannels):
        found = await channels.resolve_targets(connection, org_id, channel_ids=None, project_id=target.project_id)
        queued = await _queue(connection, found[:MAX_CHANNELS], message, now, until)
        return queued + [EnqueueResult(one.id, one.kind, error=TOO_MANY) for one in found[MAX_CHANNELS:]]
    wanted = [one for one in dict.fromkeys(target.channel_ids) if is_channel_id(one)]
    found = await channels.resolve_targets(connection, org_id, channel_ids=wanted, project_id=None)
    queued = await _queue(connection, [one for one in found if one.enabled], message, now, until)
    answers = {one.channel_id: one for one in queued}
    answers |= {one.id: EnqueueResult(one.id, one.kind, error=DISABLED) for one in found if not one.enabled}
    return [
        answers.get(one) or EnqueueResult(one, UNKNOWN_KIND, error=NOT_FOUND)
        for one in dict.fromkeys(target.channel_ids)
    ]


async def _queue(
    connection: AsyncConnection, found: Sequence[Channel], message: Message, now: datetime, until: datetime | None
) -> list[EnqueueResult]:
    room = await ensure_capacity(connection, found[0].org_id, len(found)) if found else 0
    if message.resolved:
        room = len(found)  # at most one for each that was told, and whoever was told that it began has to hear its end
    ids = await repository.insert(connection, found[:room], message, now, until)
    queued = [EnqueueResult(one.id, one.kind, id_) for one, id_ in zip(found[:room], ids, strict=True)]
    return queued + [EnqueueResult(one.id, one.kind, error=TOO_MANY) for one in found[room:]]


class ImmediateSender(Protocol):
    """What sends at once; `control.deliveries.sender.Sender` is it."""

    async def send_now(self, queued: Sequence[EnqueueResult], budget_s: float = BUDGET_S) -> list[DeliveryResult]:
        """Call after the commit. One answer per `queued`, in order; `error` is `queued` for what goes on later."""
