"""`/orgs/{orgSlug}/projects/{projectSlug}/notification-channels`: list, create, change, delete; subscriptions."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Forbidden, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, PageOf, route
from chassis.http.route import Body, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name, Timestamp
from control.notify.channels import store
from control.notify.channels.config import ChannelRules, Config, Kind, read_config
from control.notify.channels.store import Channel
from control.notify.channels.tables import ChannelEvent, notification_channels
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import PageReader, Resource, ids, in_organization, in_project, shown_as
from control.secrets.secret_box import SecretBox
from proto.identity import Role, Scope

PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/notification-channels"
ONE: Final = PATH + "/{channelId}"
_READ: Final = bearer(Scope.CHANNELS_READ)
_WRITE: Final = bearer(Scope.CHANNELS_WRITE)
_ADMINISTRATORS: Final = frozenset({Role.ADMIN, Role.OWNER})

ChannelId = Annotated[str, Meta(pattern=f"^{ids('chn')}$")]
AnyConfig = Annotated[
    Any,
    Meta(
        description="The fields depend on the kind. Write-only. `chat-a`: `webhookUrl`, or `botToken` and `channel`. "
        "`chat-b`: `webhookUrl`. `webhook`: `url`, `secret` (`whsec_...`), `previousSecret`?, "
        "`headers`?. `email`: `to`, up to 20 addresses. `pager`: `routingKey`, `severity`?. `teams`: "
        "`workflowUrl`."
    ),
]
Events = Annotated[
    list[ChannelEvent],
    Meta(
        max_length=16,
        description="`issue.new`: an error that was not seen before, or the number of new issues that got no "
        "notification of their own. `issue.regression`: a resolved issue that occurs again.",
    ),
]


class ChannelScope(StrEnum):
    """The scope of a channel: a project, or the whole organization."""

    PROJECT = "project"
    ORG = "org"


class NewChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The channel to create."""

    name: Name
    kind: Kind
    config: AnyConfig
    enabled: bool = True
    scope: Annotated[
        ChannelScope,
        Meta(description="`org` requires the role ADMIN or OWNER. Such a channel belongs to the whole organization."),
    ] = ChannelScope.PROJECT


class ChannelChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a channel. Omitted fields are not changed. `config` replaces the complete config."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    config: AnyConfig = UNSET


class NotificationChannel(msgspec.Struct, frozen=True, rename="camel"):
    """A channel, without its config. `projectId` is null for a channel of the whole organization."""

    id: ChannelId
    org_id: str
    project_id: Annotated[str, Meta(pattern="^[0-9]+$")] | None
    name: Name
    kind: Kind
    enabled: bool
    created_at: Timestamp
    updated_at: Timestamp


class ChannelSubscriptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The events that the channel is notified of."""

    events: Events


NEW: Final = Body(
    json_content(NewChannel),
    example={"name": "On call", "kind": "email", "config": {"to": ["oncall@example.org"]}},
)
CHANGE: Final = Body(json_content(ChannelChange), example={"enabled": False})


def _shown(channel: Any, _caller: AuthorizationContext) -> NotificationChannel:
    project_id = None if channel.project_id is None else str(channel.project_id)
    return shown_as(NotificationChannel, channel, project_id=project_id)


CHANNELS: Final = Resource(
    "channelId",
    ids("chn"),
    Scope.CHANNELS_READ,
    notification_channels.c.id,
    in_organization(notification_channels)
    & notification_channels.c.deleted_at.is_(None)
    & (notification_channels.c.project_id.is_(None) | in_project(notification_channels)),
    sa.select(*store.COLUMNS),
    _shown,
)


def require_administrator(caller: AuthorizationContext) -> None:
    """Require the role ADMIN or OWNER for channels of the whole organization. Raises Forbidden."""
    if caller.role not in _ADMINISTRATORS:
        raise Forbidden("Channels of the whole organization require the role ADMIN or OWNER.")


async def check_channel_rate_limit(request: web.Request, channel_id: str) -> None:
    """Limit the messages sent on demand through one channel, by all callers together. Raises RateLimited."""
    await request.app[RATE_LIMITS].take_secondary(request, LimitClass.CHANNEL_TEST, f"channel {channel_id}")


async def load_manageable(connection: AsyncConnection, caller: AuthorizationContext, channel_id: str) -> Channel:
    """The channel with this id, if the caller may change it. Raises NotFound, Forbidden."""
    found = await _load_channel(connection, caller, channel_id)
    if found.project_id is None:
        require_administrator(caller)
    return found


def manageable_channel(context: HandlerContext) -> Argument:
    """Load the `Channel` in the path. As an argument before the body, it is loaded before the body is read."""

    async def provide(request: web.Request, _stack: AsyncExitStack) -> Channel:
        async with context.database.read() as connection:
            return await load_manageable(connection, authorization_context(request), path_id(request, "channelId"))

    return Argument(provide)


@dataclass(frozen=True, slots=True)
class Channels(Handlers):
    """Handlers of notification channels, and their dependencies."""

    TAG: ClassVar = Tag("notification-channels", "Destinations of notifications: chats, webhooks, e-mail, pagers.")
    secret_box: SecretBox
    rules: ChannelRules

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {Channel: manageable_channel(self.context)})

    @route("GET", PATH, _READ, page="ChannelPage")
    async def list_channels(self, caller: AuthorizationContext, page: PageReader) -> PageOf[NotificationChannel]:
        """List the channels of the project and the channels of its organization, newest first."""
        return await page.of(CHANNELS, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), body=NEW)
    async def create_channel(self, request: web.Request) -> NotificationChannel:
        """Create a channel.

        `config` is validated by kind, stored encrypted, and never returned. 409 at the maximum number of channels. A
        channel of the whole organization requires the role ADMIN or OWNER.
        """
        placeholders = {"name": "x", "kind": Kind.EMAIL.value, "config": None}
        body, config = await self.context.read_checked_body(request, NewChannel, self._check_new, placeholders)
        if config is None:
            raise TypeError("the body was accepted without a config")
        of_project = body.scope is ChannelScope.PROJECT
        async with begin(self.context, request) as transaction:
            caller = transaction.caller
            if not of_project:
                require_administrator(caller)
            channel = await store.create(
                transaction.connection,
                self.secret_box,
                org_id=caller.org_id,
                project_id=caller.path_project_id if of_project else None,
                name=body.name,
                kind=body.kind,
                config=config,
                enabled=body.enabled,
                created_by=caller.principal_id,
            )
            await _record(transaction, "channel.create", channel)
        return _shown(channel, caller)

    @route("PATCH", ONE, _WRITE, body=CHANGE)
    async def change_channel(self, channel: Channel, request: web.Request) -> NotificationChannel:
        """Change the name or the config of a channel, or enable or disable it.

        Disabling a channel cancels its waiting deliveries.
        """
        check = partial(self._check_change, channel.kind)
        body, config = await self.context.read_checked_body(request, ChannelChange, check)
        async with begin(self.context, request) as transaction:
            await load_manageable(transaction.connection, transaction.caller, channel.id)
            changed = await store.change(
                transaction.connection,
                self.secret_box,
                channel,
                name=None if body.name is UNSET else body.name,
                enabled=None if body.enabled is UNSET else body.enabled,
                config=config,
            )
            await _record(transaction, "channel.change", changed, config=config is not None)
        return _shown(changed, transaction.caller)

    @route("DELETE", ONE, _WRITE)
    async def delete_channel(self, channel_id: str, transaction: Transaction) -> None:
        """Delete a channel. Sluice erases its config and cancels its waiting deliveries."""
        channel = await load_manageable(transaction.connection, transaction.caller, channel_id)
        await store.delete(transaction.connection, channel)
        await _record(transaction, "channel.delete", channel)

    @route("GET", ONE + "/subscriptions", _READ)
    async def show_channel_subscriptions(
        self, channel_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> ChannelSubscriptions:
        """Show the events that a channel is notified of.

        A new channel subscribes to no events. It is then only notified of approval requests, which need no
        subscription.
        """
        channel = await _load_channel(connection, caller, channel_id)
        return ChannelSubscriptions(await store.list_subscriptions(connection, channel.id))

    @route("PUT", ONE + "/subscriptions", _WRITE, example={"events": ["issue.new", "issue.regression"]})
    async def replace_channel_subscriptions(
        self, channel: Channel, body: ChannelSubscriptions, transaction: Transaction
    ) -> ChannelSubscriptions:
        """Subscribe a channel to these events, and to no others.

        A channel of a project is notified of events of this project. A channel of the organization is notified of
        events of all projects, and requires the role ADMIN or OWNER.
        """
        channel = await load_manageable(transaction.connection, transaction.caller, channel.id)
        await store.set_subscriptions(transaction.connection, channel, body.events)
        events = await store.list_subscriptions(transaction.connection, channel.id)
        data = {"name": channel.name, "events": [event.value for event in events]}
        await transaction.record("channel.subscribe", channel.id, data)
        return ChannelSubscriptions(events)

    def _check_new(self, body: NewChannel, issues: Issues) -> Config | None:
        """The config, if the kind is known."""
        if any(issues.has_issue_under(f"body.{name}") for name in ("kind", "config")):
            return None
        return read_config(body.kind, msgspec.json.encode(body.config), self.rules, issues)

    def _check_change(self, kind: Kind, body: ChannelChange, issues: Issues) -> Config | None:
        """The config, if the body has one."""
        return None if body.config is UNSET else read_config(kind, msgspec.json.encode(body.config), self.rules, issues)


async def _load_channel(connection: AsyncConnection, caller: AuthorizationContext, channel_id: str) -> Channel:
    found = await store.find(connection, caller.org_id, caller.path_project_id, channel_id)
    if found is None:
        raise NotFound
    return found


async def _record(transaction: Transaction, action: str, channel: Channel, **extra: object) -> None:
    project = None if channel.project_id is None else str(channel.project_id)
    data = {"name": channel.name, "kind": channel.kind.value, "enabled": channel.enabled, "projectId": project}
    await transaction.record(action, channel.id, data | extra)
