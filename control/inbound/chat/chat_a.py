"""`POST /webhooks/chat-a/{commands,events,interactivity}` (specification 4.5): a Slack-compatible chat."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from chassis.errors import BadRequest
from chassis.http.access import public
from chassis.http.operation import Operation, ResponseSpec, Tag, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response
from chassis.limits.limiter import LimitClass
from control.identity.chat_links.tables import ChatPlatform
from control.inbound.chat import commands, payloads
from control.inbound.chat.actor import ChatActor, PressResult, Surface
from control.inbound.chat.replies import CHAT_A_MARKUP, chat_a_reply
from control.inbound.chat.update_queue import NewUpdate
from control.inbound.webhooks.metrics import DeliveryOutcome
from control.inbound.webhooks.platform import PayloadError, header
from control.inbound.webhooks.platform_events import AppliedEvent
from control.inbound.webhooks.receiver import MAX_EVENT_BYTES, WebhookReceiver
from control.inbound.webhooks.signatures import verify_chat_a
from control.inbound.webhooks.tables import EventSource
from control.notify.channels.config import PLATFORM_HOSTS, ChannelRules, Kind, matches_any_host
from control.notify.deliveries.platforms.chat_a import card
from control.outbound.egress_policy import parse_url

SOURCE: Final = ChatPlatform.CHAT_A.value
TAG: Final = Tag("chats", "Commands and buttons of chats, and the links of chat users.")
# A URL is good for five messages: three attempts to replace the message, two to tell the person.
_TELLING: Final = 1

T = TypeVar("T")


class CommandAnswer(msgspec.Struct, frozen=True):
    """What the chat user sees."""

    response_type: str
    text: str
    blocks: list[Any] | UnsetType = UNSET


class EventAnswer(msgspec.Struct, frozen=True):
    """`challenge`: that of a verification of this URL."""

    ok: bool | UnsetType = UNSET
    challenge: Annotated[str, Meta(max_length=1_000)] | UnsetType = UNSET


class InteractivityAnswer(msgspec.Struct, frozen=True):
    """The interaction was received."""

    ok: bool


COMMANDS: Final = Operation(
    "receiveChatACommand",
    TAG,
    (ResponseSpec("What the chat user sees.", json_content(CommandAnswer)),),
    error_statuses=(400, 401, 404, 413, 429),
)
EVENTS: Final = Operation(
    "receiveChatAEvent",
    TAG,
    (ResponseSpec("The event was received.", json_content(EventAnswer)),),
    error_statuses=(400, 401, 404, 413, 429),
)
INTERACTIVITY: Final = Operation(
    "receiveChatAInteraction",
    TAG,
    (ResponseSpec("The interaction was received.", json_content(InteractivityAnswer)),),
    error_statuses=(400, 401, 404, 413, 429),
)


class ChatA:
    """Handlers of chat-a. Without signing secrets they answer 404. `response_hosts`: where messages may be replaced,
    besides the platform's own hosts.
    """

    def __init__(
        self,
        receiver: WebhookReceiver,
        actor: ChatActor,
        signing_secrets: Sequence[str],
        rules: ChannelRules,
        response_hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._receiver = receiver
        self._actor = actor
        self._secrets = tuple(secret.encode() for secret in signing_secrets)
        self._allow_http = rules.egress_policy.allow_http
        self._response_hosts = (*PLATFORM_HOSTS[Kind.CHAT_A], *rules.chat_hosts, *response_hosts)
        self._clock = clock
        self._surface = Surface(
            EventSource.CHAT_A, CHAT_A_MARKUP, chat_a_reply, lambda _result: {"ok": True}, self._updates
        )

    def routes(self) -> list[Route]:
        """Every route; the signature authenticates."""
        base = "/webhooks/chat-a"
        return [
            Route("POST", base + "/commands", self.commands, public(), operation=COMMANDS),
            Route("POST", base + "/events", self.events, public(), operation=EVENTS),
            Route("POST", base + "/interactivity", self.interactivity, public(), operation=INTERACTIVITY),
        ]

    async def commands(self, request: web.Request) -> web.StreamResponse:
        """Receive a slash command.

        The answer is for the chat user who gave it, also when the command is refused or unknown. A repetition gets the
        same answer and changes nothing.
        """
        call = self._parsed(payloads.parse_slash_command, await self._verified_body(request))
        if call is None:
            return self._answer(chat_a_reply(commands.help_reply(CHAT_A_MARKUP)))
        return self._applied(await self._actor.command(request, call, self._surface))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Receive an event.

        The verification of this URL is answered with its challenge. Nothing follows from other events.
        """
        event = self._parsed(payloads.parse_event, await self._verified_body(request))
        return self._answer({"ok": True} if event.challenge is None else {"challenge": event.challenge})

    async def interactivity(self, request: web.Request) -> web.StreamResponse:
        """Receive a press of a button.

        Approve casts the vote of the principal that the chat user is linked with. What it did is told in the chat.
        """
        press = self._parsed(payloads.parse_interactivity, await self._verified_body(request))
        if press is None:
            return self._answer({"ok": True})
        return self._applied(await self._actor.press(request, press, self._surface))

    async def _verified_body(self, request: web.Request) -> bytes:
        if not self._secrets:
            await self._receiver.refuse_unknown(request, SOURCE)
        body = await self._receiver.read(request, MAX_EVENT_BYTES)
        timestamp = header(request.headers, "X-Slack-Request-Timestamp")
        signature = header(request.headers, "X-Slack-Signature")
        if not verify_chat_a(self._secrets, body, timestamp, signature, self._clock()):
            await self._receiver.refuse_unsigned(request, SOURCE)
        await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, SOURCE)
        return body

    def _parsed(self, parse: Callable[[bytes], T], body: bytes) -> T:
        try:
            return parse(body)
        except PayloadError as error:
            self._receiver.metrics.count(SOURCE, DeliveryOutcome.INVALID)
            raise BadRequest(str(error)) from error

    def _applied(self, applied: AppliedEvent) -> web.StreamResponse:
        outcome = DeliveryOutcome.DUPLICATE if applied.duplicate else DeliveryOutcome.PROCESSED
        self._receiver.metrics.count(SOURCE, outcome)
        return json_response(applied.answer)

    def _answer(self, body: dict[str, Any]) -> web.StreamResponse:
        self._receiver.metrics.count(SOURCE, DeliveryOutcome.PROCESSED)
        return json_response(body)

    def _updates(self, result: PressResult, url: str) -> list[NewUpdate]:
        """The message without its button, with the outcome; and what the person is told."""
        if not self._may_post(url):
            return []
        told = chat_a_reply(result.reply) | {"replace_original": False}
        updates = [NewUpdate(ChatPlatform.CHAT_A, url, told, attempts=_TELLING)]
        if result.final is not None:
            shown = card(result.final) | {"replace_original": True}
            updates.insert(0, NewUpdate(ChatPlatform.CHAT_A, url, shown))
        return updates

    def _may_post(self, url: str) -> bool:
        try:
            host = parse_url(url, allow_http=self._allow_http).host or ""
        except ValueError:
            return False
        return matches_any_host(host.lower().rstrip("."), self._response_hosts)
