"""`/orgs/{orgSlug}/integrations/{integrationId}/deliveries`: lists the events that integrations have sent, and
processes them again.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import Query
from control.http.field_types import Timestamp
from control.inbound.integrations.api import TAG, integration_arguments
from control.inbound.integrations.store import unpack_body
from control.inbound.integrations.tables import DeliveryStatus, Integration, inbound_deliveries
from control.inbound.webhooks.api import SOURCES
from control.inbound.webhooks.inbox import EndpointChanged, Inbox, VerifiedEvent
from control.inbound.webhooks.platform import PayloadError
from control.inbound.webhooks.receiver import WebhookEndpoints
from control.routing.arguments import Handlers, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/integrations/{integrationId}/deliveries"
ONE: Final = PATH + "/{inboundDeliveryId}"
_READ: Final = bearer(Scope.INTEGRATIONS_READ)
_EVENTS: Final = inbound_deliveries.c


class WebhookEventQuery(Query, frozen=True, rename="camel"):
    """The filters of a list of deliveries."""

    status: Annotated[DeliveryStatus | None, Meta(description="Only deliveries with this outcome.")] = None


class InboundDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """A webhook event that an integration has sent, and its result."""

    id: Annotated[str, Meta(pattern="^ind_[0-9a-z]{26}$")]
    event: Annotated[str, Meta(description="The name that the platform has for the event.")]
    key: Annotated[
        str,
        Meta(
            description="Identifies the delivery: its signed id, or the SHA-256 of its body if there is no signed id."
        ),
    ]
    status: DeliveryStatus
    result: Annotated[dict[str, Any] | None, Meta(description="The answer to the delivery. `null` if it failed.")]
    failure: Annotated[str | None, Meta(description="Why the delivery failed.")]
    attempts: int
    received_at: Timestamp
    processed_at: Annotated[Timestamp, Meta(description="The time of the last attempt to process the delivery.")]
    redeliverable: Annotated[bool, Meta(description="Whether the body of the delivery is kept.")]


def _shown(event: Any, _caller: AuthorizationContext) -> InboundDelivery:
    return shown_as(InboundDelivery, event, key=event.delivery_key, failure=event.error)


EVENTS: Final = Resource(
    "inboundDeliveryId",
    ids("ind"),
    Scope.INTEGRATIONS_READ,
    _EVENTS.id,
    in_organization(inbound_deliveries) & (_EVENTS.integration_id == sa.bindparam("integrationId")),
    sa.select(
        *(column for column in _EVENTS if column is not _EVENTS.body), _EVENTS.body.is_not(None).label("redeliverable")
    ),
    _shown,
)


@dataclass(frozen=True, slots=True)
class WebhookEvents(Handlers):
    """Handlers of webhook events, and their dependencies."""

    TAG: ClassVar = TAG
    secret_box: SecretBox
    endpoints: WebhookEndpoints
    inbox: Inbox

    def arguments(self) -> Arguments:
        return integration_arguments(self.context)

    @route("GET", PATH, _READ)
    async def list_inbound_deliveries(
        self,
        integration: Integration,  # noqa: ARG002 (404 without it)
        caller: AuthorizationContext,
        query: WebhookEventQuery,
        page: PageReader,
    ) -> PageOf[InboundDelivery]:
        """List the deliveries of an integration, newest first, with their outcomes.

        Deliveries are kept for 30 days, at most the last 10 000 of each integration. The bodies of the last 1 000 are
        kept, up to 256 MiB per organization.
        """
        filters = [] if query.status is None else [_EVENTS.status == query.status.value]
        return await page.of(EVENTS, caller, *filters)

    @route("GET", ONE, _READ)
    async def show_inbound_delivery(
        self, integration_id: str, inbound_delivery_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> InboundDelivery:
        """Show a delivery of an integration."""
        return await EVENTS.show(connection, caller, inbound_delivery_id, _sent_by(integration_id))

    @route("POST", ONE + "/redeliver", bearer(Scope.INTEGRATIONS_WRITE), errors=(409, 503))
    async def redeliver_inbound(
        self, request: web.Request, integration_id: str, inbound_delivery_id: str, caller: AuthorizationContext
    ) -> InboundDelivery:
        """Process a delivery again.

        The event has no effect on anything that has changed since: for example, an old state of a ticket changes
        nothing. A delivery that cannot be processed is shown as failed. 409 if the integration is disabled, or if the
        body of the delivery is not kept.
        """
        async with begin(self.context, request) as transaction:
            statement = sa.select(inbound_deliveries).where(_sent_by(integration_id), _EVENTS.id == inbound_delivery_id)
            stored = (await transaction.connection.execute(statement, {"org_id": caller.org_id})).one_or_none()
            if stored is None:
                raise NotFound
            if stored.body is None:
                raise Conflict("The body of the delivery is not kept.")
            body = unpack_body(self.secret_box, stored)
            await transaction.record(
                "integration.redeliver", integration_id, {"deliveryId": stored.id, "event": stored.event}
            )
        await self._process(stored, body)
        async with self.context.database.read() as connection:
            return await EVENTS.show(connection, caller, inbound_delivery_id, _sent_by(integration_id))

    async def _process(self, stored: Any, body: bytes) -> None:
        """Process a delivery again. Raises Conflict, and the errors of `Inbox.process`."""
        self.endpoints.forget(stored.integration_id)
        endpoint = await self.endpoints.by_id(stored.integration_id)
        if endpoint is None:
            raise Conflict("The integration is disabled.")
        source = SOURCES[endpoint.integration.kind]
        content = await asyncio.to_thread(source.platform.read, stored.event, body, stored.received_at)
        event = VerifiedEvent(
            stored.id, endpoint, stored.delivery_key, stored.event, None, source, content, is_repetition=True
        )
        try:
            await self.inbox.process(event)
        except EndpointChanged as error:
            raise Conflict("The integration has just been changed. Retry.") from error
        except PayloadError:
            return  # it is stored as failed


def _sent_by(integration_id: str) -> sa.ColumnElement[bool]:
    return in_organization(inbound_deliveries) & (_EVENTS.integration_id == integration_id)
