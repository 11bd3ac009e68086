"""`POST /webhooks/chat-b/interactions` (specification 4.5): a Discord-compatible chat."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET, UnsetType

from chassis.errors import BadRequest
from chassis.http.access import public
from chassis.http.declaration import route
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from control.identity.chat_links.tables import ChatPlatform
from control.inbound.chat.actor import ChatActor, PressResult, Surface
from control.inbound.chat.chat_a import ERRORS
from control.inbound.chat.payloads import CommandCall, UnhandledInteraction, parse_interaction
from control.inbound.chat.replies import CHAT_B_MARKUP, Reply, chat_b_content
from control.inbound.chat.update_queue import NewUpdate
from control.inbound.webhooks.metrics import WebhookOutcome
from control.inbound.webhooks.platform import PayloadError, header
from control.inbound.webhooks.platform_events import AppliedEvent, EventSource
from control.inbound.webhooks.receiver import MAX_EVENT_BYTES, WebhookReceiver
from control.inbound.webhooks.signatures import verify_ed25519
from control.notify.deliveries.platforms.chat_b import embed

SOURCE: Final = ChatPlatform.CHAT_B.value
API_URL: Final = "https://discord.com/api/v10"
PONG: Final = 1
MESSAGE: Final = 4
UPDATE_MESSAGE: Final = 7
EPHEMERAL: Final = 64
NOT_OURS: Final = "Sluice does not know this button, menu or form. Nothing was changed."
_UPDATE_DELAY: Final = timedelta(seconds=2)  # the platform has to take the answer first


class InteractionData(msgspec.Struct, frozen=True):
    """A message. `flags` 64: only the chat user sees it."""

    content: str
    flags: int | UnsetType = UNSET


class InteractionAnswer(msgspec.Struct, frozen=True):
    """`type` 1: answer to a ping; 4: a message; 7: replaces the message with the button."""

    type: int
    data: InteractionData | UnsetType = UNSET


class ChatB:
    """The handler of chat-b. Without a public key it answers 404. `public_key`: 64 hexadecimal digits, or empty."""

    def __init__(
        self,
        receiver: WebhookReceiver,
        actor: ChatActor,
        public_key: str,
        api_url: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._receiver = receiver
        self._actor = actor
        self._public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)) if public_key else None
        self._api_url = api_url
        self._clock = clock
        self._surface = Surface(EventSource.CHAT_B, CHAT_B_MARKUP, _ephemeral, _press_answer, _updates)

    @route("POST", "/webhooks/chat-b/interactions", public(), errors=ERRORS)
    async def receive_chat_b_interaction(self, request: web.Request) -> InteractionAnswer:
        """Receive an interaction: a ping, a command, or a press of an Approve button.

        Answers are for the chat user, but for a press that decides: it replaces the message with the button. A
        repetition gets the same answer and changes nothing. An interaction that is not for Sluice, such as a press of
        the button of another program, gets a message that says so.
        """
        body = await self._verified_body(request)
        try:
            parsed = parse_interaction(body, self._api_url)
        except PayloadError as error:
            self._receiver.metrics.count(SOURCE, WebhookOutcome.INVALID)
            raise BadRequest(str(error)) from error
        if isinstance(parsed, UnhandledInteraction):
            applied = AppliedEvent(_PLAIN_ANSWERS[parsed], duplicate=False)
        elif isinstance(parsed, CommandCall):
            applied = await self._actor.command(request, parsed, self._surface)
        else:
            applied = await self._actor.press(request, parsed, self._surface)
        self._receiver.metrics.count_processed(SOURCE, duplicate=applied.duplicate)
        return msgspec.convert(applied.answer, InteractionAnswer)

    async def _verified_body(self, request: web.Request) -> bytes:
        if self._public_key is None:
            await self._receiver.refuse_unknown(request, SOURCE)
        body = await self._receiver.read(request, MAX_EVENT_BYTES)
        timestamp = header(request.headers, "X-Signature-Timestamp")
        signature = header(request.headers, "X-Signature-Ed25519")
        if not verify_ed25519(self._public_key, body, timestamp, signature, self._clock()):
            await self._receiver.refuse_unsigned(request, SOURCE)
        await request.app[RATE_LIMITS].take(request, LimitClass.WEBHOOK, SOURCE)
        return body


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
    """What the answer has no room for: the button goes, and the embed shows the outcome."""
    if result.final is None:
        return []
    shown = {
        "content": CHAT_B_MARKUP.bold(result.final.title),
        "embeds": [embed(result.final)],
        "components": [],
        "allowed_mentions": {"parse": []},
    }
    return [NewUpdate(ChatPlatform.CHAT_B, url, shown, delay=_UPDATE_DELAY)]
