"""`/orgs/{orgSlug}/deliveries`: list, show, redeliver."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import require_scope
from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, single_value
from chassis.http.web import Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import record
from control.channels.config import Kind
from control.channels.delivery_tables import State
from control.channels.ids import is_channel_id, is_delivery_id
from control.channels.permissions import check_channel_rate_limit, require_administrator
from control.channels.schemas import ChannelId, DeliveryId, Failure
from control.deliveries import views
from control.deliveries.views import DeliveryFilter, DeliveryView
from control.http.context import HandlerContext
from control.http.field_types import Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.http.query_filters import choice_filter
from proto.identity import Scope


class StoredDelivery(msgspec.Struct, frozen=True, rename="camel"):
    """One message to one channel. `failure` is that of the last attempt; its `detail` is human-readable.

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


class DeliveryPage(msgspec.Struct, rename="camel"):
    """A page of deliveries, newest first."""

    data: list[StoredDelivery]
    next_cursor: NextCursor
    has_more: bool


# Scopes that may read the content of messages, by the first word of their type.
_READ_SCOPES: Final = {
    "approval": frozenset({Scope.APPROVALS_READ}),
    "channel": frozenset({Scope.CHANNELS_READ}),
    "issue": frozenset({Scope.ISSUES_READ}),
}

TAG: Final = Tag("deliveries", "Messages to channels, and the outcome of each.")
_FILTERS: Final = (
    Parameter("channelId", "query", Annotated[str, Meta(min_length=1)], "Only deliveries to this channel."),
    Parameter("state", "query", State, "Only deliveries in this state."),
)
LIST: Final = Operation(
    "listDeliveries",
    TAG,
    (ResponseSpec("A page of deliveries.", json_content(DeliveryPage)),),
    (*_FILTERS, *PAGE_PARAMETERS),
)
_ID: Final = Parameter("deliveryId", "path", Annotated[str, Meta(min_length=1)], "The delivery.")
SHOW: Final = Operation("showDelivery", TAG, (ResponseSpec("The delivery.", json_content(StoredDelivery)),), (_ID,))
REDELIVER: Final = Operation(
    "redeliver",
    TAG,
    (ResponseSpec("The delivery is queued.", json_content(StoredDelivery), 202),),
    (_ID,),
    error_statuses=(409,),
)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Handlers of deliveries, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/deliveries", "/orgs/{orgSlug}/deliveries/{deliveryId}"
        return [
            Route("GET", every, self.list, bearer(Scope.CHANNELS_READ), operation=LIST),
            Route("GET", one, self.show, bearer(Scope.CHANNELS_READ), operation=SHOW),
            Route(
                "POST",
                one + "/redeliver",
                self.redeliver,
                bearer(Scope.CHANNELS_WRITE),
                limit=LimitClass.CHANNEL_TEST,
                operation=REDELIVER,
            ),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List deliveries, newest first."""
        caller, issues = authorization_context(request), Issues()
        filters = _parse_filter(request, issues)
        org_id = caller.org_id
        binding = f"deliveries of {org_id} {filters.channel_id} {filters.state}".encode()
        page = parse_page_request(request, self.context.cursors, binding, issues)
        async with self.context.database.read() as connection:
            found = await views.list_deliveries(connection, org_id, filters, page.after, page.limit + 1)
        to_body = partial(delivery_body, caller)
        return json_response(page_body(found, page, to_body, lambda one: one.id, self.context.cursors, binding))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a delivery."""
        async with self.context.database.read() as connection:
            found = await _load_delivery(connection, request)
        return json_response(delivery_body(authorization_context(request), found))

    async def redeliver(self, request: web.Request) -> web.StreamResponse:
        """Redeliver a message whose delivery has ended, under the same id and with new attempts.

        A receiver that deduplicates by id recognizes it. 409 if the delivery has not ended, is a test or is
        obsolete, or if its channel is disabled or deleted. A channel of the whole organization requires the role ADMIN
        or OWNER; a message about approvals requires the scope that reads them. It counts towards the rate limit of
        channel tests.
        """
        async with self.context.database.read() as connection:
            found = await _load_redeliverable(authorization_context(request), connection, request)
        await check_channel_rate_limit(request, found.channel_id)
        async with self.context.write_transaction(request) as (connection, caller):
            found = await _load_redeliverable(caller, connection, request)
            await views.require_redeliverable(connection, found)
            await views.redeliver(connection, found)
            data = {"channelId": found.channel_id}
            await record(connection, caller, "delivery.redeliver", found.id, data, request_id(request))
            redelivered = await _load_delivery(connection, request)
        return json_response(delivery_body(caller, redelivered), status=202)


def delivery_body(caller: AuthorizationContext, delivery: DeliveryView) -> StoredDelivery:
    """The API representation; without the scope that reads the content, `subject` and `title` are null."""
    readable = not _read_scopes(delivery).isdisjoint(caller.scopes)
    return StoredDelivery(
        id=delivery.id,
        org_id=delivery.org_id,
        channel_id=delivery.channel_id,
        kind=delivery.kind,
        type=delivery.type,
        subject=delivery.subject if readable else None,
        title=delivery.title if readable else None,
        state=delivery.state,
        attempts=delivery.attempts,
        detail=delivery.detail,
        failure=Failure(delivery.permanent, delivery.retry_after_s) if delivery.failed else None,
        created_at=format_time(delivery.created_at),
        attempted_at=_time_or_none(delivery.attempted_at),
        next_attempt_at=_time_or_none(delivery.next_at),
        ended_at=_time_or_none(delivery.ended_at),
    )


def _read_scopes(delivery: DeliveryView) -> frozenset[Scope]:
    """Scopes that may read the delivery's content; one of them is enough."""
    return _READ_SCOPES.get(delivery.type.partition(".")[0], frozenset())


def _time_or_none(time: Any) -> str | None:
    return None if time is None else format_time(time)


def _parse_filter(request: web.Request, issues: Issues) -> DeliveryFilter:
    """The filters; faults are recorded."""
    channel_id = single_value(request.query, "channelId", issues)
    if channel_id is not None and not is_channel_id(channel_id):
        issues.add("query.channelId", "Must be a channel id.", "format")
    return DeliveryFilter(channel_id, choice_filter(request.query, "state", State, issues))


async def _load_delivery(connection: AsyncConnection, request: web.Request) -> DeliveryView:
    """The delivery in the path. Raises NotFound."""
    delivery_id = request.match_info["deliveryId"]
    found = None
    if is_delivery_id(delivery_id):  # a path may hold characters that no database column accepts
        found = await views.find(connection, authorization_context(request).org_id, delivery_id)
    if found is None:
        raise NotFound
    return found


async def _load_redeliverable(
    caller: AuthorizationContext, connection: AsyncConnection, request: web.Request
) -> DeliveryView:
    """The delivery in the path, if the caller may send it again and may read its content, since the channel may have
    another receiver by now. Raises NotFound, Forbidden.
    """
    found = await _load_delivery(connection, request)
    require_scope(caller.scopes, _read_scopes(found))
    if found.project_id is None:
        require_administrator(caller)
    return found
