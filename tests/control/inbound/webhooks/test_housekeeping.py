"""What inbound webhooks leave behind is deleted in time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import new_id
from control.inbound.integrations.tables import inbound_deliveries
from control.inbound.webhooks import task
from control.inbound.webhooks.platform_events import platform_events
from control.inbound.webhooks.task import WebhookHousekeeping
from tests.control.conftest import Control
from tests.control.inbound.webhooks.trackers.sent import new_integration

NOW = datetime.now(UTC)  # the task of the service runs as well

pytestmark = pytest.mark.both_stores


async def stored(control: Control, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> list[Any]:
    async with control.checks.database.read() as connection:
        return list((await connection.execute(sa.select(column).where(*where).order_by(column))).scalars())


async def insert(control: Control, rows: list[dict[str, Any]]) -> None:
    async with control.checks.database.write() as connection:
        await connection.execute(inbound_deliveries.insert(), rows)


async def test_what_is_old_is_deleted(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "BATCH", 2)
    made, org_id = await new_integration(control, "generic"), control.acme.organization.id
    ages = {"new": timedelta(hours=23), "day": timedelta(hours=25), "month": timedelta(days=29)}
    ages |= {f"old{number}": timedelta(days=31) for number in range(5)}
    events: list[dict[str, Any]] = [
        {"source": source, "event_id": name, "result": {}, "received_at": NOW - age}
        for source in ("chat-a", "chat-b", "payments")
        for name, age in ages.items()
    ]
    async with control.checks.database.write() as connection:
        rows = [delivery(org_id, made["id"], name, NOW - age) for name, age in ages.items()]
        await connection.execute(inbound_deliveries.insert(), rows)
        await connection.execute(platform_events.insert(), events)
    for _ in range(2):
        await WebhookHousekeeping(control.checks.database, now=lambda: NOW).run_once()
        assert await stored(control, inbound_deliveries.c.delivery_key) == ["day", "month", "new"]
        assert await stored(control, platform_events.c.event_id) == ["day", "month", "new", "new", "new"]


async def test_an_integration_keeps_so_many_deliveries(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "BATCH", 2)
    monkeypatch.setattr(task, "MAX_EVENTS", 6)
    monkeypatch.setattr(task, "MAX_BODIES", 3)
    busy, other = [await new_integration(control, "generic") for _ in range(2)]
    org_id = control.acme.organization.id
    ids = sorted(new_id("ind") for _ in range(13))
    rows = [delivery(org_id, busy["id"], str(n), NOW) | {"id": ids[n]} for n in range(10)]
    rows += [delivery(org_id, other["id"], str(n), NOW) | {"id": ids[n]} for n in range(10, 13)]
    await insert(control, rows)
    for _ in range(2):
        await WebhookHousekeeping(control.checks.database, now=lambda: NOW).run_once()
        assert await stored(control, inbound_deliveries.c.id) == ids[4:]
        assert await stored(control, inbound_deliveries.c.id, inbound_deliveries.c.body.is_not(None)) == ids[7:]


async def test_an_organization_keeps_so_many_bytes_of_bodies(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of all its integrations."""
    monkeypatch.setattr(task, "BATCH", 2)
    monkeypatch.setattr(task, "MAX_BODY_BYTES", 250)
    one, other = [await new_integration(control, "generic") for _ in range(2)]
    acme, globex = control.acme.organization.id, control.globex.organization.id
    ids = sorted(new_id("ind") for _ in range(10))
    rows = [
        delivery(acme, (one, other)[n % 2]["id"], str(n), NOW) | {"id": ids[n], "body": b"x" * 50} for n in range(8)
    ]
    rows += [delivery(globex, one["id"], str(n), NOW) | {"id": ids[n], "body": b"x" * 125} for n in (8, 9)]
    await insert(control, rows)
    for _ in range(2):
        await WebhookHousekeeping(control.checks.database, now=lambda: NOW).run_once()
        assert await stored(control, inbound_deliveries.c.id) == ids
        assert await stored(control, inbound_deliveries.c.id, inbound_deliveries.c.body.is_not(None)) == ids[3:]


def delivery(org_id: str, integration_id: str, key: str, received_at: datetime) -> dict[str, Any]:
    return {
        "id": new_id("ind"),
        "org_id": org_id,
        "integration_id": integration_id,
        "delivery_key": key,
        "event": "ping",
        "status": "processed",
        "result": {},
        "body": b"x",
        "attempts": 1,
        "received_at": received_at,
        "processed_at": received_at,
    }
