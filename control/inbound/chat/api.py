"""`/webhooks/chat-a/...`, a Slack-compatible chat, and `/webhooks/chat-b/interactions`, a Discord-compatible one."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET, Meta, UnsetType

from chassis.errors import BadRequest
from chassis.http.access import public
from chassis.http.declaration import route
from chassis.http.route import Tag
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.identity.chat_links import ChatPlatform
from control.inbound.chat import commands, payloads
from control.inbound.chat.actor import ChatActor, PressResult, Surface
from control.inbound.chat.payloads import CommandCall, UnhandledInteraction
from control.inbound.chat.replies import CHAT_A_MARKUP, CHAT_B_MARKUP, Reply, chat_a_reply, chat_b_content
from control.inbound.chat.update_queue import NewUpdate
from control.inbound.webhooks.platform import Headers, PayloadError, header
from control.inbound.webhooks.platform_events import AppliedEvent, EventSource
from control.inbound.webhooks.receiver import MAX_EVENT_BYTES, WebhookOutcome, WebhookReceiver
from control.inbound.webhooks.signatures import verify_chat_a, verify_ed25519
from control.notify.channels.config import PLATFORM_HOSTS, ChannelRules, Kind, matches_any_host
from control.notify.deliveries.platforms.chats import card, embed
from control.outbound.egress_policy import parse_url

PATH: Final = "/webhooks/chat-a"
TAG: Final = Tag("chats", "Commands and buttons of chats, and the links of chat users.")
# A platform accepts five messages at a URL: up to three attempts to replace the message, and two to inform the person.
_TELLING: Final = 1

T = TypeVar("T")


class CommandAnswer(msgspec.Struct, frozen=True):
    """The reply that the chat user sees."""

    response_type: str
    text: str
    blocks: list[Any] | UnsetType = UNSET


class EventAnswer(msgspec.Struct, frozen=True):
    """`challenge`: the challenge of the request that verified this URL."""

    ok: bool | UnsetType = UNSET
    challenge: Annotated[str, Meta(max_length=1_000)] | UnsetType = UNSET


class InteractivityAnswer(msgspec.Struct, frozen=True):
    """The interaction was received."""

    ok: bool


ERRORS: Final = (400, 401, 404, 413, 429)


class _Chat(ABC):
    """The common part of the handlers of all platforms. `key`: the key that signatures are verified with. Without a key
    the handlers answer 404.
    """

    def __init__(self, receiver: WebhookReceiver, actor: ChatActor, surface: Surface, key: Any) -> None:
        self._receiver = receiver
        self._actor = actor
        self._surface = surface
        self._key = key
        self._source = surface.source.value

    @abstractmethod
    def _is_signed(self, headers: Headers, body: bytes) -> bool: ...

    async def _read(self, request: web.Request, parse: Callable[[bytes], T]) -> T:
        """Read, verify and parse the body. Raises NotFound, RateLimited, Unauthorized, BadRequest and the errors of
        reading a body.
        """
        if not self._key:
            await self._receiver.refuse_unknown(request, self._source)
        body = await self._receiver.read(request, MAX_EVENT_BYTES)
        if not self._is_signed(request.headers, body):
            await self._receiver.refuse_unsigned(request, self._source)
        await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, self._source)
        try:
            return parse(body)
        except PayloadError as error:
            self._receiver.metrics.count(self._source, WebhookOutcome.INVALID)
            raise BadRequest(str(error)) from error

    def _count(self, *, duplicate: bool) -> None:
        self._receiver.metrics.count_processed(self._source, duplicate=duplicate)


class ChatA(_Chat):
    """Handlers of chat-a. `response_hosts`: hosts at which messages may be replaced, in addition to the platform's own
    hosts.
    """

    def __init__(
        self,
        receiver: WebhookReceiver,
        actor: ChatActor,
        signing_secrets: Sequence[str],
        rules: ChannelRules,
        response_hosts: Sequence[str] = (),
    ) -> None:
        surface = Surface(EventSource.CHAT_A, CHAT_A_MARKUP, chat_a_reply, lambda _result: {"ok": True}, self._updates)
        super().__init__(receiver, actor, surface, tuple(secret.encode() for secret in signing_secrets))
        self._allow_http = rules.egress_policy.allow_http
        self._response_hosts = (*PLATFORM_HOSTS[Kind.CHAT_A], *rules.chat_hosts, *response_hosts)

    @route("POST", PATH + "/commands", public(), errors=ERRORS)
    async def receive_chat_a_command(self, request: web.Request) -> CommandAnswer:
        """Receive a slash command.

        Only the chat user who gave the command sees the answer, also if the command is refused or unknown. A repeated
        command gets the same answer and changes nothing.
        """
        call = await self._read(request, payloads.parse_slash_command)
        if call is None:
            applied = AppliedEvent(chat_a_reply(commands.help_reply(CHAT_A_MARKUP)), duplicate=False)
        else:
            applied = await self._actor.command(request, call, self._surface)
        self._count(duplicate=applied.duplicate)
        return CommandAnswer(**applied.answer)

    @route("POST", PATH + "/events", public(), errors=ERRORS)
    async def receive_chat_a_event(self, request: web.Request) -> EventAnswer:
        """Receive an event.

        Sluice answers the verification of this URL with its challenge. Other events have no effect.
        """
        challenge = await self._read(request, payloads.parse_event)
        self._count(duplicate=False)
        return EventAnswer(ok=True) if challenge is None else EventAnswer(challenge=challenge)

    @route("POST", PATH + "/interactivity", public(), errors=ERRORS)
    async def receive_chat_a_interaction(self, request: web.Request) -> InteractivityAnswer:
        """Receive a press of a button.

        An Approve button casts the vote of the principal that the chat user is linked with. Sluice sends the result to
        the chat.
        """
        press = await self._read(request, payloads.parse_interactivity)
        is_known = press is not None and (await self._actor.press(request, press, self._surface)).duplicate
        self._count(duplicate=is_known)
        return InteractivityAnswer(ok=True)

    def _is_signed(self, headers: Headers, body: bytes) -> bool:
        timestamp, signature = header(headers, "X-Slack-Request-Timestamp"), header(headers, "X-Slack-Signature")
        return verify_chat_a(self._key, body, timestamp, signature, time.time())

    def _updates(self, result: PressResult, url: str) -> list[NewUpdate]:
        """The message without its button and with the result, and the message to the person."""
        if not self._may_post(url):
            return []
        told = chat_a_reply(result.reply) | {"replace_original": False}
        updates = [NewUpdate(ChatPlatform.CHAT_A, url, told, attempts=_TELLING)]
        if result.final is not None:
            updates.insert(0, NewUpdate(ChatPlatform.CHAT_A, url, card(result.final) | {"replace_original": True}))
        return updates

    def _may_post(self, url: str) -> bool:
        try:
            host = parse_url(url, allow_http=self._allow_http).host or ""
        except ValueError:
            return False
        return matches_any_host(host.lower().rstrip("."), self._response_hosts)


API_URL: Final = "https://discord.com/api/v10"
PONG: Final = 1
MESSAGE: Final = 4
UPDATE_MESSAGE: Final = 7
EPHEMERAL: Final = 64
NOT_OURS: Final = "Sluice does not know this button, menu or form. Nothing was changed."
_UPDATE_DELAY: Final = timedelta(seconds=2)  # the platform must receive the answer first


class InteractionData(msgspec.Struct, frozen=True):
    """A message. `flags` 64: visible only to the chat user."""

    content: str
    flags: int | UnsetType = UNSET


class InteractionAnswer(msgspec.Struct, frozen=True):
    """`type` 1: the answer to a ping. 4: a message. 7: a message that replaces the message with the button."""

    type: int
    data: InteractionData | UnsetType = UNSET


class ChatB(_Chat):
    """The handler of chat-b. `public_key`: 64 hexadecimal digits, or empty if chat-b is not configured."""

    def __init__(self, receiver: WebhookReceiver, actor: ChatActor, public_key: str, api_url: str) -> None:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)) if public_key else None
        surface = Surface(EventSource.CHAT_B, CHAT_B_MARKUP, _ephemeral, _press_answer, _updates)
        super().__init__(receiver, actor, surface, key)
        self._api_url = api_url

    @route("POST", "/webhooks/chat-b/interactions", public(), errors=ERRORS)
    async def receive_chat_b_interaction(self, request: web.Request) -> InteractionAnswer:
        """Receive an interaction: a ping, a command, or a press of an Approve button.

        Only the chat user sees the answer, unless a press decides the request: then the answer replaces the message
        with the button. A repeated interaction gets the same answer and changes nothing. An interaction that is not for
        Sluice, such as a press of the button of another program, gets a message that says so.
        """
        parsed = await self._read(request, partial(payloads.parse_interaction, api_url=self._api_url))
        if isinstance(parsed, UnhandledInteraction):
            applied = AppliedEvent(_PLAIN_ANSWERS[parsed], duplicate=False)
        elif isinstance(parsed, CommandCall):
            applied = await self._actor.command(request, parsed, self._surface)
        else:
            applied = await self._actor.press(request, parsed, self._surface)
        self._count(duplicate=applied.duplicate)
        return msgspec.convert(applied.answer, InteractionAnswer)

    def _is_signed(self, headers: Headers, body: bytes) -> bool:
        timestamp, signature = header(headers, "X-Signature-Timestamp"), header(headers, "X-Signature-Ed25519")
        return verify_ed25519(self._key, body, timestamp, signature, time.time())


def _ephemeral(reply: Reply) -> dict[str, Any]:
    return {"type": MESSAGE, "data": {"content": chat_b_content(reply), "flags": EPHEMERAL}}


_PLAIN_ANSWERS: Final[Mapping[UnhandledInteraction, dict[str, Any]]] = MappingProxyType(
    {
        UnhandledInteraction.PING: {"type": PONG},
        UnhandledInteraction.OTHER: _ephemeral(Reply((CHAT_B_MARKUP.text(NOT_OURS),))),
    }
)


def _press_answer(result: PressResult) -> dict[str, Any]:
    if result.final is None:
        return _ephemeral(result.reply)
    return {"type": UPDATE_MESSAGE, "data": {"content": CHAT_B_MARKUP.bold(result.final.title)}}


def _updates(result: PressResult, url: str) -> list[NewUpdate]:
    """The updates that do not fit into the answer: the button is removed, and the embed shows the result."""
    if result.final is None:
        return []
    shown = {
        "content": CHAT_B_MARKUP.bold(result.final.title),
        "embeds": [embed(result.final)],
        "components": [],
        "allowed_mentions": {"parse": []},
    }
    return [NewUpdate(ChatPlatform.CHAT_B, url, shown, delay=_UPDATE_DELAY)]
