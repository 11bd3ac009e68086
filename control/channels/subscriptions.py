"""`/orgs/{orgSlug}/projects/{projectSlug}/notification-channels/{channelId}/subscriptions`: show, replace."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import web

from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.channels import repository
from control.channels.channels import ID, TAG, Channels
from control.channels.tables import ChannelEvent
from control.http.context import HandlerContext
from proto.identity import Scope

Events = Annotated[
    list[ChannelEvent],
    msgspec.Meta(
        max_length=16,
        description="`issue.new`: an error that was not seen before, and sums of those that were not announced. "
        "`issue.regression`: a resolved issue that occurs again.",
    ),
]


class ChannelSubscriptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The events that the channel is notified of."""

    events: Events


SHOW: Final = Operation(
    "showChannelSubscriptions",
    TAG,
    (ResponseSpec("The subscriptions of the channel.", json_content(ChannelSubscriptions)),),
    (ID,),
)
REPLACE: Final = Operation(
    "replaceChannelSubscriptions",
    TAG,
    (ResponseSpec("The subscriptions of the channel.", json_content(ChannelSubscriptions)),),
    (ID,),
    body=Body(json_content(ChannelSubscriptions), example={"events": ["issue.new", "issue.regression"]}),
)


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Handlers of the subscriptions of a channel, and their dependencies."""

    context: HandlerContext
    channels: Channels

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path = "/orgs/{orgSlug}/projects/{projectSlug}/notification-channels/{channelId}/subscriptions"
        return [
            Route("GET", path, self.show, bearer(Scope.CHANNELS_READ), operation=SHOW),
            Route("PUT", path, self.replace, bearer(Scope.CHANNELS_WRITE), operation=REPLACE),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the events that a channel is notified of.

        A new channel subscribes to none: it is notified where it is named.
        """
        async with self.context.database.read() as connection:
            channel = await self.channels.load_channel(connection, request)
            events = await repository.list_subscriptions(connection, channel.id)
        return json_response({"events": events})

    async def replace(self, request: web.Request) -> web.StreamResponse:
        """Subscribe a channel to these events, and to no others.

        A channel of a project hears of that project, one of the organization of all its projects. A channel of the
        whole organization requires the role ADMIN or OWNER.
        """
        await self.channels.precheck_manageable(request)
        body = await self.context.read_body(request, ChannelSubscriptions)
        async with self.context.write_transaction(request) as (connection, _):
            channel = await self.channels.load_manageable(connection, request)
            await repository.set_subscriptions(connection, channel, body.events)
            events = await repository.list_subscriptions(connection, channel.id)
            data = {"name": channel.name, "events": [event.value for event in events]}
            caller = authorization_context(request)
            await record(connection, caller, "channel.subscribe", channel.id, data, request_id(request))
        return json_response({"events": events})
