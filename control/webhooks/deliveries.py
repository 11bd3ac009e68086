"""`/orgs/{orgSlug}/integrations/{integrationId}/deliveries`: list, show, redeliver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.path_ids import path_id
from control.http.query_filters import choice_filter
from control.integrations import delivery_repository
from control.integrations.integrations import ID, TAG, load_integration
from control.integrations.model import DeliveryStatus, IntegrationKind, StoredInboundDelivery
from control.integrations.schemas import InboundDelivery, InboundDeliveryPage, delivery_body
from control.secrets.secret_box import SecretBox
from control.webhooks.endpoint import IntegrationReceiver, WebhookSource
from control.webhooks.hooks import Hooks
from control.webhooks.inbox import HookChanged
from control.webhooks.platform import PayloadError
from proto.identity import Scope

_DELIVERY: Final = Parameter("inboundDeliveryId", "path", Annotated[str, Meta(min_length=1)], "The delivery.")
LIST: Final = Operation(
    "listInboundDeliveries",
    TAG,
    (ResponseSpec("A page.", json_content(InboundDeliveryPage)),),
    (ID, Parameter("status", "query", DeliveryStatus, "Only deliveries with this outcome."), *PAGE_PARAMETERS),
)
SHOW: Final = Operation(
    "showInboundDelivery", TAG, (ResponseSpec("The delivery.", json_content(InboundDelivery)),), (ID, _DELIVERY)
)
REDELIVER: Final = Operation(
    "redeliverInbound",
    TAG,
    (ResponseSpec("The delivery, processed again.", json_content(InboundDelivery)),),
    (ID, _DELIVERY),
    error_statuses=(409, 503),
)


@dataclass(frozen=True, slots=True)
class InboundDeliveries:
    """Handlers of what integrations have delivered, and their dependencies. `sources`: what their platforms are."""

    context: HandlerContext
    secret_box: SecretBox
    receiver: IntegrationReceiver
    hooks: Hooks
    sources: Mapping[IntegrationKind, WebhookSource]

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/integrations/{integrationId}/deliveries"
        one, read = every + "/{inboundDeliveryId}", bearer(Scope.INTEGRATIONS_READ)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("POST", one + "/redeliver", self.redeliver, bearer(Scope.INTEGRATIONS_WRITE), operation=REDELIVER),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List what an integration has delivered, newest first, with its outcome.

        Deliveries are kept for 30 days, the last 10 000 of each integration, the last 1 000 with their bodies, up to
        256 MiB of an organization.
        """
        integration_id, issues = path_id(request, "integrationId"), Issues()
        status = choice_filter(request.query, "status", DeliveryStatus, issues)
        binding = repr(("inbound deliveries", authorization_context(request).org_id, integration_id, status)).encode()
        page = parse_page_request(request, self.context.cursors, binding, issues)
        async with self.context.database.read() as connection:
            integration = await load_integration(connection, request)
            found = await delivery_repository.list_deliveries(
                connection, integration.id, status, page.after, page.limit + 1
            )
        return json_response(page_body(found, page, delivery_body, lambda one: one.id, self.context.cursors, binding))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show what an integration has delivered."""
        async with self.context.database.read() as connection:
            return json_response(delivery_body(await _load(connection, request)))

    async def redeliver(self, request: web.Request) -> web.StreamResponse:
        """Process a delivery again.

        What it does is compared with what has happened since: a ticket's old state changes nothing. A delivery that
        cannot be processed is shown as failed. 409 if the integration is disabled, or the body is not kept.
        """
        async with self.context.database.read() as connection:
            stored = await _load(connection, request)
            org_id = authorization_context(request).org_id
            body = await delivery_repository.load_body(connection, self.secret_box, org_id, stored.id)
        if body is None:
            raise Conflict("The body of the delivery is not kept.")
        async with self.context.write_transaction(request) as (connection, caller):
            stored = await _load(connection, request)
            data = {"deliveryId": stored.id, "event": stored.event}
            await record(connection, caller, "integration.redeliver", stored.integration_id, data, request_id(request))
        await self._process(stored, body)
        async with self.context.database.read() as connection:
            return json_response(delivery_body(await _load(connection, request)))

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
