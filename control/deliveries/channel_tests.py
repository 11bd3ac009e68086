"""`.../notification-channels/{channelId}/test`: a test message through a channel."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.http.access import bearer
from chassis.http.operation import Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response
from chassis.limits.limiter import LimitClass
from control.channels.channels import ID, TAG, Channels
from control.channels.permissions import check_channel_rate_limit
from control.channels.repository import Channel
from control.channels.schemas import ChannelTest, Failure
from control.deliveries.outcome import AttemptOutcome
from control.deliveries.sender import Sender
from control.message import Fact, Message
from proto.identity import Scope

TEST_MESSAGE_TYPE: Final = "channel.test"
PATH: Final = "/orgs/{orgSlug}/projects/{projectSlug}/notification-channels/{channelId}/test"

TEST: Final = Operation(
    "testChannel", TAG, (ResponseSpec("The outcome of the test message.", json_content(ChannelTest)),), (ID,)
)


@dataclass(frozen=True, slots=True)
class ChannelTests:
    """Handler of channel tests, and its dependencies."""

    channels: Channels
    sender: Sender

    def routes(self) -> list[Route]:
        """The route, with its scope."""
        access = bearer(Scope.CHANNELS_WRITE)
        return [Route("POST", PATH, self.test, access, limit=LimitClass.CHANNEL_TEST, operation=TEST)]

    async def test(self, request: web.Request) -> web.StreamResponse:
        """Send a test message through a channel, even a disabled one.

        One delivery with one attempt. The response has its outcome, but no content of the receiver's response. A
        pager opens an incident and closes it. Testing a channel of the whole organization requires the role ADMIN or
        OWNER. 429 also when the channel has been tested too often, by anyone, and while the organization
        runs several tests.
        """
        await check_channel_rate_limit(request, (await self.channels.precheck_manageable(request)).id)
        async with self.channels.context.write_transaction(request) as (connection, caller):
            found = await self.channels.load_manageable(connection, request)
            claimed = await self.sender.insert_test(connection, found, test_message(found, caller))
        outcome = await self.sender.test(claimed)
        return json_response(
            ChannelTest(
                channel_id=found.id,
                kind=found.kind,
                ok=outcome.ok,
                delivery_id=claimed.id,
                attempted_at=format_time(claimed.created_at),
                detail=outcome.detail,
                failure=failure_body(outcome),
            )
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


def failure_body(outcome: AttemptOutcome) -> Failure | None:
    """The failure of an attempt, None if it succeeded."""
    return None if outcome.ok else Failure(outcome.permanent, outcome.retry_after_s)
