"""The interface of the outbox for other parts of control: `enqueue` inside a transaction, `ImmediateSender.send_now`
after its commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from control.notify.channels import store as channels
from control.notify.channels.tables import MAX_SUBJECT_LENGTH, MAX_TYPE_LENGTH, ChannelEvent
from control.notify.deliveries import store
from control.notify.message import Message

BUDGET_S: Final = 3.0
MAX_CHANNELS: Final = 100  # per message: one transaction inserts the rows, and other writers wait for it
NOT_FOUND: Final = "not_found"
DISABLED: Final = "disabled"
TOO_MANY: Final = "too_many"
QUEUED: Final = "queued"
UNKNOWN_KIND: Final = "unknown"  # the kind of a channel that does not exist


@dataclass(frozen=True, slots=True)
class ChannelIds:
    """The channels with these ids, in this order. A missing or disabled channel gets an error."""

    channel_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class AllChannels:
    """All enabled channels of the organization, and of the project if given. Only the oldest MAX_CHANNELS get a
    delivery, the others get an error.
    """

    project_id: int | None = None


@dataclass(frozen=True, slots=True)
class Subscribers:
    """All enabled channels of the project and of its organization that subscribe to one of the events, with the limit
    of `AllChannels`.
    """

    project_id: int
    events: tuple[ChannelEvent, ...]


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """The id of one waiting delivery (`delivery_id`), or why there is none (`error`: one of the constants above)."""

    channel_id: str
    kind: str
    delivery_id: str | None = None
    error: str | None = None


class DeliveryResult(msgspec.Struct, frozen=True, rename="camel"):
    """The state of one delivery, as specification 4.1 shows it."""

    channel_id: str | None
    kind: str
    delivered: bool
    error: str | None


async def enqueue(
    connection: AsyncConnection,
    org_id: str,
    target: ChannelIds | AllChannels | Subscribers,
    message: Message,
    until: datetime | None = None,
) -> list[EnqueueResult]:
    """Insert one delivery per channel of the target in the caller's transaction. The results are in the target's order.

    `until`: when the message becomes obsolete. No attempt is made after it. A message with `resolved` makes earlier
    messages of its subject obsolete: waiting ones are cancelled, and attempts in flight end before it is sent.

    Channels get TOO_MANY if the organization has `store.MAX_DELIVERIES` deliveries that have not ended. A `resolved`
    message is enqueued even then.

    Raises ValueError for a message whose type or subject is longer than its column.
    """
    if len(message.type) > MAX_TYPE_LENGTH or len(message.subject) > MAX_SUBJECT_LENGTH:
        raise ValueError(f"type or subject of a message is too long: {message.type[:MAX_TYPE_LENGTH]}")
    now = to_milliseconds(datetime.now(UTC))
    if message.resolved:
        await store.resolve_subject(connection, org_id, message.subject, now)
    if not isinstance(target, ChannelIds):
        found = await _all_of(connection, org_id, target)
        queued = await _queue(connection, found[:MAX_CHANNELS], message, now, until)
        return queued + [EnqueueResult(one.id, one.kind, error=TOO_MANY) for one in found[MAX_CHANNELS:]]
    channel_ids = [one for one in dict.fromkeys(target.channel_ids) if channels.is_channel_id(one)]
    found = await channels.resolve_targets(connection, org_id, channel_ids=channel_ids, project_id=None)
    queued = await _queue(connection, [one for one in found if one.enabled], message, now, until)
    results = {one.channel_id: one for one in queued}
    results |= {one.id: EnqueueResult(one.id, one.kind, error=DISABLED) for one in found if not one.enabled}
    return [
        results.get(one) or EnqueueResult(one, UNKNOWN_KIND, error=NOT_FOUND)
        for one in dict.fromkeys(target.channel_ids)
    ]


async def _all_of(
    connection: AsyncConnection, org_id: str, target: AllChannels | Subscribers
) -> list[channels.Channel]:
    if isinstance(target, Subscribers):
        return await channels.resolve_subscribers(connection, org_id, target.project_id, target.events)
    return await channels.resolve_targets(connection, org_id, channel_ids=None, project_id=target.project_id)


async def _queue(
    connection: AsyncConnection,
    found: Sequence[channels.Channel],
    message: Message,
    now: datetime,
    until: datetime | None,
) -> list[EnqueueResult]:
    capacity = await store.ensure_capacity(connection, found[0].org_id, len(found)) if found else 0
    if message.resolved:
        # At most one per earlier message: a channel that got the opening message must get the closing one.
        capacity = len(found)
    ids = await store.insert(connection, found[:capacity], message, now, until)
    queued = [EnqueueResult(one.id, one.kind, id_) for one, id_ in zip(found[:capacity], ids, strict=True)]
    return queued + [EnqueueResult(one.id, one.kind, error=TOO_MANY) for one in found[capacity:]]


class ImmediateSender(Protocol):
    """Sends without waiting for the worker; implemented by `control.notify.deliveries.sender.Sender`."""

    async def send_now(self, queued: Sequence[EnqueueResult], budget_s: float = BUDGET_S) -> list[DeliveryResult]:
        """Send queued deliveries; call it after the commit. Returns one result per `queued`, in order. `error` is
        `queued` for deliveries that the worker sends later.
        """
