"""What chats send: forms, events, interactions, signatures; and texts that replies contain.

An input: a byte that chooses what the rest is. Of a signature, time and header are separated from the body by newlines.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from control.identity.chat_links import ChatUser
from control.inbound.chat.commands import Command
from control.inbound.chat.payloads import (
    CommandCall,
    Press,
    parse_event,
    parse_interaction,
    parse_interactivity,
    parse_slash_command,
)
from control.inbound.chat.replies import CHAT_A_MARKUP, CHAT_B_MARKUP, MAX_REPLY, Reply, chat_a_reply, chat_b_content
from control.inbound.webhooks.platform import PayloadError
from control.inbound.webhooks.platform_events import MAX_EVENT_ID_LENGTH
from control.inbound.webhooks.signatures import verify_chat_a, verify_ed25519

API_URL: Final = "https://chat.example/api"
NOW: Final = 1_531_420_618
# Of no signature that the fuzzer could see: it watches comparisons.
_SECRET: Final = hashlib.sha256(b"a secret of tests").digest()
_PUBLIC_KEY: Final = Ed25519PublicKey.from_public_bytes(
    bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
)
_PLATFORM_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UPDATE_URL: Final = re.compile(re.escape(API_URL) + r"/webhooks/[0-9]{1,20}/[A-Za-z0-9._-]{1,512}/messages/@original")
_MENTION: Final = re.compile(r"<|>|@\w|https?://|www\.", re.IGNORECASE)


def check(data: bytes) -> None:
    chosen, body = data[:1].ljust(1, b"\0")[0] % len(CHECKS), data[1:]
    try:
        CHECKS[chosen](body)
    except PayloadError as error:
        text = str(error)
        assert len(text) <= 400
        assert text.isprintable()


def check_command(body: bytes) -> None:
    call = parse_slash_command(body)
    if call is not None:
        check_call(call)


def check_event(body: bytes) -> None:
    challenge = parse_event(body)
    assert challenge is None or len(challenge) <= 1_000
    json.dumps(challenge, ensure_ascii=False).encode()


def check_interactivity(body: bytes) -> None:
    press = parse_interactivity(body)
    if press is not None:
        check_user(press.user)
        assert 0 < len(press.event_id) <= MAX_EVENT_ID_LENGTH
        assert press.update_url is None or len(press.update_url) <= 2_048


def check_interaction(body: bytes) -> None:
    found = parse_interaction(body, API_URL)
    if isinstance(found, CommandCall):
        check_call(found)
    elif isinstance(found, Press):
        check_user(found.user)
        assert found.event_id.isdigit()
        assert found.update_url is not None
        assert _UPDATE_URL.fullmatch(found.update_url)


def check_call(call: CommandCall) -> None:
    check_user(call.user)
    assert 0 < len(call.event_id) <= MAX_EVENT_ID_LENGTH
    assert isinstance(call.command, Command)
    for text in call.command:
        text.encode()
        assert len(text) <= 4_000


def check_user(user: ChatUser) -> None:
    assert _PLATFORM_ID.fullmatch(user.user_id)
    assert not user.team_id or _PLATFORM_ID.fullmatch(user.team_id)


def check_signature(data: bytes) -> None:
    timestamp, header, body = [*data.split(b"\n", 2), b"", b""][:3]
    time, text = timestamp.decode("latin-1"), header.decode("latin-1")
    assert not verify_chat_a([_SECRET], body, time, text, NOW)
    assert not verify_ed25519(_PUBLIC_KEY, body, time, text, NOW)


def check_text(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    linked = CHAT_A_MARKUP.link("address", text).removeprefix("<address|").removesuffix(">")
    for shown in (CHAT_A_MARKUP.text(text), CHAT_A_MARKUP.bold(text), linked):
        assert _MENTION.search(shown) is None
        assert "\n" not in shown
    assert re.search(r"(?<!\\)(?:\\\\)*[<>*_`|\[\]]|@\w", CHAT_B_MARKUP.text(text)) is None
    lines = (CHAT_A_MARKUP.text(text), *(CHAT_A_MARKUP.bold(one) for one in text.split("\n")))
    assert len(chat_a_reply(Reply(lines))["text"]) <= MAX_REPLY["chat-a"] + 2
    assert len(chat_b_content(Reply(lines))) <= MAX_REPLY["chat-b"] + 2


def examples() -> Iterator[bytes]:
    """Inputs to begin with: one of each, and odd ones."""
    user, press = {"id": "U1", "team_id": "T1"}, {"action_id": "sluice_approve", "value": "apr_1"}
    pressed = {"type": "block_actions", "user": user, "trigger_id": "1.2", "actions": [press]}
    pressed["response_url"] = "https://hooks.example/x"
    form = {"team_id": "T1", "user_id": "U1", "trigger_id": "1.2.a", "text": "reject apr_1 &lt;no&gt;"}
    option = {"type": 1, "name": "reject", "options": [{"type": 3, "name": "id", "value": "apr_1"}]}
    acting = {"id": "1", "application_id": "2", "token": "t", "member": {"user": {"id": "3"}}}
    data = {"name": "sluice", "options": [option]}
    yield b"\0" + urlencode(form).encode()
    yield b"\0ssl_check=1"
    yield b"\0text=%ff&text=a&text=b"
    yield b"\1" + json.dumps({"type": "url_verification", "challenge": "abc", "token": "x"}).encode()
    yield b"\1" + json.dumps({"type": "event_callback", "event": {"type": "app_uninstalled"}}).encode()
    yield b"\2" + urlencode({"payload": json.dumps(pressed)}).encode()
    yield b"\2" + urlencode({"payload": json.dumps({"type": "view_submission"})}).encode()
    yield b"\3" + json.dumps({"type": 1}).encode()
    yield b"\3" + json.dumps({"type": 2, "data": data, **acting}).encode()
    yield b"\3" + json.dumps({"type": 3, "data": {"custom_id": "sluice_approve:apr_1"}, **acting}).encode()
    yield b"\4%d\nv0=%s\nbody" % (NOW, b"a" * 64)
    yield b"\4%d\n%s\nbody" % (NOW, b"0" * 128)
    yield "\5<!channel> @everyone [x](https://evil.example) *b* _i_ `c` ||d|| \\\\* www.evil.example\nü".encode()


CHECKS: Final[tuple[Callable[[bytes], None], ...]] = (
    check_command,
    check_event,
    check_interactivity,
    check_interaction,
    check_signature,
    check_text,
)
