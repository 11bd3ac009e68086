"""Deliveries over HTTP: listed, shown, sent again; channels of platforms end to end."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from control.channels.delivery_tables import State, deliveries
from control.deliveries.outbox import AllChannels, enqueue
from control.message import Message
from control.settings import ControlSettings
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.channels.conftest import CHANNELS
from tests.control.channels.test_channels import TIME, create
from tests.control.conftest import Control
from tests.control.mail import Office, serving
from tests.control.receiver import SECRET, Receiver

DELIVERIES = "/orgs/acme/deliveries"
FIELDS = [
    "id", "orgId", "channelId", "kind", "type", "subject", "title", "state", "attempts", "detail", "failure",
    "createdAt", "attemptedAt", "nextAttemptAt", "endedAt",
]  # fmt: skip
MISSING = "dlv_" + "0" * 26
MESSAGE = Message(type="approval.requested", subject="apr_1", title="Approve it?")


async def channel(control: Control, receiver: Receiver, *, enabled: bool = True) -> str:
    config = {"url": receiver.url(), "secret": SECRET}
    return str((await create(control, "webhook", config=config, enabled=enabled))["id"])


async def queue(control: Control) -> list[str]:
    async with control.checks.database.write() as connection:
        queued = await enqueue(connection, control.acme.organization.id, AllChannels(control.acme.project.id), MESSAGE)
    return [str(one.delivery_id) for one in queued]


async def shown(control: Control, delivery_id: str) -> dict[str, Any]:
    status, one, _ = await control.call("GET", f"{DELIVERIES}/{delivery_id}")
    assert status == 200
    return dict(one)


async def until(control: Control, delivery_id: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (one := await shown(control, delivery_id))["state"] not in states:
            await asyncio.sleep(0.05)
    return one


async def test_queued_deliveries_are_sent_by_the_process_and_shown(control: Control, receiver: Receiver) -> None:
    channel_id = await channel(control, receiver)
    (id_,) = await queue(control)
    waiting = await shown(control, id_)
    assert list(waiting) == FIELDS
    assert TIME.fullmatch(waiting["nextAttemptAt"])
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
        "createdAt": waiting["createdAt"],
        "attemptedAt": done["attemptedAt"],
        "nextAttemptAt": None,
        "endedAt": done["endedAt"],
    }
    assert TIME.fullmatch(done["endedAt"])
    assert (await control.call("GET", DELIVERIES))[1] == {"data": [done], "nextCursor": None, "hasMore": False}


async def test_a_failed_delivery_shows_its_failure_and_next_attempt(control: Control, receiver: Receiver) -> None:
    receiver.says(503, headers={"Retry-After": "77"})
    await channel(control, receiver)
    (id_,) = await queue(control)
    await receiver.until(1)
    async with asyncio.timeout(10):
        while not (one := await shown(control, id_))["failure"]:
            await asyncio.sleep(0.02)
    assert one["state"] == "READY"
    assert one["failure"] == {"permanent": False, "retryAfterSeconds": 77}
    assert TIME.fullmatch(one["nextAttemptAt"])
    assert one["endedAt"] is None


async def test_a_dead_delivery_is_sent_again_under_its_id(control: Control, receiver: Receiver) -> None:
    receiver.says(403, 204)
    await channel(control, receiver)
    (id_,) = await queue(control)
    dead = await until(control, id_, "DEAD")
    assert dead["failure"] == {"permanent": True, "retryAfterSeconds": None}
    status, again, _ = await control.call("POST", f"{DELIVERIES}/{id_}/redeliver")
    assert (status, again["state"], again["attempts"], again["failure"]) == (202, "READY", 0, None)
    assert (await until(control, id_, "DONE"))["attempts"] == 1
    assert [one.headers["webhook-id"] for one in receiver.received] == [id_, id_]
    actions = [event["action"] for event in (await control.call("GET", "/orgs/acme/audit"))[1]["data"]]
    assert "delivery.redeliver" in actions


async def test_redelivery_has_its_conflicts(control: Control, receiver: Receiver) -> None:
    receiver.says(503)
    channel_id = await channel(control, receiver)
    (waiting,) = await queue(control)
    tested = (await control.call("POST", f"{CHANNELS}/{channel_id}/test"))[1]["deliveryId"]
    for id_, why in ((waiting, "not ended"), (tested, "Run another test")):
        status, body, _ = await control.call("POST", f"{DELIVERIES}/{id_}/redeliver")
        assert (status, body["error"]["code"]) == (409, "conflict")
        assert why in body["error"]["message"]
    await control.call("PATCH", f"{CHANNELS}/{channel_id}", {"enabled": False})
    cancelled = await until(control, waiting, "CANCELLED")
    assert cancelled["detail"] == "The channel was disabled."
    status, body, _ = await control.call("POST", f"{DELIVERIES}/{waiting}/redeliver")
    assert (status, "disabled" in body["error"]["message"]) == (409, True)


async def seed(control: Control, receiver: Receiver, number: int) -> list[str]:
    """Ended deliveries, half of them DEAD."""
    await channel(control, receiver)
    ids = [id_ for _ in range(number) for id_ in await queue(control)]
    async with control.checks.database.write() as connection:
        for position, id_ in enumerate(ids):
            state = State.DEAD if position % 2 else State.DONE
            await connection.execute(
                deliveries.update()
                .where(deliveries.c.id == id_)
                .values(state=state.value, next_at=None, ended_at=sa.literal_column("created_at"))
            )
    return ids


@pytest.mark.parametrize("limit", [2, 100])
@pytest.mark.both_stores
async def test_deliveries_are_listed_newest_first_and_filtered(
    control: Control, receiver: Receiver, limit: int
) -> None:
    ids = await seed(control, receiver, 5)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page, _ = await control.call("GET", DELIVERIES, params={"limit": str(limit)} | cursor)
        seen += [one["id"] for one in page["data"]]
        if not page["hasMore"]:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == sorted(ids, reverse=True)
    _, page, _ = await control.call("GET", DELIVERIES, params={"state": "DEAD"})
    assert {one["state"] for one in page["data"]} == {"DEAD"}
    _, page, _ = await control.call("GET", DELIVERIES, params={"channelId": page["data"][0]["channelId"]})
    assert len(page["data"]) == 5
    _, page, _ = await control.call("GET", DELIVERIES, params={"channelId": "chn_" + "0" * 26})
    assert page["data"] == []


async def test_a_cursor_belongs_to_its_filters(control: Control, receiver: Receiver) -> None:
    await seed(control, receiver, 4)
    cursor = (await control.call("GET", DELIVERIES, params={"limit": "1"}))[1]["nextCursor"]
    assert (await control.call("GET", DELIVERIES, params={"cursor": cursor, "state": "DEAD"}))[0] == 400


@pytest.mark.parametrize(
    ("query", "issue"),
    [
        ({"limit": "0"}, ("query.limit", "too_small")),
        ({"limit": "101"}, ("query.limit", "too_large")),
        ({"cursor": "x" * 501}, ("query.cursor", "too_long")),
        ({"state": "LOST"}, ("query.state", "not_allowed")),
        ({"channelId": "x"}, ("query.channelId", "format")),
        ({"channelId": "\0"}, ("query.channelId", "format")),
    ],
)
async def test_queries_out_of_bounds_are_400(control: Control, query: dict[str, str], issue: tuple[str, str]) -> None:
    status, body, _ = await control.call("GET", DELIVERIES, params=query)
    assert (status, [(one["path"], one["code"]) for one in body["error"]["details"]]) == (400, [issue])


async def test_foreign_and_missing_deliveries_look_alike(control: Control, receiver: Receiver) -> None:
    await channel(control, receiver)
    (id_,) = await queue(control)
    for bad in (MISSING, "x", "%00", id_):
        token = control.globex.token.secret if bad == id_ else None
        base = DELIVERIES.replace("acme", "globex") if bad == id_ else DELIVERIES
        for method, path in (("GET", f"{base}/{bad}"), ("POST", f"{base}/{bad}/redeliver")):
            status, body, _ = await control.call(method, path, token=token)
            assert (status, body["error"]["message"]) == (404, "Not found.")
    assert (await control.call("GET", DELIVERIES.replace("acme", "globex")))[0] == 404


async def test_deliveries_take_the_scopes_of_channels(control: Control, receiver: Receiver) -> None:
    await channel(control, receiver)
    (id_,) = await queue(control)
    for role, read, write in ((Role.BILLING, 403, 403), (Role.VIEWER, 200, 403), (Role.MEMBER, 200, 409)):
        _, token = await new_member_token(control.checks.database, control.acme, role)
        assert (await control.call("GET", DELIVERIES, token=token))[0] == read
        assert (await control.call("GET", f"{DELIVERIES}/{id_}", token=token))[0] == read
        assert (await control.call("POST", f"{DELIVERIES}/{id_}/redeliver", token=token))[0] == write


class TestPlatforms:
    """Every kind of channel that posts, to a receiver in the place of its platform."""

    @pytest.fixture
    async def control_settings(self, receiver: Receiver) -> ControlSettings:
        return ControlSettings(
            max_body_bytes=16_384,
            egress_allow=("127.0.0.0/8",),
            egress_http=True,
            chat_hosts=("*",),
            chat_a_api=receiver.url("/api"),
            pager_url=receiver.url("/v2/enqueue"),
        )

    @pytest.mark.parametrize(
        ("kind", "config", "path", "answer"),
        [
            ("chat-a", {"webhookUrl": "{}/services/x"}, "/services/x", (200, b"ok")),
            ("chat-a", {"botToken": "xoxb-1", "channel": "#ops"}, "/api/chat.postMessage", (200, b'{"ok":true}')),
            ("chat-b", {"webhookUrl": "{}/api/webhooks/1/x"}, "/api/webhooks/1/x", (204, b"")),
            ("pager", {"routingKey": "a" * 32}, "/v2/enqueue", (202, b'{"status":"success"}')),
            ("teams", {"workflowUrl": "{}/workflows/x?sig=y"}, "/workflows/x", (202, b"")),
        ],
    )
    async def test_a_test_reaches_the_platform(
        self,
        control: Control,
        receiver: Receiver,
        kind: str,
        config: dict[str, str],
        path: str,
        answer: tuple[int, bytes],
    ) -> None:
        receiver.says(answer[0], body=answer[1])
        filled = {name: value.replace("{}", receiver.url("").rstrip("/")) for name, value in config.items()}
        made = await create(control, kind, config=filled)
        _, result, _ = await control.call("POST", f"{CHANNELS}/{made['id']}/test")
        assert (result["ok"], result["kind"], result["failure"]) == (True, kind, None)
        received, *closing = receiver.received
        assert received.path == path
        assert b"Test message for the channel On call" in re.sub(rb"\\\\", b"", received.body)
        assert [json.loads(one.body)["event_action"] for one in closing] == (["resolve"] if kind == "pager" else [])


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


class TestMail:
    """A channel of e-mail, to a real server."""

    @pytest.fixture
    async def office(self) -> AsyncIterator[tuple[Office, int]]:
        async with serving(office := Office()) as port:
            yield office, port

    @pytest.fixture
    async def control_settings(self, office: tuple[Office, int]) -> ControlSettings:
        return ControlSettings(
            smtp_url=f"smtp://127.0.0.1:{office[1]}", smtp_from="sluice@example.org", smtp_allow=("127.0.0.0/8",)
        )

    async def test_a_test_arrives_as_mail(self, control: Control, office: tuple[Office, int]) -> None:
        made = await create(control, "email")
        _, result, _ = await control.call("POST", f"{CHANNELS}/{made['id']}/test")
        assert (result["ok"], result["detail"], result["failure"]) == (True, "Delivered.", None)
        (envelope,) = office[0].taken
        assert envelope.rcpt_tos == ["ada@example.org"]
        assert f"<{result['deliveryId']}@example.org>".encode() in bytes(envelope.content or b"")  # type: ignore[arg-type]
