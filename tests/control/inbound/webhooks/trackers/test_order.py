"""Deliveries in any order, repeated and redelivered, leave what the latest one says; none has an effect twice."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.auth.tables import projects
from chassis.changes import change_events
from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.inbound.webhooks.trackers.sent import incident, new_integration, send
from tests.control.issues.releases.stored import issue, new_issue
from tests.selection import scaled

BEGIN: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Served(NamedTuple):
    """A service that many examples use."""

    runner: asyncio.Runner
    control: Control
    tracker: dict[str, Any]
    pager: dict[str, Any]


@pytest.fixture
def served(migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        context = serving(migrated_url, tmp_path, ControlSettings(), tenants=tenants, api_rate=0)
        control = runner.run(context.__aenter__())
        tracker = runner.run(new_integration(control, "generic"))
        yield Served(runner, control, tracker, runner.run(new_integration(control, "pagerduty")))
        runner.run(context.__aexit__(None, None, None))


STATES = st.lists(st.sampled_from(["open", "closed"]), min_size=1, max_size=5)
NUMBERS: Final = iter(range(1, 100_000))


@pytest.mark.both_stores
@pytest.mark.sized
@settings(
    max_examples=scaled(6, 300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(states=STATES, data=st.data())
def test_a_ticket_is_as_its_latest_report_says(served: Served, states: list[str], data: st.DataObject) -> None:
    """Sent at once or one after another, some of them twice, some redelivered through the API."""
    order = data.draw(st.permutations([*range(len(states)), *data.draw(st.lists(st.integers(0, len(states) - 1)))]))
    together = data.draw(st.booleans())
    number = next(NUMBERS)
    control, tracker = served.control, served.tracker
    item = {"system": "desk", "id": str(number)}

    def report(position: int) -> dict[str, Any]:
        updated = (BEGIN + timedelta(seconds=position)).isoformat()
        return {"event": "issue.updated", "item": item | {"state": states[position], "updatedAt": updated}}

    async def run() -> None:
        one = await new_issue(control, number)
        created = {"url": f"https://desk.example.com/{number}", "updatedAt": BEGIN.isoformat()} | item
        assert (await send(control, tracker, {"event": "link.created", "issue": one, "item": created}))[0] == 200
        sent = [send(control, tracker, report(position)) for position in order]
        answers = await asyncio.gather(*sent) if together else [await each for each in sent]
        assert {status for status, _ in answers} == {200}
        first = {position: answer for position, (_, answer) in zip(order, answers, strict=True)}
        assert all(first[position] == answer for position, (_, answer) in zip(order, answers, strict=True))
        path = f"/orgs/acme/integrations/{tracker['id']}/deliveries"
        _, page, _ = await control.call("GET", path, params={"limit": str(len(states) + 1)})
        before = await state(one)
        for delivery in page["data"][: 2 if together else 1]:
            again = await control.call("POST", f"{path}/{delivery['id']}/redeliver")
            assert (again[0], again[1]["status"]) == (200, "processed")
        assert await state(one) == before
        assert before[:2] == (states[-1], "resolved" if states[-1] == "closed" else "unresolved")

    async def state(issue_id: str) -> tuple[Any, ...]:
        _, page, _ = await control.call("GET", f"/orgs/acme/projects/web/issues/{issue_id}/links")
        _, entries, _ = await control.call("GET", f"/orgs/acme/projects/web/issues/{issue_id}/activity")
        row = await issue(control, issue_id)
        return page["data"][0]["state"], row.status, row.updated_at, page["data"][0], len(entries["data"])

    served.runner.run(run())


@pytest.mark.both_stores
@pytest.mark.sized
@settings(
    max_examples=scaled(3, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(order=st.lists(st.integers(0, 3), min_size=1, max_size=12), bodies=st.integers(1, 2))
def test_an_incident_is_on_the_time_line_once(served: Served, order: list[int], bodies: int) -> None:
    """Also if PagerDuty sends its event again in another body."""
    control, number = served.control, next(NUMBERS)

    async def count() -> int:
        async with control.checks.database.read() as connection:
            found = sa.select(sa.func.count()).select_from(change_events).join(projects, isouter=True)
            return await connection.scalar(found) or 0

    async def run() -> None:
        before = await count()
        sent = [
            send(control, served.pager, incident(id=f"{number}-{one}", occurred_at=BEGIN.isoformat(), again=n % bodies))
            for n, one in enumerate(order)
        ]
        answers = await asyncio.gather(*sent)
        assert {status for status, _ in answers} == {200}
        assert await count() - before == len(set(order))

    served.runner.run(run())
