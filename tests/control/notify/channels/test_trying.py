"""`POST .../test`: one real delivery, what it answers and what it never tells (specification 4.4)."""

import asyncio
import re
import socket
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from tests.control.conftest import Control
from tests.control.notify.channels.conftest import CHANNELS
from tests.control.notify.channels.test_channels import TIME, create
from tests.control.receiver import SECRET, Receiver


async def channel_to(control: Control, url: str, *, enabled: bool = True) -> str:
    made = await create(control, "webhook", config={"url": url, "secret": SECRET}, enabled=enabled)
    return str(made["id"])


async def tried(control: Control, channel_id: str) -> dict[str, Any]:
    status, result, _ = await control.call("POST", f"{CHANNELS}/{channel_id}/test")
    assert status == 200
    return dict(result)


async def test_a_test_is_one_signed_delivery(control: Control, receiver: Receiver) -> None:
    channel_id = await channel_to(control, receiver.url())
    result = await tried(control, channel_id)
    assert list(result) == ["channelId", "kind", "ok", "deliveryId", "attemptedAt", "detail", "failure"]
    assert re.fullmatch("dlv_[0-9a-z]{26}", result["deliveryId"])
    assert TIME.fullmatch(result["attemptedAt"])
    assert result | {"deliveryId": "", "attemptedAt": ""} == {
        "channelId": channel_id,
        "kind": "webhook",
        "ok": True,
        "deliveryId": "",
        "attemptedAt": "",
        "detail": "Delivered (HTTP 204).",
        "failure": None,
    }
    (received,) = receiver.received
    payload = Webhook(SECRET).verify(received.body, received.headers)
    assert payload["type"] == "channel.test"
    assert payload["data"]["channelId"] == channel_id
    assert received.headers["webhook-id"] == result["deliveryId"]
    assert "Authorization" not in received.headers
    _, listed, _ = await control.call("GET", f"/orgs/acme/deliveries/{result['deliveryId']}")
    assert (listed["state"], listed["attempts"], listed["attemptedAt"]) == ("DONE", 1, result["attemptedAt"])


async def test_a_failure_is_permanent_or_transient(
    control: Control, receiver: Receiver, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its status; redirects are not followed. Whether a name is private or nowhere is not told: a test is no way to
    learn which names there are inside. A disabled channel can be tested.
    """
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **options: Any) -> Any:
        return real("10.1.2.3" if host == "private.test." else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    hook = await channel_to(control, receiver.url(), enabled=False)
    for status, headers, permanent, wait in (
        (302, {"Location": receiver.url("/inner")}, True, None),
        (404, {"Retry-After": "7"}, True, None),
        (429, {"Retry-After": "7"}, False, 7),
        (500, {}, False, None),
    ):
        receiver.says(status, headers=headers, body=b"secret of the inner network")
        result = await tried(control, hook)
        assert (result["ok"], result["failure"]) == (False, {"permanent": permanent, "retryAfterSeconds": wait})
        assert str(status) in result["detail"]
        assert "secret" not in result["detail"]
    assert [one.path for one in receiver.received] == ["/hook"] * 4
    for host, detail in (
        *((name, "The host name does not resolve to an allowed address.")
          for name in ("localhost", "localhost.", "nobody.invalid", "private.test")),
        (f"127.0.0.1:{unused_tcp_port}", "The connection failed."),
    ):  # fmt: skip
        result = await tried(control, await channel_to(control, f"http://{host}/x"))
        assert result["failure"] == {"permanent": False, "retryAfterSeconds": None}, host
        assert result["detail"] == detail, host
    receiver.says(204)
    assert (await tried(control, hook))["ok"] is True


async def test_tests_have_their_own_rate_limit(control: Control, receiver: Receiver) -> None:
    channel_id = await channel_to(control, receiver.url())
    for _ in range(20):
        assert (await tried(control, channel_id))["ok"]
    status, body, headers = await control.call("POST", f"{CHANNELS}/{channel_id}/test")
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert int(headers["Retry-After"]) >= 1
    assert len(receiver.received) == 20
    assert (await control.call("GET", CHANNELS))[0] == 200


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"x" * 65_536)


async def trickling(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"x")
        await asyncio.sleep(0.02)


async def test_an_endless_response_is_read_up_to_its_limit(
    control: Control, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.outbound.egress.BODY_S", 0.1)
    channel_id = await channel_to(control, receiver.url())
    for answering in (endless, trickling):
        receiver.answers = [answering]
        async with asyncio.timeout(5):
            assert (await tried(control, channel_id))["ok"] is True
