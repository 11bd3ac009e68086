"""`POST .../test`: one real delivery, what it answers and what it never tells (specification 4.4)."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from tests.control.channels.conftest import CHANNELS
from tests.control.channels.test_channels import TIME, create
from tests.control.conftest import Control
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


async def test_a_disabled_channel_can_be_tested(control: Control, receiver: Receiver) -> None:
    assert (await tried(control, await channel_to(control, receiver.url(), enabled=False)))["ok"] is True


@pytest.mark.parametrize(
    ("status", "headers", "permanent", "wait"),
    [
        *((status, {}, True, None) for status in (300, 304, 400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 451)),
        *((status, {}, False, None) for status in (408, 409, 425, 429, 500, 501, 502, 503, 504, 599)),
        (429, {"Retry-After": "7"}, False, 7),
        (429, {"Retry-After": "0"}, False, 1),
        (503, {"Retry-After": "86401"}, False, 86_400),
        (503, {"Retry-After": "soon"}, False, None),
        (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, False, 1),
        (503, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, False, 86_400),
        (404, {"Retry-After": "7"}, True, None),
    ],
)
async def test_statuses_are_permanent_or_transient(
    control: Control, receiver: Receiver, status: int, headers: dict[str, str], permanent: bool, wait: int | None
) -> None:
    receiver.says(status, headers=headers, body=b"" if status == 304 else b"secret of the inner network")
    result = await tried(control, await channel_to(control, receiver.url()))
    assert (result["ok"], result["failure"]) == (False, {"permanent": permanent, "retryAfterSeconds": wait})
    assert str(status) in result["detail"]
    assert "secret" not in result["detail"]


async def test_redirects_are_not_followed(control: Control, receiver: Receiver) -> None:
    receiver.says(302, 204, headers={"Location": receiver.url("/inner")})
    result = await tried(control, await channel_to(control, receiver.url()))
    assert (result["ok"], result["failure"]) == (False, {"permanent": True, "retryAfterSeconds": None})
    assert [one.path for one in receiver.received] == ["/hook"]


@pytest.mark.parametrize("name", ["localhost", "localhost.", "nobody.invalid", "private.test"])
async def test_unresolved_and_private_hosts_are_retried(
    control: Control, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are told alike: a test is no way to learn which names there are inside."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **options: Any) -> Any:
        return real("10.1.2.3" if host == "private.test." else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    result = await tried(control, await channel_to(control, f"http://{name}/x"))
    assert result["failure"] == {"permanent": False, "retryAfterSeconds": None}
    assert result["detail"] == "The host name does not resolve to an allowed address."


async def test_a_refused_connection_is_retried(control: Control, unused_tcp_port: int) -> None:
    result = await tried(control, await channel_to(control, f"http://127.0.0.1:{unused_tcp_port}/x"))
    assert result["failure"] == {"permanent": False, "retryAfterSeconds": None}
    assert result["detail"] == "The connection failed."


async def test_tests_have_their_own_rate_limit(control: Control, receiver: Receiver) -> None:
    channel_id = await channel_to(control, receiver.url())
    for _ in range(20):
        assert (await tried(control, channel_id))["ok"]
    status, body, headers = await control.call("POST", f"{CHANNELS}/{channel_id}/test")
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert int(headers["Retry-After"]) >= 1
    assert len(receiver.received) == 20
    assert (await control.call("GET", CHANNELS))[0] == 200


Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("answering", [endless, trickling])
async def test_an_endless_response_is_read_up_to_its_limit(
    control: Control, receiver: Receiver, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.outbound.egress.BODY_S", 0.5)
    receiver.answers = [answering]
    async with asyncio.timeout(5):
        assert (await tried(control, await channel_to(control, receiver.url())))["ok"] is True
