"""`.../notification-channels/{channelId}/test`: a test message through a channel."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, route
from chassis.limits.limiter import LimitClass
from control.http.field_types import Timestamp
from control.notify.channels.api import (
    ONE,
    ChannelId,
    Channels,
    check_channel_rate_limit,
    load_manageable,
    manageable_channel,
)
from control.notify.channels.config import Kind
from control.notify.channels.store import Channel
from control.notify.deliveries.rules import AttemptResult
from control.notify.deliveries.sender import Sender
from control.notify.message import Fact, Message
from control.routing.arguments import Handlers, begin, control_arguments
from control.routing.resource import ids
from proto.identity import Scope

TEST_MESSAGE_TYPE: Final = "channel.test"
DeliveryId = Annotated[str, Meta(pattern=f"^{ids('dlv')}$")]


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """Why nothing was delivered. `permanent`: another attempt would fail too."""

    permanent: bool
    retry_after_seconds: Annotated[int, Meta(ge=1, le=86_400)] | None


class ChannelTest(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a test message. `detail` is human-readable."""

    channel_id: ChannelId
    kind: Kind
    ok: bool
    delivery_id: DeliveryId
    attempted_at: Timestamp
    detail: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ChannelTests(Handlers):
    """Handler of channel tests, and its dependencies."""

    TAG: ClassVar = Channels.TAG
    sender: Sender

    def arguments(self) -> Arguments:
        own = {Channel: manageable_channel(self.context)}
        return control_arguments(self.context, own)

    @route("POST", ONE + "/test", bearer(Scope.CHANNELS_WRITE), limit=LimitClass.CHANNEL_TEST)
    async def test_channel(self, request: web.Request, channel: Channel) -> ChannelTest:
        """Send a test message through a channel, even a disabled one.

        One delivery with one attempt. The response has its result, but no content of the receiver's response. A
        pager opens an incident and closes it. Testing a channel of the whole organization requires the role ADMIN or
        OWNER. 429 also when the channel has been tested too often, by anyone, and while the organization
        runs several tests.
        """
        await check_channel_rate_limit(request, channel.id)
        async with begin(self.context, request) as transaction:
            channel = await load_manageable(transaction.connection, transaction.caller, channel.id)
            message = test_message(channel, transaction.caller)
            claimed = await self.sender.insert_test(transaction.connection, channel, message)
        result = await self.sender.test(claimed)
        return ChannelTest(
            channel_id=channel.id,
            kind=channel.kind,
            ok=result.ok,
            delivery_id=claimed.id,
            attempted_at=format_time(claimed.created_at),
            detail=result.detail,
            failure=_failure(result),
        )


def test_message(channel: Channel, caller: AuthorizationContext) -> Message:
    """The test message of a channel."""
    scope = "the whole organization" if channel.project_id is None else f"project {caller.project_slug}"
    return Message(
        type=TEST_MESSAGE_TYPE,
        subject=channel.id,
        title=f"Test message for the channel {channel.name}",
        text="Sluice can deliver notifications to this channel.",
        facts=(Fact("Organization", caller.org_slug), Fact("Scope", scope)),
        passing=True,
        data={"channelId": channel.id, "orgSlug": caller.org_slug, "projectSlug": caller.project_slug},
    )


def _failure(result: AttemptResult) -> Failure | None:
    """The failure of an attempt, None if it succeeded."""
    return None if result.ok else Failure(result.permanent, result.retry_after_s)
