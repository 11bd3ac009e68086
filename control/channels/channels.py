"""`/orgs/{orgSlug}/projects/{projectSlug}/notification-channels`: list, create, change, delete."""

from dataclasses import dataclass
from typing import Annotated, Final

from aiohttp import web
from msgspec import UNSET, Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import read_json_bytes
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.channels import repository
from control.channels.ids import is_channel_id
from control.channels.permissions import require_administrator
from control.channels.repository import Channel
from control.channels.schemas import (
    ChannelChange,
    ChannelPage,
    ChannelScope,
    NewChannel,
    NotificationChannel,
    channel_body,
    read_change,
    read_new,
)
from control.channels.validation import ChannelRules
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.secrets.secret_box import SecretBox
from proto.identity import Scope

TAG: Final = Tag("notification-channels", "Destinations of notifications: chats, webhooks, e-mail, pagers.")
LIST: Final = Operation(
    "listChannels", TAG, (ResponseSpec("A page of channels.", json_content(ChannelPage)),), PAGE_PARAMETERS
)
CREATE: Final = Operation(
    "createChannel",
    TAG,
    (ResponseSpec("The channel.", json_content(NotificationChannel), 201),),
    body=Body(
        json_content(NewChannel),
        example={"name": "On call", "kind": "email", "config": {"to": ["oncall@example.org"]}},
    ),
    error_statuses=(409,),
)
ID: Final = Parameter("channelId", "path", Annotated[str, Meta(min_length=1)], "The channel.")
CHANGE: Final = Operation(
    "changeChannel",
    TAG,
    (ResponseSpec("The updated channel.", json_content(NotificationChannel)),),
    (ID,),
    body=Body(json_content(ChannelChange), example={"enabled": False}),
)
DELETE: Final = Operation("deleteChannel", TAG, (ResponseSpec("The channel was deleted.", status=204),), (ID,))


@dataclass(frozen=True, slots=True)
class Channels:
    """Handlers of notification channels, and their dependencies."""

    context: HandlerContext
    secret_box: SecretBox
    rules: ChannelRules

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/projects/{projectSlug}/notification-channels"
        one, write = every + "/{channelId}", bearer(Scope.CHANNELS_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.CHANNELS_READ), operation=LIST),
            Route("POST", every, self.create, write, operation=CREATE),
            Route("PATCH", one, self.change, write, operation=CHANGE),
            Route("DELETE", one, self.delete, write, operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the channels of the project and those of its organization, newest first."""
        caller = authorization_context(request)
        binding = f"channels of {caller.org_id} {caller.project_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await repository.list_channels(
                connection, caller.org_id, _project_id(caller), page.after, page.limit + 1
            )
        return json_response(page_body(found, page, channel_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a channel.

        `config` is validated by kind, stored encrypted, and never returned. 409 at the maximum number of channels. A
        channel of the whole organization requires the role ADMIN or OWNER.
        """
        body, config = read_new(await self._read_body(request), self.rules)
        of_project = body.scope is ChannelScope.PROJECT
        async with self.context.write_transaction(request) as (connection, caller):
            if not of_project:
                require_administrator(caller)
            channel = await repository.create(
                connection,
                self.secret_box,
                org_id=caller.org_id,
                project_id=_project_id(caller) if of_project else None,
                name=body.name,
                kind=body.kind,
                config=config,
                enabled=body.enabled,
                created_by=caller.principal_id,
            )
            await self._record_audit(connection, request, "channel.create", channel)
        return json_response(channel_body(channel), status=201)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a channel: its name, whether it is enabled, its config.

        Disabling it cancels its waiting deliveries.
        """
        found = await self.precheck_manageable(request)
        body, config = read_change(await self._read_body(request), found.kind, self.rules)
        async with self.context.write_transaction(request) as (connection, _):
            await self.load_manageable(
                connection, request
            )  # the channel or the permission may have been removed meanwhile
            changed = await repository.change(
                connection,
                self.secret_box,
                found,
                name=None if body.name is UNSET else body.name,
                enabled=None if body.enabled is UNSET else body.enabled,
                config=config,
            )
            await self._record_audit(connection, request, "channel.change", changed, config=config is not None)
        return json_response(channel_body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a channel. Its config is erased, and its waiting deliveries are cancelled."""
        async with self.context.write_transaction(request) as (connection, _):
            found = await self.load_manageable(connection, request)
            await repository.delete(connection, found)
            await self._record_audit(connection, request, "channel.delete", found)
        return web.Response(status=204)

    async def _read_body(self, request: web.Request) -> bytes:
        return await read_json_bytes(
            request, max_bytes=self.context.max_body_bytes, timeout_s=self.context.body_timeout_s
        )

    async def load_channel(self, connection: AsyncConnection, request: web.Request) -> Channel:
        """The channel in the path. Raises NotFound."""
        caller, channel_id = authorization_context(request), request.match_info["channelId"]
        if not is_channel_id(channel_id):  # a path may hold characters that no database column accepts
            raise NotFound
        found = await repository.find(connection, caller.org_id, _project_id(caller), channel_id)
        if found is None:
            raise NotFound
        return found

    async def load_manageable(self, connection: AsyncConnection, request: web.Request) -> Channel:
        """The channel in the path, if the caller may change it. Raises NotFound, Forbidden."""
        found = await self.load_channel(connection, request)
        if found.project_id is None:
            require_administrator(authorization_context(request))
        return found

    async def precheck_manageable(self, request: web.Request) -> Channel:
        """`load_manageable` in a read transaction, before the body is read. Raises NotFound, Forbidden."""
        async with self.context.database.read() as connection:
            return await self.load_manageable(connection, request)

    async def _record_audit(
        self, connection: AsyncConnection, request: web.Request, action: str, channel: Channel, **extra: object
    ) -> None:
        project = None if channel.project_id is None else str(channel.project_id)
        data = {"name": channel.name, "kind": channel.kind.value, "enabled": channel.enabled, "projectId": project}
        await record(connection, authorization_context(request), action, channel.id, data | extra, request_id(request))


def _project_id(caller: AuthorizationContext) -> int:
    if caller.project_id is None:
        raise TypeError("the route of a channel has no project")
    return caller.project_id
