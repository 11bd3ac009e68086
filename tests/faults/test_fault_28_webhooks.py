"""Fault 28: webhooks that were taken from the wire are worth nothing, and names that turn inwards are not followed."""

import socket
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from standardwebhooks import Webhook, WebhookVerificationError

from control.notify.channels.config import WebhookConfig
from control.notify.deliveries.platforms import webhooks
from control.settings import ControlSettings
from tests.control.conftest import Control, serving
from tests.control.notify.channels.conftest import CHANNELS
from tests.control.outbound.test_egress import answering
from tests.control.receiver import SECRET, Received, Receiver

HOUR = timedelta(hours=1)


class Books:
    """What a careful program does with our webhooks: verifies them, and books each id once."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        try:
            Webhook(SECRET).verify(await request.read(), dict(request.headers))
        except WebhookVerificationError:
            return web.Response(status=400)
        if request.headers["webhook-id"] not in self.booked:
            self.booked.append(request.headers["webhook-id"])
        return web.Response(status=204)


@pytest.fixture
async def control(migrated_url: str, tmp_path: Path) -> AsyncIterator[Control]:
    settings = ControlSettings(egress_allow=("127.0.0.1/32",), egress_http=True)
    async with serving(migrated_url, tmp_path, settings) as control:
        yield control


async def channel_to(control: Control, url: str) -> str:
    body = {"name": "books", "kind": "webhook", "config": {"url": url, "secret": SECRET}}
    status, made, _ = await control.call("POST", CHANNELS, body)
    assert status == 201, made
    return f"{CHANNELS}/{made['id']}/test"


async def repeated(receiver: Receiver, taken: Received, **changed: str) -> int:
    """Send what was taken from the wire once more, with other headers or another body; the status."""
    body = changed.pop("body", taken.body.decode())
    headers = {**taken.headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
    async with ClientSession() as client, client.post(receiver.url(), data=body.encode(), headers=headers) as answer:
        return answer.status


async def test_fault_28_webhooks_replayed_altered_and_stale(control: Control, receiver: Receiver) -> None:
    receiver.answers = [books := Books()]
    _, result, _ = await control.call("POST", await channel_to(control, receiver.url()))
    assert (result["ok"], books.booked) == (True, [result["deliveryId"]])
    (taken,) = receiver.received

    old = datetime.now(UTC) - HOUR
    config = WebhookConfig(url=receiver.url(), secret=SECRET)
    signed_then = webhooks.signatures(config, taken.headers["webhook-id"], old, taken.body)
    assert [
        await repeated(receiver, taken),
        await repeated(receiver, taken, body=taken.body.decode().replace("channel.test", "channel.tesT")),
        await repeated(receiver, taken, webhook_id="dlv_another"),
        await repeated(receiver, taken, webhook_timestamp=str(int(taken.headers["webhook-timestamp"]) + 1)),
        await repeated(receiver, taken, webhook_timestamp=str(int(old.timestamp())), webhook_signature=signed_then),
    ] == [204, 400, 400, 400, 400]
    assert books.booked == [result["deliveryId"]]


async def test_fault_28_a_name_that_turns_inwards(
    control: Control, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    with closing(socket.create_server(("127.0.0.2", receiver.server.port or 0))) as inner:
        inner.setblocking(False)
        test = await channel_to(control, f"http://hook.test:{receiver.server.port}/hook")
        _, before, _ = await control.call("POST", test)
        _, after, _ = await control.call("POST", test)
        with pytest.raises(BlockingIOError):
            inner.accept()
    assert (before["ok"], after["ok"], len(receiver.received)) == (True, False, 1)
    assert after["failure"] == {"permanent": False, "retryAfterSeconds": None}
    assert after["detail"] == "The host name does not resolve to an allowed address."
