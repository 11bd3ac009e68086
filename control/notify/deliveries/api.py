"""`/orgs/{orgSlug}/deliveries`: list, show, redeliver."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import require_scope
from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, declared_routes, route
from chassis.http.route import Tag
from chassis.http.web import Route
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.notify.channels.api import ChannelId, check_channel_rate_limit, require_administrator
from control.notify.channels.config import Kind
from control.notify.channels.delivery_tables import State
from control.notify.deliveries import views
from control.notify.deliveries.channel_tests import DeliveryId, Failure
from control.notify.deliveries.views import DeliveryFilter, DeliveryView
from control.routing.arguments import begin, control_arguments
from control.routing.resource import PageReader, shown_as
from proto.identity import Scope

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
            return await views.list_deliveries(connection, caller.org_id, filters, before, limit)

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
            await views.require_redeliverable(connection, found)
            await views.redeliver(connection, found)
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
    found = await views.find(connection, caller.org_id, delivery_id)
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
