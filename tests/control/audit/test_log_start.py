"""Where a chain begins, and that there is one."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from structlog.testing import capture_logs

from chassis.db import migrations
from chassis.db.database import Database, migration_engine
from control.approvals.expiry import AUDIT_TRACE_ID
from control.audit import repository, verify
from control.audit.chain import Event
from control.audit.record import COMMAND_REQUEST_ID, Actor, record
from control.audit.repository import Wanted
from control.audit.verify import VerifyResult
from tests.control.approvals.office import Office


async def found(url: str) -> list[tuple[VerifyResult, list[Event]]]:
    database = Database(url)
    await database.start()
    try:
        return [
            (
                await verify.verify_stored(database, id_, slug, {}),
                [event async for chunk in repository.iter_chunks(database, id_, Wanted()) for event in chunk],
            )
            async for id_, slug in verify.iter_chains(database)
        ]
    finally:
        await database.close()


@pytest.mark.both_stores
def test_existing_organizations_get_a_first_event(database_url: str) -> None:
    with migrations._connect(database_url) as connection:
        config = migrations._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    engine = migration_engine(database_url)
    with engine.begin() as connection:
        for slug in ("acme", "globex"):
            values = "(:id, :slug, 'x', '2026-11-20T15:17:03.000Z', 0)"
            insert = f"INSERT INTO organizations (id, slug, name, created_at, monthly_items) VALUES {values}"
            connection.execute(sa.text(insert), {"id": f"org_{slug}", "slug": slug})
    engine.dispose()
    migrations.migrate(database_url)
    for checked, events in asyncio.run(found(database_url)):
        assert (checked.first_break, checked.events) == (None, 1)
        assert [(one.action, one.object_id, one.request_id) for one in events] == [
            ("audit.begin", f"org_{checked.org}", "(migration)")
        ]


async def test_request_ids_cannot_imitate_the_command_id(office: Office) -> None:
    for mark in (COMMAND_REQUEST_ID, AUDIT_TRACE_ID, "(migration)"):
        _, _, headers = await office.call("GET", "/orgs/acme/approval-requests", headers={"X-Request-Id": mark})
        assert headers["X-Request-Id"] != mark


async def test_clock_skew_is_logged_once(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    times = [now, now + timedelta(seconds=60), now, now + timedelta(hours=1), now, now]

    class Skewed(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:  # noqa: ARG003  # as the clock is called
            return times.pop(0)

    monkeypatch.setattr("control.audit.record.datetime", Skewed)
    async with office.checks.database.write() as connection:
        with capture_logs() as logs:
            while times:
                await record(connection, Actor(office.acme.organization.id), "test.it", "x", {}, "r")
    [warning] = [one for one in logs if one["event"].startswith("clock skew")]
    assert (warning["log_level"], warning["error"]) == (
        "warning",
        "the last event is 3600 s ahead of this host's clock",
    )
