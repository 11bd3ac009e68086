"""`/orgs/{orgSlug}/deliveries`: list, show, redeliver; `.../notification-channels/{channelId}/test`: a test message."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import require_scope
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import Query, Tag, form
from chassis.limits.limiter import LimitClass
from control.http.field_types import Timestamp
from control.notify.channels.api import (
    ONE,
    ChannelId,
    Channels,
    check_channel_rate_limit,
    load_manageable,
    manageable_channel,
    require_administrator,
)
from control.notify.channels.config import Kind
from control.notify.channels.store import Channel
from control.notify.channels.tables import TERMINAL_STATES, State, deliveries, delivery_messages, notification_channels
from control.notify.deliveries.leases import OBSOLETE
from control.notify.deliveries.rules import AttemptResult
from control.notify.deliveries.sender import Sender
from control.notify.deliveries.store import reset
from control.notify.message import Fact, Message
from control.routing.arguments import Handlers, begin, control_arguments
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import Scope

TEST_MESSAGE_TYPE: Final = "channel.test"
DeliveryId = Annotated[str, Meta(pattern=f"^{ids('dlv')}$")]


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why nothing was delivered. `permanent`: another attempt would fail, too."""

    permanent: bool
    retry_after_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None


class ChannelTest(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a test message. `detail` is human-readable."""

    channel_id: ChannelId
    kind: Kind
    ok: bool
    delivery_id: DeliveryId
    attempted_at: Timestamp
    detail: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ChannelTests(Handlers):
    """Handler of channel tests, and its dependencies."""

    TAG: ClassVar = Channels.TAG
    sender: Sender

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {Channel: manageable_channel(self.context)})

    @route("POST", ONE + "/test", bearer(Scope.CHANNELS_WRITE), limit=LimitClass.CHANNEL_TEST)
    async def test_channel(self, request: web.Request, channel: Channel) -> ChannelTest:
        """Send a test message through a channel, even a disabled one.

        The test is one delivery with one attempt. The response has its result, but no content of the receiver's
        response. A pager opens an incident and closes it. Testing a channel of the whole organization requires the role
        ADMIN or OWNER. 429 while the organization runs several tests, or if callers have tested the channel too often.
        """
        await check_channel_rate_limit(request, channel.id)
        async with begin(self.context, request) as transaction:
            channel = await load_manageable(transaction.connection, transaction.caller, channel.id)
            message = test_message(channel, transaction.caller)
            claimed = await self.sender.insert_test(transaction.connection, channel, message)
        result = await self.sender.test(claimed)
        return ChannelTest(
            channel_id=channel.id,
            kind=channel.kind,
            ok=result.ok,
            delivery_id=claimed.id,
            attempted_at=format_time(claimed.created_at),
            detail=result.detail,
            failure=_failure(result),
        )


def test_message(channel: Channel, caller: AuthorizationContext) -> Message:
    """The test message of a channel."""
    scope = "the whole organization" if channel.project_id is None else f"project {caller.project_slug}"
    return Message(
        type=TEST_MESSAGE_TYPE,
        subject=channel.id,
        title=f"Test message for the channel {channel.name}",
        text="Sluice can deliver notifications to this channel.",
        facts=(Fact("Organization", caller.org_slug), Fact("Scope", scope)),
        passing=True,
        data={"channelId": channel.id, "orgSlug": caller.org_slug, "projectSlug": caller.project_slug},
    )


def _failure(result: AttemptResult) -> Failure | None:
    """The failure of an attempt, None if it succeeded."""
    return None if result.ok else Failure(result.permanent, result.retry_after_s)


class DeliveryFilter(Query, frozen=True, rename="camel"):
    """Filters of a list of deliveries. None: no filter."""

    channel_id: Annotated[
        str | None, form(ids("chn"), "Must be a channel id."), Meta(description="Only deliveries to this channel.")
    ] = None
    state: Annotated[State | None, Meta(description="Only deliveries in this state.")] = None


PATH: Final = "/orgs/{orgSlug}/deliveries"
_READ: Final = bearer(Scope.CHANNELS_READ)
_WRITE: Final = bearer(Scope.CHANNELS_WRITE)

# Scopes that permit reading the content of messages, by the first word of their type.
_READ_SCOPES: Final = {
    "approval": frozenset({Scope.APPROVALS_READ}),
    "channel": frozenset({Scope.CHANNELS_READ}),
    "issue": frozenset({Scope.ISSUES_READ}),
}


class StoredDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """A delivery: one message to one channel. `failure` is the failure of the last attempt. `detail` is human-readable.

    The content of messages about approvals and issues requires the scope to read approvals or issues. Without it,
    `subject` and `title` are null.
    """

    id: DeliveryId
    org_id: str
    channel_id: ChannelId
    kind: Kind
    type: Annotated[str, Meta(description="Type of the message, such as `approval.requested` or `channel.test`.")]
    subject: Annotated[str | None, Meta(description="Id of the object that the message is about.")]
    title: str | None
    state: Annotated[
        State,
        Meta(
            description="READY: the delivery waits for its next attempt. SENDING: an attempt is in flight. DONE: "
            "delivered. DEAD: failed permanently, or in the last attempt. CANCELLED: the message is "
            "obsolete, or the channel was disabled or deleted."
        ),
    ]
    attempts: Annotated[int, Meta(ge=0, description="Number of attempts with a result.")]
    detail: str | None
    failure: Failure | None
    created_at: Timestamp
    attempted_at: Timestamp | None
    next_attempt_at: Timestamp | None
    ended_at: Timestamp | None


def _shown(row: Any, caller: AuthorizationContext) -> StoredDelivery:
    """The delivery as the caller may see it. Without the scope to read the content, `subject` and `title` are null."""
    readable = not _read_scopes(row.type).isdisjoint(caller.scopes)
    return shown_as(
        StoredDelivery,
        row,
        subject=row.subject if readable else None,
        title=msgspec.json.decode(row.message, type=Message).title if readable else None,
        failure=Failure(row.permanent, row.retry_after_s) if row.failed else None,
        next_attempt_at=row.next_at,
    )


def _read_scopes(message_type: str) -> frozenset[Scope]:
    """Scopes that permit reading the content of such messages. One of them is enough."""
    return _READ_SCOPES.get(message_type.partition(".")[0], frozenset())


DELIVERIES: Final = Resource(
    "deliveryId",
    ids("dlv"),
    Scope.CHANNELS_READ,
    deliveries.c.id,
    in_organization(deliveries),
    sa.select(deliveries, delivery_messages.c.message, notification_channels.c.kind, notification_channels.c.project_id)
    .join_from(deliveries, notification_channels, notification_channels.c.id == deliveries.c.channel_id)
    .join(delivery_messages, delivery_messages.c.id == deliveries.c.message_id),
    _shown,
)


class Deliveries(Handlers):
    """Handlers of deliveries, and their dependencies."""

    TAG: ClassVar = Tag("deliveries", "Messages to channels, and the result of each.")

    @route("GET", PATH, _READ, page="DeliveryPage")
    async def list_deliveries(
        self, caller: AuthorizationContext, filters: DeliveryFilter, page: PageReader
    ) -> PageOf[StoredDelivery]:
        """List deliveries, newest first."""
        wanted = {deliveries.c.channel_id: filters.channel_id, deliveries.c.state: filters.state}
        conditions = [column == value for column, value in wanted.items() if value is not None]
        return await page.of(DELIVERIES, caller, *conditions)

    @route("GET", PATH + "/{deliveryId}", _READ)
    async def show_delivery(
        self, delivery_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> StoredDelivery:
        """Show a delivery."""
        return await DELIVERIES.show(connection, caller, delivery_id)

    @route("POST", PATH + "/{deliveryId}/redeliver", _WRITE, status=202, errors=(409,), limit=LimitClass.CHANNEL_TEST)
    async def redeliver(self, delivery_id: str, caller: AuthorizationContext, request: web.Request) -> StoredDelivery:
        """Redeliver a message whose delivery has ended, under the same id and with new attempts.

        A receiver that deduplicates by id recognizes the delivery. 409 if the delivery has not ended, is a test or is
        obsolete, or if its channel is disabled or deleted. A channel of the whole organization requires the role ADMIN
        or OWNER. A message about approvals requires the scope to read approvals. A redelivery counts towards the rate
        limit of channel tests.
        """
        async with self.context.database.read() as connection:
            found = await _find_permitted(connection, caller, delivery_id)
        await check_channel_rate_limit(request, found.channel_id)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            found = await _find_permitted(connection, caller, delivery_id)
            await require_redeliverable(connection, found)
            await reset(connection, delivery_id)
            await transaction.record("delivery.redeliver", delivery_id, {"channelId": found.channel_id})
            return await DELIVERIES.show(connection, caller, delivery_id)


async def _find_permitted(connection: AsyncConnection, caller: AuthorizationContext, delivery_id: str) -> sa.Row[Any]:
    """Load the delivery, if the caller may send it again and may read its content, because the channel may have another
    receiver now. Raises NotFound, Forbidden.
    """
    found = await DELIVERIES.find(connection, caller, delivery_id)
    require_scope(caller.scopes, _read_scopes(found.type))
    if found.project_id is None:
        require_administrator(caller)
    return found


async def require_redeliverable(connection: AsyncConnection, delivery: sa.Row[Any]) -> None:
    """Require that the delivery can be sent again. Raises Conflict for a delivery that has not ended, is a test or is
    obsolete, and for a disabled or deleted channel.
    """
    if delivery.state not in TERMINAL_STATES:
        raise Conflict("The delivery has not ended yet. Wait until its state is DONE, DEAD or CANCELLED.")
    if delivery.max_attempts == 1:
        raise Conflict("A test cannot be redelivered. Run another test.")
    if delivery.until is not None and delivery.until <= datetime.now(UTC):
        raise Conflict(OBSOLETE)
    where = notification_channels.c.id == delivery.channel_id
    if not await connection.scalar(sa.select(notification_channels.c.enabled).where(where)):
        raise Conflict("The channel is disabled or deleted.")
