"""`/orgs/{orgSlug}/deliveries`: list, show, redeliver."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import require_scope
from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, declared_routes, route
from chassis.http.operation import Tag
from chassis.http.query import Query, form
from chassis.http.web import Route
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.notify.channels.api import ChannelId, check_channel_rate_limit, require_administrator
from control.notify.channels.config import Kind
from control.notify.channels.tables import TERMINAL_STATES, State, deliveries, delivery_messages, notification_channels
from control.notify.deliveries.channel_tests import DeliveryId, Failure
from control.notify.deliveries.leases import OBSOLETE
from control.notify.message import Message
from control.routing.arguments import begin, control_arguments
from control.routing.resource import PageReader, ids, shown_as
from proto.identity import Scope

_COLUMNS: Final = (
    *(
        deliveries.c[name]
        for name in (
            "id", "org_id", "channel_id", "type", "subject", "state", "attempts", "max_attempts", "detail",
            "failed", "permanent", "retry_after_s", "created_at", "attempted_at", "next_at", "ended_at", "until",
        )
    ),
    delivery_messages.c.message,
    notification_channels.c.kind,
    notification_channels.c.project_id,
)  # fmt: skip


class DeliveryFilter(Query, frozen=True, rename="camel"):
    """Filters of a list of deliveries; None: any."""

    channel_id: Annotated[
        str | None, form(ids("chn"), "Must be a channel id."), Meta(description="Only deliveries to this channel.")
    ] = None
    state: Annotated[State | None, Meta(description="Only deliveries in this state.")] = None


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A delivery with the outcome of its last attempt."""

    id: str
    org_id: str
    channel_id: str
    type: str
    subject: str
    title: str
    state: State
    attempts: int
    max_attempts: int
    detail: str | None
    failed: bool
    permanent: bool
    retry_after_s: int | None
    created_at: datetime
    attempted_at: datetime | None
    next_at: datetime | None
    ended_at: datetime | None
    until: datetime | None
    kind: Kind
    project_id: int | None  # of its channel


async def list_deliveries(
    connection: AsyncConnection, org_id: str, filters: DeliveryFilter, before_id: str | None, limit: int
) -> list[DeliveryView]:
    """At most `limit` deliveries of the organization, newest first, starting with the first one older than
    `before_id`.
    """
    page = _select().where(deliveries.c.org_id == org_id).order_by(deliveries.c.id.desc()).limit(limit)
    if before_id is not None:
        page = page.where(deliveries.c.id < before_id)
    if filters.channel_id is not None:
        page = page.where(deliveries.c.channel_id == filters.channel_id)
    if filters.state is not None:
        page = page.where(deliveries.c.state == filters.state.value)
    return [_delivery_view(row) for row in (await connection.execute(page)).mappings()]


async def find(connection: AsyncConnection, org_id: str, delivery_id: str) -> DeliveryView | None:
    """The organization's delivery with this id."""
    found = _select().where(deliveries.c.org_id == org_id, deliveries.c.id == delivery_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _delivery_view(row)


async def require_redeliverable(connection: AsyncConnection, delivery: DeliveryView) -> None:
    """Raises Conflict for a delivery that has not ended, is a test or is obsolete, and for a disabled or deleted
    channel.
    """
    if delivery.state not in TERMINAL_STATES:
        raise Conflict("The delivery has not ended yet; wait until its state is DONE, DEAD or CANCELLED.")
    if delivery.max_attempts == 1:
        raise Conflict("A test cannot be redelivered. Run another test.")
    if delivery.until is not None and delivery.until <= datetime.now(UTC):
        raise Conflict(OBSOLETE)
    where = notification_channels.c.id == delivery.channel_id
    if not await connection.scalar(sa.select(notification_channels.c.enabled).where(where)):
        raise Conflict("The channel is disabled or deleted.")


async def redeliver(connection: AsyncConnection, delivery: DeliveryView) -> None:
    """Reset the delivery to waiting, as if it had never been attempted; earlier claims no longer count."""
    values = {
        "state": State.READY.value,
        "attempts": 0,
        "next_at": to_milliseconds(datetime.now(UTC)),
        "ended_at": None,
        "attempted_at": None,
        "detail": None,
        "failed": False,
        "permanent": False,
        "retry_after_s": None,
        "taken": None,
    }
    await connection.execute(deliveries.update().where(deliveries.c.id == delivery.id).values(values))


def _select() -> sa.Select[*tuple[Any, ...]]:
    of_channel = notification_channels.c.id == deliveries.c.channel_id
    found = sa.select(*_COLUMNS).join_from(deliveries, notification_channels, of_channel)
    return found.join(delivery_messages, delivery_messages.c.id == deliveries.c.message_id)


def _delivery_view(row: sa.RowMapping) -> DeliveryView:
    fields = {name: value for name, value in row.items() if name != "message"}
    title = msgspec.json.decode(row["message"], type=Message).title
    return DeliveryView(**{**fields, "title": title, "state": State(row["state"]), "kind": Kind(row["kind"])})


TAG: Final = Tag("deliveries", "Messages to channels, and the outcome of each.")
PATH: Final = "/orgs/{orgSlug}/deliveries"
_READ: Final = bearer(Scope.CHANNELS_READ)
_WRITE: Final = bearer(Scope.CHANNELS_WRITE)

# Scopes that may read the content of messages, by the first word of their type.
_READ_SCOPES: Final = {
    "approval": frozenset({Scope.APPROVALS_READ}),
    "channel": frozenset({Scope.CHANNELS_READ}),
    "issue": frozenset({Scope.ISSUES_READ}),
}


class StoredDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """A delivery: one message to one channel. `failure` is the failure of the last attempt; `detail` is human-readable.

    Content about approvals and issues requires the scope that reads these: without it, `subject` and `title` are null.
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
            description="READY: waits for its next attempt. SENDING: an attempt is in flight. DONE: delivered. "
            "DEAD: failed permanently, or in the last attempt. CANCELLED: the message is obsolete, or the channel was "
            "disabled or deleted."
        ),
    ]
    attempts: Annotated[int, Meta(ge=0, description="Number of attempts with an outcome.")]
    detail: str | None
    failure: Failure | None
    created_at: Timestamp
    attempted_at: Timestamp | None
    next_attempt_at: Timestamp | None
    ended_at: Timestamp | None


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Handlers of deliveries, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", PATH, _READ, page="DeliveryPage")
    async def list_deliveries(
        self, caller: AuthorizationContext, filters: DeliveryFilter, page: PageReader
    ) -> PageOf[StoredDelivery]:
        """List deliveries, newest first."""

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> Sequence[DeliveryView]:
            return await list_deliveries(connection, caller.org_id, filters, before, limit)

        return await page.read(("deliveries", caller.org_id, filters), fetch, partial(_shown, caller))

    @route("GET", PATH + "/{deliveryId}", _READ)
    async def show_delivery(
        self, delivery_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> StoredDelivery:
        """Show a delivery."""
        return _shown(caller, await _load_delivery(connection, caller, delivery_id))

    @route("POST", PATH + "/{deliveryId}/redeliver", _WRITE, status=202, errors=(409,), limit=LimitClass.CHANNEL_TEST)
    async def redeliver(self, delivery_id: str, caller: AuthorizationContext, request: web.Request) -> StoredDelivery:
        """Redeliver a message whose delivery has ended, under the same id and with new attempts.

        A receiver that deduplicates by id recognizes it. 409 if the delivery has not ended, is a test or is
        obsolete, or if its channel is disabled or deleted. A channel of the whole organization requires the role ADMIN
        or OWNER; a message about approvals requires the scope that reads them. It counts towards the rate limit of
        channel tests.
        """
        async with self.context.database.read() as connection:
            found = await _load_redeliverable(connection, caller, delivery_id)
        await check_channel_rate_limit(request, found.channel_id)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            found = await _load_redeliverable(connection, caller, delivery_id)
            await require_redeliverable(connection, found)
            await redeliver(connection, found)
            await transaction.record("delivery.redeliver", found.id, {"channelId": found.channel_id})
            return _shown(caller, await _load_delivery(connection, caller, delivery_id))


def _shown(caller: AuthorizationContext, delivery: DeliveryView) -> StoredDelivery:
    """Without the scope that reads the content, `subject` and `title` are null."""
    readable = not _read_scopes(delivery).isdisjoint(caller.scopes)
    return shown_as(
        StoredDelivery,
        delivery,
        subject=delivery.subject if readable else None,
        title=delivery.title if readable else None,
        failure=Failure(delivery.permanent, delivery.retry_after_s) if delivery.failed else None,
        next_attempt_at=delivery.next_at,
    )


def _read_scopes(delivery: DeliveryView) -> frozenset[Scope]:
    """Scopes that may read the delivery's content; one of them is enough."""
    return _READ_SCOPES.get(delivery.type.partition(".")[0], frozenset())


async def _load_delivery(connection: AsyncConnection, caller: AuthorizationContext, delivery_id: str) -> DeliveryView:
    found = await find(connection, caller.org_id, delivery_id)
    if found is None:
        raise NotFound
    return found


async def _load_redeliverable(
    connection: AsyncConnection, caller: AuthorizationContext, delivery_id: str
) -> DeliveryView:
    """The delivery, if the caller may send it again and may read its content, since the channel may have another
    receiver by now. Raises NotFound, Forbidden.
    """
    found = await _load_delivery(connection, caller, delivery_id)
    require_scope(caller.scopes, _read_scopes(found))
    if found.project_id is None:
        require_administrator(caller)
    return found
