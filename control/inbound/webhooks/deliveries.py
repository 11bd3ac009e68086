"""`/orgs/{orgSlug}/integrations/{integrationId}/deliveries`: list, show, redeliver."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Argument, PageOf, declared_routes, route
from chassis.http.query import Query
from chassis.http.web import Route
from control.http.context import HandlerContext, path_id
from control.http.field_types import Timestamp
from control.inbound.integrations import delivery_repository
from control.inbound.integrations.api import TAG, integration_argument, load_integration
from control.inbound.integrations.model import DeliveryStatus, Integration, IntegrationKind, StoredInboundDelivery
from control.inbound.webhooks.endpoint import IntegrationReceiver, WebhookSource
from control.inbound.webhooks.hooks import Hooks
from control.inbound.webhooks.inbox import HookChanged
from control.inbound.webhooks.platform import PayloadError
from control.routing.arguments import begin, control_arguments
from control.routing.resource import PageReader, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/integrations/{integrationId}/deliveries"
_READ: Final = bearer(Scope.INTEGRATIONS_READ)


class InboundDeliveryQuery(Query, frozen=True, rename="camel"):
    """Which deliveries a list has."""

    status: Annotated[DeliveryStatus | None, Meta(description="Only deliveries with this outcome.")] = None


class InboundDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """What an integration has sent, and what became of it."""

    id: Annotated[str, Meta(pattern="^ind_[0-9a-z]{26}$")]
    event: Annotated[str, Meta(description="The platform's name.")]
    key: Annotated[str, Meta(description="Identifies the delivery: its signed id, else the SHA-256 of its body.")]
    status: DeliveryStatus
    result: Annotated[dict[str, Any] | None, Meta(description="What was answered. Null: it failed.")]
    failure: Annotated[str | None, Meta(description="Why it failed.")]
    attempts: int
    received_at: Timestamp
    processed_at: Annotated[Timestamp, Meta(description="The last attempt.")]
    redeliverable: Annotated[bool, Meta(description="Whether its body is kept.")]


@dataclass(frozen=True, slots=True)
class InboundDeliveries:
    """Handlers of what integrations have delivered, and their dependencies. `sources`: what their platforms are."""

    context: HandlerContext
    secret_box: SecretBox
    receiver: IntegrationReceiver
    hooks: Hooks
    sources: Mapping[IntegrationKind, WebhookSource]

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        known = {
            Integration: integration_argument(self.context.database),
            StoredInboundDelivery: Argument(self._find),
        }
        return declared_routes(self, TAG, control_arguments(self.context, known))

    @route("GET", PATH, _READ)
    async def list_inbound_deliveries(
        self, integration: Integration, query: InboundDeliveryQuery, page: PageReader
    ) -> PageOf[InboundDelivery]:
        """List what an integration has delivered, newest first, with its outcome.

        Deliveries are kept for 30 days, the last 10 000 of each integration, the last 1 000 with their bodies, up to
        256 MiB of an organization.
        """
        fetch = partial(delivery_repository.list_deliveries, integration_id=integration.id, status=query.status)
        return await page.read(("inbound deliveries", integration.id, query), fetch, _shown)

    @route("GET", PATH + "/{inboundDeliveryId}", _READ)
    async def show_inbound_delivery(self, delivery: StoredInboundDelivery) -> InboundDelivery:
        """Show what an integration has delivered."""
        return _shown(delivery)

    @route(
        "POST",
        PATH + "/{inboundDeliveryId}/redeliver",
        bearer(Scope.INTEGRATIONS_WRITE),
        errors=(409, 503),
    )
    async def redeliver_inbound(
        self, request: web.Request, caller: AuthorizationContext, delivery: StoredInboundDelivery
    ) -> InboundDelivery:
        """Process a delivery again.

        What it does is compared with what has happened since: a ticket's old state changes nothing. A delivery that
        cannot be processed is shown as failed. 409 if the integration is disabled, or the body is not kept.
        """
        async with self.context.database.read() as connection:
            body = await delivery_repository.load_body(connection, self.secret_box, caller.org_id, delivery.id)
        if body is None:
            raise Conflict("The body of the delivery is not kept.")
        async with begin(self.context, request) as transaction:
            stored = await _load(transaction.connection, request)
            data = {"deliveryId": stored.id, "event": stored.event}
            await transaction.record("integration.redeliver", stored.integration_id, data)
        await self._process(stored, body)
        async with self.context.database.read() as connection:
            return _shown(await _load(connection, request))

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> StoredInboundDelivery:
        async with self.context.database.read() as connection:
            return await _load(connection, request)

    async def _process(self, stored: StoredInboundDelivery, body: bytes) -> None:
        """Raises Conflict, and what applying the delivery raises."""
        self.hooks.forget(stored.integration_id)
        hook = await self.hooks.by_id(stored.integration_id)
        if hook is None:
            raise Conflict("The integration is disabled.")
        source = self.sources.get(hook.integration.kind)
        if source is None:
            raise Conflict("Deliveries of this kind of integration cannot be processed again.")
        try:
            await self.receiver.redeliver(hook, source, stored, body)
        except HookChanged as error:
            raise Conflict("The integration has just been changed.") from error
        except PayloadError:
            return  # it is stored as failed


async def _load(connection: AsyncConnection, request: web.Request) -> StoredInboundDelivery:
    """The delivery in the path. Raises NotFound."""
    integration = await load_integration(connection, request)
    found = await delivery_repository.find(connection, integration.id, path_id(request, "inboundDeliveryId"))
    if found is None:
        raise NotFound
    return found


def _shown(delivery: StoredInboundDelivery) -> InboundDelivery:
    return shown_as(
        InboundDelivery,
        delivery,
        key=delivery.delivery_key,
        failure=delivery.error,
        redeliverable=delivery.has_body,
    )
