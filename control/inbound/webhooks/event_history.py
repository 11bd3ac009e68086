"""`/orgs/{orgSlug}/integrations/{integrationId}/deliveries`: what integrations have sent, and processing it again."""

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
from control.inbound.webhooks.inbox import HookChanged, Inbox, VerifiedEvent
from control.inbound.webhooks.platform import PayloadError
from control.inbound.webhooks.receiver import Hooks
from control.routing.arguments import Handlers, begin
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/integrations/{integrationId}/deliveries"
ONE: Final = PATH + "/{inboundDeliveryId}"
_READ: Final = bearer(Scope.INTEGRATIONS_READ)
_EVENTS: Final = inbound_deliveries.c


class WebhookEventQuery(Query, frozen=True, rename="camel"):
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
    """Handlers of what integrations have sent, and their dependencies."""

    TAG: ClassVar = TAG
    secret_box: SecretBox
    hooks: Hooks
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
        """List what an integration has delivered, newest first, with its outcome.

        Deliveries are kept for 30 days, the last 10 000 of each integration, the last 1 000 with their bodies, up to
        256 MiB of an organization.
        """
        filters = [] if query.status is None else [_EVENTS.status == query.status.value]
        return await page.of(EVENTS, caller, *filters)

    @route("GET", ONE, _READ)
    async def show_inbound_delivery(
        self, integration_id: str, inbound_delivery_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> InboundDelivery:
        """Show what an integration has delivered."""
        return await EVENTS.show(connection, caller, inbound_delivery_id, _sent_by(integration_id))

    @route("POST", ONE + "/redeliver", bearer(Scope.INTEGRATIONS_WRITE), errors=(409, 503))
    async def redeliver_inbound(
        self, request: web.Request, integration_id: str, inbound_delivery_id: str, caller: AuthorizationContext
    ) -> InboundDelivery:
        """Process a delivery again.

        What it does is compared with what has happened since: a ticket's old state changes nothing. A delivery that
        cannot be processed is shown as failed. 409 if the integration is disabled, or the body is not kept.
        """
        async with begin(self.context, request) as transaction:
            found = sa.select(inbound_deliveries).where(_sent_by(integration_id), _EVENTS.id == inbound_delivery_id)
            stored = (await transaction.connection.execute(found, {"org_id": caller.org_id})).one_or_none()
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
        """Raises Conflict, and what recording the event raises."""
        self.hooks.forget(stored.integration_id)
        hook = await self.hooks.by_id(stored.integration_id)
        if hook is None:
            raise Conflict("The integration is disabled.")
        source = SOURCES[hook.integration.kind]
        content = await asyncio.to_thread(source.platform.read, stored.event, body, stored.received_at)
        event = VerifiedEvent(
            stored.id, hook, stored.delivery_key, stored.event, None, source, content, is_repetition=True
        )
        try:
            await self.inbox.process(event)
        except HookChanged as error:
            raise Conflict("The integration has just been changed.") from error
        except PayloadError:
            return  # it is stored as failed


def _sent_by(integration_id: str) -> sa.ColumnElement[bool]:
    return in_organization(inbound_deliveries) & (_EVENTS.integration_id == integration_id)
