"""Deliveries over HTTP: listed, shown, sent again; channels of platforms end to end."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from control.notify.channels.tables import State, deliveries
from control.notify.deliveries.outbox import AllChannels, ChannelIds, enqueue
from control.notify.message import Message
from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import SETTINGS, Control, serving
from tests.control.mail import Office
from tests.control.mail import serving as serving_mail
from tests.control.notify.channels.conftest import CHANNELS
from tests.control.notify.channels.test_channels import TIME, create
from tests.control.receiver import SECRET, Receiver

DELIVERIES = "/orgs/acme/deliveries"
FIELDS = [
    "id", "orgId", "channelId", "kind", "type", "subject", "title", "state", "attempts", "detail", "failure",
    "createdAt", "attemptedAt", "nextAttemptAt", "endedAt",
]  # fmt: skip
MESSAGE = Message(type="approval.requested", subject="apr_1", title="Approve it?")


async def channel(control: Control, receiver: Receiver, scope: str = "project") -> str:
    config = {"url": receiver.url(), "secret": SECRET}
    return str((await create(control, "webhook", config=config, scope=scope))["id"])


async def queue(control: Control, to: ChannelIds | AllChannels | None = None) -> list[str]:
    """Ids of deliveries to all channels, or to these, which workers may claim at once."""
    async with control.checks.database.write() as connection:
        to = to or AllChannels(control.acme.project.id)
        queued = await enqueue(connection, control.acme.organization.id, to, MESSAGE)
        ids = [str(one.delivery_id) for one in queued]
        due = deliveries.update().where(deliveries.c.id.in_(ids)).values(next_at=deliveries.c.created_at)
        await connection.execute(due)
    return ids


async def shown(control: Control, delivery_id: str) -> dict[str, Any]:
    status, one, _ = await control.call("GET", f"{DELIVERIES}/{delivery_id}")
    assert status == 200
    return dict(one)


async def until(control: Control, delivery_id: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (one := await shown(control, delivery_id))["state"] not in states:
            await asyncio.sleep(0.05)
    return one


@pytest.mark.background
async def test_queued_deliveries_are_sent_by_the_process_and_shown(control: Control, receiver: Receiver) -> None:
    """One that is dead is sent again under its id."""
    receiver.says(403, 204)
    channel_id = await channel(control, receiver)
    (id_,) = await queue(control)
    dead = await until(control, id_, "DEAD")
    assert list(dead) == FIELDS
    assert dead["failure"] == {"permanent": True, "retryAfterSeconds": None}
    status, again, _ = await control.call("POST", f"{DELIVERIES}/{id_}/redeliver")
    assert (status, again["state"], again["attempts"], again["failure"]) == (202, "READY", 0, None)
    assert TIME.fullmatch(again["nextAttemptAt"])
    done = await until(control, id_, "DONE")
    assert done == {
        "id": id_,
        "orgId": control.acme.organization.id,
        "channelId": channel_id,
        "kind": "webhook",
        "type": "approval.requested",
        "subject": "apr_1",
        "title": "Approve it?",
        "state": "DONE",
        "attempts": 1,
        "detail": "Delivered (HTTP 204).",
        "failure": None,
        "createdAt": dead["createdAt"],
        "attemptedAt": done["attemptedAt"],
        "nextAttemptAt": None,
        "endedAt": done["endedAt"],
    }
    assert TIME.fullmatch(done["endedAt"])
    assert (await control.call("GET", DELIVERIES))[1] == {"data": [done], "nextCursor": None, "hasMore": False}
    assert [one.headers["webhook-id"] for one in receiver.received] == [id_, id_]
    actions = [event["action"] for event in (await control.call("GET", "/orgs/acme/audit"))[1]["data"]]
    assert "delivery.redeliver" in actions


@pytest.mark.background
async def test_a_failed_delivery_waits_and_redelivery_has_its_conflicts(control: Control, receiver: Receiver) -> None:
    receiver.says(503, headers={"Retry-After": "77"})
    channel_id = await channel(control, receiver)
    (waiting,) = await queue(control)
    async with asyncio.timeout(10):
        while not (one := await shown(control, waiting))["failure"]:
            await asyncio.sleep(0.02)
    assert (one["state"], one["endedAt"]) == ("READY", None)
    assert one["failure"] == {"permanent": False, "retryAfterSeconds": 77}
    assert TIME.fullmatch(one["nextAttemptAt"])
    tested = (await control.call("POST", f"{CHANNELS}/{channel_id}/test"))[1]["deliveryId"]

    async def refused(delivery_id: str) -> str:
        status, body, _ = await control.call("POST", f"{DELIVERIES}/{delivery_id}/redeliver")
        assert (status, body["error"]["code"]) == (409, "conflict")
        return str(body["error"]["message"])

    assert "not ended" in await refused(waiting)
    assert "Run another test" in await refused(tested)
    await control.call("PATCH", f"{CHANNELS}/{channel_id}", {"enabled": False})
    assert (await until(control, waiting, "CANCELLED"))["detail"] == "The channel was disabled."
    assert "disabled" in await refused(waiting)


@pytest.mark.both_stores
async def test_deliveries_are_listed_newest_first_and_filtered(control: Control, receiver: Receiver) -> None:
    channel_id = await channel(control, receiver)
    ids = [id_ for _ in range(5) for id_ in await queue(control)]
    ended = {"next_at": None, "ended_at": deliveries.c.created_at}
    async with control.checks.database.write() as connection:
        await connection.execute(deliveries.update().values(state=State.DONE.value, **ended))
        await connection.execute(
            deliveries.update().where(deliveries.c.id.in_(ids[1::2])).values(state=State.DEAD.value)
        )

    async def listed(**query: str) -> tuple[list[str], str | None]:
        _, page, _ = await control.call("GET", DELIVERIES, params=query)
        return [one["id"] for one in page["data"]], page["nextCursor"]

    first, cursor = await listed(limit="2")
    second, last = await listed(limit="2", cursor=str(cursor))
    assert [*first, *second, *(await listed(cursor=str(last)))[0]] == sorted(ids, reverse=True)
    for query, expected in (
        ({"state": "DEAD"}, sorted(ids[1::2], reverse=True)),
        ({"channelId": channel_id}, sorted(ids, reverse=True)),
        ({"channelId": "chn_" + "0" * 26}, []),
    ):
        assert await listed(**query) == (expected, None), query
    for wrong, path, code in (
        ({"cursor": str(cursor), "state": "DEAD"}, "query.cursor", "invalid"),
        ({"state": "LOST"}, "query.state", "not_allowed"),
        ({"channelId": "x"}, "query.channelId", "format"),
        ({"channelId": "\0"}, "query.channelId", "format"),
    ):
        status, body, _ = await control.call("GET", DELIVERIES, params=wrong)
        assert (status, [(one["path"], one["code"]) for one in body["error"]["details"]]) == (400, [(path, code)])


async def test_a_test_reaches_its_platform(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, receiver: Receiver
) -> None:
    """A receiver stands in for every platform that is posted to, and there is a real server for mail."""
    async with serving_mail(office := Office()) as port:
        mail: dict[str, Any] = {"smtp_url": f"smtp://127.0.0.1:{port}", "smtp_from": "sluice@example.org"}
        posting: dict[str, Any] = {"chat_a_api": receiver.url("/api"), "pager_url": receiver.url("/v2/enqueue")}
        posting |= {"chat_hosts": ("*",)}
        settings = ControlSettings(**SETTINGS, **mail, **posting, smtp_allow=("127.0.0.0/8",))
        async with serving(migrated_url, tmp_path, settings, tenants=tenants) as control:
            base = receiver.url("").rstrip("/")
            for kind, config, path, status, body in (
                ("chat-a", {"webhookUrl": f"{base}/services/x"}, "/services/x", 200, b"ok"),
                ("chat-a", {"botToken": "xoxb-1", "channel": "#ops"}, "/api/chat.postMessage", 200, b'{"ok":true}'),
                ("chat-b", {"webhookUrl": f"{base}/api/webhooks/1/x"}, "/api/webhooks/1/x", 204, b""),
                ("pager", {"routingKey": "a" * 32}, "/v2/enqueue", 202, b'{"status":"success"}'),
                ("teams", {"workflowUrl": f"{base}/workflows/x?sig=y"}, "/workflows/x", 202, b""),
            ):
                receiver.says(status, body=body)
                receiver.received.clear()
                result = await tried(control, kind, config)
                assert (result["ok"], result["kind"], result["failure"]) == (True, kind, None)
                received, *closing = receiver.received
                assert received.path == path
                assert b"Test message for the channel On call" in re.sub(rb"\\\\", b"", received.body)
                events = [json.loads(one.body)["event_action"] for one in closing]
                assert events == (["resolve"] if kind == "pager" else [])
            result = await tried(control, "email", {"to": ["ada@example.org"]})
    assert (result["ok"], result["detail"], result["failure"]) == (True, "Delivered.", None)
    (envelope,) = office.taken
    assert envelope.rcpt_tos == ["ada@example.org"]
    assert f"<{result['deliveryId']}@example.org>".encode() in bytes(envelope.content or b"")  # type: ignore[arg-type]


async def tried(control: Control, kind: str, config: dict[str, Any]) -> dict[str, Any]:
    made = await create(control, kind, config=config)
    return dict((await control.call("POST", f"{CHANNELS}/{made['id']}/test"))[1])


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.rglob("*") if path.is_file()]


@pytest.mark.both_stores
async def test_configs_are_stored_nowhere_in_plain_text(
    control: Control, receiver: Receiver, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not in tables or files of the database, answers, logs or metrics; a used one neither."""
    password = "hunter2-of-the-channel"
    config = {"url": receiver.url("/" + password), "secret": SECRET, "headers": {"X-Key": password}}
    made = await create(control, "webhook", config=config)
    receiver.says(500, body=password.encode())
    said = [str(made), str(await control.call("POST", f"{CHANNELS}/{made['id']}/test"))]
    said += [
        str((await control.call("GET", path))[1]) for path in (CHANNELS, DELIVERIES, "/orgs/acme/audit", "/metrics")
    ]
    bad = {"url": "https://u:" + password + "@example.org", "secret": "whsec_" + password}
    said.append(str((await control.call("POST", CHANNELS, {"name": "x", "kind": "webhook", "config": bad}))[1]))
    out, err = capfd.readouterr()
    tables = []
    async with control.checks.database.read() as connection:
        for table in ("notification_channels", "deliveries", "delivery_messages", "audit_events"):
            tables += [bytes(str(row), "utf-8") for row in await connection.execute(sa.text(f"SELECT * FROM {table}"))]
    files = contents(tmp_path)
    for secret in (password, SECRET, SECRET.removeprefix("whsec_")):
        assert not [text for text in (*said, out, err) if secret in text]
        assert not [data for data in (*tables, *files) if secret.encode() in data]
    assert receiver.received[0].headers["X-Key"] == password
