"""Keys that a project exempts from scrubbing by key: what is stored, and what a replay stores after a change."""

from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from chassis.auth.guards import AuthGuards
from chassis.auth.tables import projects
from chassis.clickhouse import ClickHouse
from control.identity.organizations import organization_store
from gateway.inserts import pending_requests
from gateway.inserts.pending_requests import PendingRequest
from gateway.journal import Entry
from tests.gateway.conftest import Gateway, RecordingStore, Rows
from tests.gateway.ingest.rig import AWAY, Start, all_stored
from tests.gateway.otlp import JSON, log, logs, span, traces, traces_json

Exempt = Callable[..., Awaitable[None]]
KEY, OTHER = "shop.token", "cart.secret"


@pytest.fixture
def exempt(checks: AuthGuards) -> Exempt:
    """Exempt these keys in the project `shop`, and no others."""

    async def exempt(*keys: str) -> None:
        async with checks.database.write() as connection:
            org_id = await connection.scalar(sa.select(projects.c.org_id).where(projects.c.slug == "shop"))
            project = await organization_store.change_project(connection, str(org_id), "shop", exempt_keys=keys)
        assert project is not None
        checks.project_keys.invalidate_project(project.id)  # as the control service does

    return exempt


async def send(gateway: Gateway, number: int, *, project: int = 0) -> None:
    """Export a span with this number and a value under each key."""
    one = span(number, more={KEY: "t-1", OTHER: "s-1"})
    assert await gateway.statuses(traces(one), project=project) == [200]


async def stored_values(rows: Rows) -> list[tuple[int, str, str]]:
    """Of each span its number and the stored values of the two keys."""
    values = f"attributes['{KEY}'], attributes['{OTHER}']"
    found = await rows(f"SELECT reinterpretAsUInt64(reverse(span_id)), {values} FROM spans ORDER BY 1")
    return [(int(number), str(one), str(other)) for number, one, other in found]


async def test_values_of_an_exempt_key_are_stored_as_sent(
    clickhouse: ClickHouse, rows: Rows, start: Start, exempt: Exempt
) -> None:
    gateway = await start(clickhouse)
    await exempt(KEY)
    for project in (0, 1):
        await send(gateway, 1 + project, project=project)
    await exempt(OTHER)
    await send(gateway, 3)
    await exempt()
    await send(gateway, 4)
    await all_stored(gateway, 4)
    assert await stored_values(rows) == [
        (1, "t-1", "[scrubbed]"),
        (2, "[scrubbed]", "[scrubbed]"),
        (3, "[scrubbed]", "s-1"),
        (4, "[scrubbed]", "[scrubbed]"),
    ]


async def test_an_exemption_is_for_the_whole_key_as_it_is_written_and_for_no_number_of_a_card(
    clickhouse: ClickHouse, rows: Rows, start: Start, exempt: Exempt
) -> None:
    gateway = await start(clickhouse)
    await exempt(KEY)
    sent = {KEY: "t-1 4111 1111 1111 1111", "Shop.token": "t-2", f"{KEY}.x": "t-3", f"my.{KEY}": "t-4", "token": "t-5"}
    one = span(1, more=sent)
    assert (await gateway.post("/v1/traces", traces(one))).status == 200
    assert (await gateway.post("/v1/traces", traces_json(one), {"Content-Type": JSON})).status == 200
    assert (await gateway.post("/v1/logs", logs(log(1, more=sent)))).status == 200
    await all_stored(gateway, 3)
    values = ", ".join(f"attributes['{key}']" for key in sent)
    expected = ("t-1 [scrubbed]", *["[scrubbed]"] * 4)
    assert await rows(f"SELECT {values} FROM spans") == [expected, expected]
    assert await rows(f"SELECT {values} FROM logs") == [expected]


async def test_a_replay_stores_what_the_exemptions_at_the_time_of_the_request_say(
    start: Start,
    clickhouse: ClickHouse,
    rows: Rows,
    exempt: Exempt,
    crash: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    await exempt(KEY)
    await send(gateway, 1)
    await exempt(KEY, OTHER)
    await send(gateway, 2)
    await exempt()
    for number in (3, 4):
        await send(gateway, number)
    await exempt(OTHER)
    replayed: list[tuple[str, ...]] = []
    decode_entry = pending_requests.decode_entry

    def decode(entry: Entry, *, allow_large_json: bool = True) -> PendingRequest:
        replayed.append(entry.request.policy.exempt_keys)
        return decode_entry(entry, allow_large_json=allow_large_json)

    monkeypatch.setattr(pending_requests, "decode_entry", decode)
    second = await start(clickhouse, crash("image"))
    await all_stored(second, 4)
    assert (replayed, second.metric("redecoded_differences_total")) == ([(KEY,), (KEY, OTHER), (), ()], 0)
    assert await stored_values(rows) == [
        (1, "t-1", "[scrubbed]"),
        (2, "t-1", "s-1"),
        (3, "[scrubbed]", "[scrubbed]"),
        (4, "[scrubbed]", "[scrubbed]"),
    ]
