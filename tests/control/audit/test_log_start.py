"""Where a chain begins, and that there is one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from control.approvals.notifications import AUDIT_TRACE_ID
from control.audit.record import COMMAND_REQUEST_ID, Actor, record
from tests.control.approvals.office import Office


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
