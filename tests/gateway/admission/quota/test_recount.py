"""The count of what the telemetry store has, on both engines; the relational store is a file here."""

from pathlib import Path
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse, StoreUnavailable
from chassis.db.database import Database
from control.identity.organizations import organization_store
from gateway.admission import quota_sync
from gateway.admission.quota_sync import RECOUNT_INTERVAL, RECOUNT_LAG_S, Recounter
from gateway.metrics import OutcomeSums
from proto.storage.tables import INGEST_OUTCOMES
from tests.gateway.admission.quota.conftest import NOW_S, Process, Shared, month


@pytest.fixture
def migrated_url(migrated_file: Path, tmp_path: Path) -> str:
    """One relational store for both telemetry engines; what this one does there is tested on both elsewhere."""
    (tmp_path / "sluice.db").write_bytes(migrated_file.read_bytes())
    return f"sqlite:///{tmp_path / 'sluice.db'}"


@pytest.fixture
async def projects(database: Database, org: str) -> list[int]:
    """Two of the organization, and one of another."""
    async with database.write() as connection:
        other = await organization_store.create_organization(connection, "globex", "Globex")
        return [
            (await organization_store.create_project(connection, owner, slug, slug.title())).id
            for owner, slug in ((org, "shop"), (org, "app"), (other.id, "shop"))
        ]


@pytest.fixture
def telemetry(unexpiring: ClickHouse) -> ClickHouse:
    return unexpiring


async def store(telemetry: ClickHouse, at_s: float, *counts: tuple[int, str, int]) -> None:
    """Rows of `ingest_outcomes` of one time: project, outcome, items."""
    sums = OutcomeSums()
    for project, outcome, items in counts:
        sums.add((project, "traces", outcome, ""), items, 1, 1)
    block = sums.block(1, round(at_s * 1_000))
    await telemetry.insert(block.table, INGEST_OUTCOMES.column_names, block.pieces, token=str(at_s))


def recounter(one: Process, shared: Shared, reader: Any) -> Recounter:
    return Recounter(one.accounts, shared.database, reader, one.counted, one.clock.seconds)


async def test_the_record_is_raised_to_the_accepted_items_of_the_months_settled_part(
    shared: Shared, telemetry: ClickHouse, projects: list[int]
) -> None:
    shop, app, foreign = projects
    begins = month().begins
    await store(telemetry, begins - 0.001, (shop, "accepted", 1))
    await store(telemetry, begins, (shop, "accepted", 20), (app, "accepted", 300), (foreign, "accepted", 4_000))
    await store(telemetry, NOW_S - 3_600, (shop, "rejected", 50_000), (shop, "refused", 0), (app, "accepted", 600_000))
    await store(telemetry, NOW_S - RECOUNT_LAG_S, (shop, "accepted", 7_000_000))
    one = shared.process()
    one.accept(shared.org, 5)
    await recounter(one, shared, telemetry).recount_due()
    assert await shared.known(one) == (600_325, 600_320)
    await one.recorder.sync()
    assert await shared.known(one) == (600_325, 600_325)


async def test_it_is_never_lowered(shared: Shared, telemetry: ClickHouse, projects: list[int]) -> None:
    """A count may lack what expired, and what is not stored yet."""
    await store(telemetry, NOW_S - 3_600, (projects[0], "accepted", 10))
    one = shared.process()
    one.accept(shared.org, 11)
    await one.recorder.sync()
    await recounter(one, shared, telemetry).recount_due()
    assert await shared.known(one) == (11, 11)


class Counting:
    """A reader, and how often it was asked."""

    def __init__(self, telemetry: ClickHouse) -> None:
        self._telemetry = telemetry
        self.asked = 0

    async def query(self, *what: Any, **how: Any) -> Any:
        self.asked += 1
        return await self._telemetry.query(*what, **how)


async def test_one_of_all_processes_counts_and_again_after_a_while(
    shared: Shared, telemetry: ClickHouse, projects: list[int]
) -> None:
    reader = Counting(telemetry)
    processes = [shared.process() for _ in range(3)]
    counters = [recounter(one, shared, reader) for one in processes]

    async def rounds() -> int:
        for one, counter in zip(processes, counters, strict=True):
            one.account(shared.org)
            await counter.recount_due()
        return await shared.recorded()

    assert (await rounds(), reader.asked) == (0, 1)
    await store(telemetry, NOW_S - 3_600, (projects[0], "accepted", 10))
    assert (await rounds(), reader.asked) == (0, 1), "it is not time yet"
    shared.clock.s += RECOUNT_INTERVAL.total_seconds()
    assert (await rounds(), reader.asked) == (10, 2)


async def test_a_store_that_is_away_costs_the_count_and_nothing_else(shared: Shared, projects: list[int]) -> None:
    class Away:
        async def query(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("away")

    one = shared.process()
    one.accept(shared.org, 5)
    await recounter(one, shared, Away()).recount_due()
    assert (one.failures("clickhouse"), one.used(shared.org)) == (1.0, 5)
    await shared.database.close()
    shared.clock.s += RECOUNT_INTERVAL.total_seconds()
    await recounter(one, shared, Away()).recount_due()
    assert (one.failures("database"), one.used(shared.org)) == (1.0, 5)


async def test_an_organization_of_many_projects_is_counted_in_several_statements(
    shared: Shared, telemetry: ClickHouse, projects: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_sync, "PROJECTS_PER_QUERY", 1)
    await store(telemetry, NOW_S - 3_600, (projects[0], "accepted", 10), (projects[1], "accepted", 5))
    one = shared.process()
    one.account(shared.org)
    await recounter(one, shared, telemetry).recount_due()
    assert await shared.recorded() == 15
