"""What the platforms send, by their documentation, and what nobody should: whole answers."""

import time
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from chassis.runtime.settings_loader import SettingsError
from control.inbound.chat.actor import LINK_FIRST, NO_CODE
from control.inbound.chat.api import NOT_OURS
from control.inbound.chat.replies import CHAT_B_MARKUP
from control.inbound.chat.update_queue import chat_updates
from control.inbound.webhooks.platform_events import platform_events
from control.settings import ControlSettings
from tests.control.conftest import Control
from tests.control.inbound.chat.platforms import (
    SECRETS,
    SETTINGS,
    Chat,
    interaction,
    press_payload,
    signed_a,
    signed_b,
    slash_form,
    subcommand,
)

OK = (200, {"ok": True})


def event(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As docs.slack.dev/apis/events-api has it."""
    return {"team_id": "T123ABC456", "event": inner, "type": "event_callback", "event_id": "Ev123ABC456"} | more


async def test_events_are_answered_as_documented(chat: Chat) -> None:
    challenge = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
    verification = {"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": challenge, "type": "url_verification"}
    authorizations = [{"enterprise_id": None, "team_id": "T1", "user_id": "U1", "is_bot": False}]
    assert await chat.event(verification) == (200, {"challenge": challenge})
    for sent in (
        event({"type": "app_uninstalled"}),
        event({"type": "tokens_revoked", "tokens": {"oauth": ["UXXXXXXXX"], "bot": ["UXXXXXXXX"]}}),
        event({"type": "user_change", "user": {"id": "U1", "deleted": True}, "cache_ts": 1648596421}),
        event({"type": "app_mention", "user": "U1", "text": "<@U0> hi", "ts": "1515449522.000016", "channel": "C1"}),
        event(
            {"type": "message", "text": "x", "user": "U1"}, authorizations=authorizations, is_ext_shared_channel=True
        ),
        {"token": "XXYYZZ", "type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 1518467820},
    ):
        assert await chat.event(sent) == OK


async def test_interactivity_of_others_changes_nothing(chat: Chat) -> None:
    press = press_payload("apr_" + "0" * 26)
    other = {"action_id": "other", "block_id": "b", "value": "1", "type": "button", "action_ts": "1.1"}
    for sent in (
        press | {"actions": [other]},
        press | {"actions": []},
        press | {"actions": [{"type": "static_select", "action_id": "sluice_approve", "selected_option": None}]},
        {"type": "view_submission", "team": {"id": "T1"}, "user": {"id": "U1"}, "view": {"id": "V1"}, "hash": "1.a"},
        {"type": "shortcut", "callback_id": "x", "trigger_id": "1.1", "user": {"id": "U1"}, "action_ts": "1"},
        {"type": "message_action", "callback_id": "x", "trigger_id": "1.1", "user": {"id": "U1"}, "message": {}},
        {"type": "block_suggestion", "value": "x", "action_id": "y", "user": {"id": "U1"}},
        press | {"team": None, "user": {"id": "W1", "username": "x", "team_id": "T9"}, "is_enterprise_install": True},
        {key: value for key, value in press.items() if key != "response_url"},
    ):
        body = urlencode({"payload": msgspec.json.encode(sent).decode()}).encode()
        assert await chat.post("chat-a/interactivity", body, signed_a(body)) == OK, sent["type"]
    assert await chat.count(chat_updates) == 0


async def test_interactions_are_answered_as_documented(chat: Chat) -> None:
    told = {"type": 4, "data": {"content": f"{CHAT_B_MARKUP.text(LINK_FIRST)}\n`/sluice link CODE`", "flags": 64}}
    direct = interaction(2, subcommand("status"))
    direct["user"] = direct.pop("member")["user"]
    button = {"component_type": 2, "custom_id": "sluice_approve:apr_" + "0" * 26}
    status, pong = await chat.interact({"id": "1", "application_id": "2", "type": 1, "token": "t", "version": 1})
    assert (status, pong) == (200, {"type": 1})
    for sent in (
        interaction(2, subcommand("status")),
        interaction(2, subcommand("errors", project="web")),
        interaction(2, subcommand("approve", id="apr_1")),
        direct,
        interaction(3, button),
    ):
        assert await chat.interact(sent) == (200, told)
    _, helped = await chat.interact(interaction(2, {"type": 1, "name": "sluice", "id": "1"}))
    assert helped["data"]["content"].startswith("**Commands of Sluice**")
    no_code = {"type": 4, "data": {"content": CHAT_B_MARKUP.text(NO_CODE), "flags": 64}}
    assert await chat.interact(interaction(2, subcommand("link"))) == (200, no_code)


async def test_interactions_of_others_are_answered_and_change_nothing(chat: Chat) -> None:
    """An application may have buttons, menus and forms beside those of Sluice. Any other status than 200 is a failure
    to the platform.
    """
    told = {"type": 4, "data": {"content": CHAT_B_MARKUP.text(NOT_OURS), "flags": 64}}
    form = {"custom_id": "sluice_approve:x", "components": []}
    choices = {
        "id": "1",
        "name": "other",
        "type": 1,
        "options": [{"type": 3, "name": "q", "value": "", "focused": True}],
    }
    for sent in (
        interaction(3, {"component_type": 2, "custom_id": "other"}),
        interaction(3, {"component_type": 3, "custom_id": "menu", "values": ["a"]}),
        interaction(3, {"component_type": 2, "custom_id": ""}),
        interaction(3, {"component_type": 2, "custom_id": "sluice_approve"}),
        interaction(4, choices),
        interaction(5, form),
        interaction(6, {"unheard": "of"}),
        {"id": "1", "application_id": "2", "type": 7, "token": "t", "version": 1},
    ):
        assert await chat.interact(sent) == (200, told), sent
    assert await chat.count(chat_updates) == 0
    assert await chat.count(platform_events) == 0


async def test_what_is_not_signed_is_refused_unread(chat: Chat) -> None:
    form = urlencode(slash_form("help")).encode()
    ping = msgspec.json.encode({"type": 1})
    good, now = signed_a(form), time.time()
    late, early = signed_a(form, at=now - 301), signed_a(form, at=now + 302)
    stale, other = signed_b(ping, at=now - 301), signed_b(ping + b" ")
    mixed = good | {"X-Slack-Request-Timestamp": str(int(now) - 1)}
    for path, body, headers in (
        ("chat-a/commands", form, {}),
        ("chat-a/commands", form + b"&x=1", good),
        ("chat-a/commands", form, late),
        ("chat-a/commands", form, early),
        ("chat-a/commands", form, mixed),
        ("chat-a/commands", form, signed_a(form, "another")),
        ("chat-a/commands", form, good | {"X-Slack-Signature": good["X-Slack-Signature"].upper()}),
        ("chat-a/events", b'{"type":"url_verification","challenge":"x"}', {}),
        ("chat-a/interactivity", b"\xff" * 100, {}),
        ("chat-b/interactions", ping, {}),
        ("chat-b/interactions", ping, stale),
        ("chat-b/interactions", ping, other),
        ("chat-b/interactions", ping, signed_b(ping) | {"X-Signature-Ed25519": "0" * 128}),
    ):
        status, answer = await chat.post(path, body, headers)
        assert (status, answer["error"]["code"]) == (401, "unauthorized"), (path, headers)
        assert answer["error"]["message"] == "The signature is missing, invalid or expired."
    assert (await chat.post("chat-a/commands", form, signed_a(form, SECRETS[1])))[0] == 200, "during a rotation"


async def test_who_fails_too_often_is_told_so_and_what_is_signed_passes(chat: Chat) -> None:
    """Anyone may point an app of the platform at this address: that keeps out nobody else."""
    answers = [(await chat.post("chat-a/events", b"{}", {}))[0] for _ in range(32)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert (await chat.event({"type": "x"}))[0] == 200


async def test_signed_bodies_that_no_platform_sends_are_400_and_never_500(chat: Chat) -> None:
    deep = b'{"type":1,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    press = press_payload("x")

    def payload(value: object) -> bytes:
        return urlencode({"payload": msgspec.json.encode(value).decode()}).encode()

    forms = (
        b"",
        b"a" * 70_000,
        b"\xff\xfe",
        b"text=%ff&team_id=T1&user_id=U1&trigger_id=1",
        b"&".join(b"a%d=1" % one for one in range(60)),
        b"&" * 100_000,
        urlencode(slash_form("help") | {"user_id": ""}).encode(),
        urlencode(slash_form("help") | {"user_id": "U1\0"}).encode(),
        urlencode(slash_form("help") | {"team_id": "T" * 65}).encode(),
        urlencode(slash_form("help") | {"text": "x" * 4_001}).encode(),
        urlencode(slash_form("help", trigger="t" * 201)).encode(),
        urlencode(slash_form("help")).encode() + b"&text=approve",
        b"text=" + b"x" * (2**20 - 5),
    )
    presses = (
        b"",
        b"payload=",
        b"payload={}",
        b"payload=null",
        b"payload=1&payload=2",
        b"payload=%22" + b"x" * 100 + b"%22",
        b"payload=" + deep,
        payload(press | {"user": None}),
        payload(press | {"user": {"id": "U" * 100}}),
        payload(press | {"user": {"id": "U1"}, "team": None}),
        payload(press | {"actions": "x"}),
        payload(press | {"actions": [press["actions"][0]] * 26}),
        payload(press | {"actions": [press["actions"][0] | {"value": 7}]}),
        payload(press | {"actions": [press["actions"][0] | {"value": "v" * 2_001}]}),
        payload(press | {"trigger_id": 2**70}),
        payload(press | {"response_url": "https://hooks.slack.com/" + "x" * 2_048}),
        payload(press).replace(b"block_actions", b"block_actions%5Cud800"),
    )
    events = (b"", b"[]", b"{", b'{"type":1}', b'{"type":"url_verification"}', b"\xff", deep)
    option = {"type": 1, "name": "status", "options": [{"type": 3, "name": "id", "value": {"a": 1}}]}
    status_call = interaction(2, subcommand("status"))
    calls: tuple[dict[str, Any], ...] = (
        {},
        {"type": "1"},
        {"type": 2**70},
        {"type": True},
        {"type": 0},
        {"type": 101},
        {"type": 2},
        status_call | {"member": None},
        status_call | {"member": {"user": {"id": "x"}}},
        status_call | {"id": "1" * 21},
        status_call | {"token": "a/../b"},
        status_call | {"token": "t" * 513},
        status_call | {"application_id": "../x"},
        status_call | {"data": None},
        status_call | {"data": {"name": "x", "options": [option]}},
        status_call | {"data": {"name": "x", "options": [{"type": 1, "name": "n" * 101}]}},
        status_call | {"data": {"name": "x", "options": [{"type": 1, "name": "n"}] * 26}},
        interaction(3, {"custom_id": 7}),
        interaction(3, {"custom_id": "sluice_approve:" + "x" * 100}),
    )
    for path, bodies in (
        ("chat-a/commands", forms),
        ("chat-a/interactivity", presses),
        ("chat-a/events", events),
        ("chat-b/interactions", (*map(msgspec.json.encode, calls), deep)),
    ):
        for number, body in enumerate(bodies):
            signed = signed_b(body) if path.startswith("chat-b") else signed_a(body)
            status, answer = await chat.post(path, body, signed)
            assert (status, answer["error"]["code"]) == (400, "bad_request"), (path, number)
            assert "x" * 20 not in str(answer)
    assert await chat.count(platform_events) == 0


async def test_the_check_of_a_certificate_is_answered(chat: Chat) -> None:
    body = b"ssl_check=1&token=gIkuvaNzQIHg97ATvDxqgjtO"
    status, answer = await chat.post("chat-a/commands", body, signed_a(body))
    assert (status, answer["response_type"]) == (200, "ephemeral")


@pytest.mark.parametrize("control_settings", [ControlSettings()])
async def test_without_a_platform_there_is_nothing(control: Control, control_settings: ControlSettings) -> None:
    chat = Chat(control)
    form = urlencode(slash_form("help")).encode()
    for path, body, headers in (
        ("chat-a/commands", form, signed_a(form)),
        ("chat-a/events", form, signed_a(form)),
        ("chat-a/interactivity", form, signed_a(form)),
        ("chat-b/interactions", form, signed_b(form)),
    ):
        status, answer = await chat.post(path, body, headers)
        assert (status, answer["error"]["code"]) == (404, "not_found")
    status, answer, _ = await control.call("POST", "/orgs/acme/chat-links")
    assert (status, answer["error"]["code"]) == (409, "conflict")
    assert control_settings != SETTINGS


def test_settings_of_chats_are_checked() -> None:
    for wrong in (
        {"chat_b_public_key": "abc"},
        {"chat_b_public_key": "g" * 64},
        {"chat_b_public_key": "a" * 65},
        {"chat_a_signing_secrets": ("good", "")},
        {"chat_a_signing_secrets": ("a b",)},
        {"chat_a_signing_secrets": ("ü",)},
    ):
        with pytest.raises(SettingsError) as refused:
            ControlSettings(**wrong).validate()
        assert "SLUICE_CONTROL_CHAT_" in str(refused.value)
    SETTINGS.validate()
    assert SETTINGS.chat_platforms == ("chat-a", "chat-b")
    assert ControlSettings().chat_platforms == ()
