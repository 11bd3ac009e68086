"""Parses the parts of chat platforms' requests that Sluice uses, after the signature is verified. Pure functions from
bytes to values.

Every function raises PayloadError for a body that differs from the platform's documentation. Sources:
docs.slack.dev/interactivity/implementing-slash-commands, docs.slack.dev/apis/events-api,
docs.slack.dev/reference/interaction-payloads/block_actions-payload,
docs.discord.com/developers/interactions/receiving-and-responding.
"""

from dataclasses import dataclass
from enum import Enum
from html import unescape
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from control.identity.chat_links import MAX_PLATFORM_ID_LENGTH, ChatPlatform, ChatUser
from control.inbound.chat.commands import Command, parse_command
from control.inbound.webhooks.platform import PayloadError, convert, decode
from control.notify.deliveries.platforms.chats import APPROVE_ACTION, APPROVE_PREFIX

MAX_BODY: Final = 2**20  # bytes; a press contains the message with all its blocks
MAX_FIELDS: Final = 50  # per form
MAX_COMMAND: Final = 4_000  # characters
MAX_OPTIONS: Final = 25
MAX_ACTIONS: Final = 25

URL_VERIFICATION: Final = "url_verification"
PING: Final = 1
COMMAND: Final = 2
COMPONENT: Final = 3
_SUBCOMMAND: Final = 1
# Options of the subcommands, in the order of the words of a command.
_OPTIONS: Final = ("project", "id", "code", "reason")

T = TypeVar("T")
_Id = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,{MAX_PLATFORM_ID_LENGTH}}}\Z")]
_Snowflake = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
_TriggerId = Annotated[str, Meta(pattern=r"^[!-~]{1,200}\Z")]
_Name = Annotated[str, Meta(max_length=100)]
_Url = Annotated[str, Meta(max_length=2_048)]


class _SlashCommand(msgspec.Struct, frozen=True):
    team_id: _Id
    user_id: _Id
    trigger_id: _TriggerId
    text: Annotated[str, Meta(max_length=MAX_COMMAND)] = ""


class _Event(msgspec.Struct, frozen=True):
    type: _Name
    challenge: Annotated[str, Meta(max_length=1_000)] | None = None


class _User(msgspec.Struct, frozen=True):
    id: _Id
    team_id: _Id | None = None


class _Team(msgspec.Struct, frozen=True):
    id: _Id


class _Action(msgspec.Struct, frozen=True):
    action_id: Annotated[str, Meta(max_length=255)] = ""
    value: Annotated[str, Meta(max_length=2_000)] | None = None


class _Type(msgspec.Struct, frozen=True):
    type: _Name


class _BlockActions(msgspec.Struct, frozen=True):
    user: _User
    trigger_id: _TriggerId
    actions: Annotated[list[_Action], Meta(max_length=MAX_ACTIONS)]
    team: _Team | None = None
    response_url: _Url | None = None


class _DiscordUser(msgspec.Struct, frozen=True):
    id: _Snowflake


class _Member(msgspec.Struct, frozen=True):
    user: _DiscordUser


class _Option(msgspec.Struct, frozen=True):
    name: _Name
    type: Annotated[int, Meta(ge=1, le=100)]
    value: Annotated[str, Meta(max_length=MAX_COMMAND)] | int | float | bool | None = None
    options: Annotated[list[Any], Meta(max_length=MAX_OPTIONS)] = []


class _CommandData(msgspec.Struct, frozen=True):
    name: _Name
    options: Annotated[list[_Option], Meta(max_length=MAX_OPTIONS)] = []


class _ComponentData(msgspec.Struct, frozen=True):
    custom_id: Annotated[str, Meta(max_length=100)]


class _Interaction(msgspec.Struct, frozen=True):
    type: Annotated[int, Meta(ge=1, le=100)]


class _Acting(msgspec.Struct, frozen=True):
    id: _Snowflake
    application_id: _Snowflake
    token: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,512}\Z")]
    data: dict[str, Any]
    member: _Member | None = None
    user: _DiscordUser | None = None


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command that a chat user gives. `event_id` identifies the command, and is the same if the platform repeats
    it.
    """

    user: ChatUser
    command: Command
    event_id: str


@dataclass(frozen=True, slots=True)
class Press:
    """A press of an Approve button. `update_url`: the URL at which the message can be replaced, None if there is
    none.
    """

    user: ChatUser
    request_id: str
    event_id: str
    update_url: str | None


class UnhandledInteraction(Enum):
    """Interactions of chat-b that are not for Sluice."""

    PING = "ping"
    OTHER = "other"  # a button, menu or form that is not from Sluice, or a kind that the platform has added


def parse_slash_command(body: bytes) -> CommandCall | None:
    """Parse the form of a slash command of chat-a. Returns None if the platform only checks the certificate."""
    form = parse_form(body)
    if form.get("ssl_check") == "1":
        return None
    sent = convert(_SlashCommand, form, "command")
    user = ChatUser(ChatPlatform.CHAT_A, sent.team_id, sent.user_id)
    return CommandCall(user, parse_command(unescape(sent.text)), f"command:{sent.trigger_id}")


def parse_event(body: bytes) -> str | None:
    """Parse an event of chat-a. Returns the challenge if the platform verifies the URL, and None for every other
    event.
    """
    sent = decode(_Event, _bounded(body), "event")
    if sent.type != URL_VERIFICATION:
        return None
    if sent.challenge is None or not sent.challenge.isprintable():
        raise PayloadError("The body is not a valid url_verification event: challenge is missing.")
    return sent.challenge


def parse_interactivity(body: bytes) -> Press | None:
    """Parse the form of an interaction of chat-a. Returns None if it is not a press of an Approve button."""
    form = parse_form(body)
    if "payload" not in form:
        raise PayloadError("The form has no payload.")
    payload = form["payload"].encode()
    if decode(_Type, payload, "interaction").type != "block_actions":
        return None
    sent = decode(_BlockActions, payload, "block_actions")
    pressed = next((one for one in sent.actions if one.action_id == APPROVE_ACTION), None)
    if pressed is None or pressed.value is None:
        return None
    team_id = sent.user.team_id or (None if sent.team is None else sent.team.id)
    if team_id is None:
        raise PayloadError("The body is not a valid block_actions event: the user has no team.")
    user = ChatUser(ChatPlatform.CHAT_A, team_id, sent.user.id)
    return Press(user, pressed.value, f"press:{sent.trigger_id}", sent.response_url)


def parse_interaction(body: bytes, api_url: str) -> CommandCall | Press | UnhandledInteraction:
    """Parse an interaction of chat-b. `api_url`: base URL of the platform's API."""
    kind = decode(_Interaction, _bounded(body), "interaction").type
    if kind == PING:
        return UnhandledInteraction.PING
    if kind not in (COMMAND, COMPONENT):
        return UnhandledInteraction.OTHER
    sent = decode(_Acting, body, "interaction")
    from_user = sent.user if sent.member is None else sent.member.user
    if from_user is None:
        raise PayloadError("The body is not a valid interaction: it has no user.")
    user = ChatUser(ChatPlatform.CHAT_B, "", from_user.id)
    if kind == COMMAND:
        return CommandCall(user, _command(convert(_CommandData, sent.data, "command")), sent.id)
    custom_id = convert(_ComponentData, sent.data, "component").custom_id
    if not custom_id.startswith(APPROVE_PREFIX):
        return UnhandledInteraction.OTHER
    url = f"{api_url}/webhooks/{sent.application_id}/{sent.token}/messages/@original"
    return Press(user, custom_id.removeprefix(APPROVE_PREFIX), sent.id, url)


def parse_form(body: bytes) -> dict[str, str]:
    """Parse the fields of a form. Each field may occur only once."""
    try:
        pairs = parse_qsl(
            _bounded(body).decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise PayloadError("The body is not a form.") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise PayloadError("A field of the form is repeated.")
    return form


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_BODY:
        raise PayloadError(f"The body is longer than {MAX_BODY} bytes.")
    return body


def _command(data: _CommandData) -> Command:
    """The command in `/sluice reject id:... reason:...`: a subcommand with options."""
    chosen = next((one for one in data.options if one.type == _SUBCOMMAND), None)
    if chosen is None:
        return Command("help")
    words = {
        one.name: one.value for one in convert(list[_Option], chosen.options, "command") if isinstance(one.value, str)
    }
    ordered = [words[name].strip() for name in _OPTIONS if name in words]
    return Command(chosen.name.lower(), *ordered[:2])
