"""What happens to issues without an occurrence, and how they read ClickHouse."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from chassis.clickhouse import ClickHouse
from chassis.clickhouse.storage_order import OrderedTable, Position, StoredRowList
from chassis.db.database import Database
from chassis.erasures import repository as erasures
from chassis.erasures.repository import NewErasure
from chassis.erasures.tables import ErasureKind, ErasureState
from chassis.erasures.tables import erasures as erasure_rows
from chassis.issues import IssueStatus
from chassis.source_maps.resolver import SourceMaps
from control.issues import lifecycle
from control.issues.counting import occurrences as details_module
from control.issues.counting.occurrences import COLUMNS, Details, choose_rows, details, read_occurrence_texts
from control.issues.counting.project_state import IssueUrls
from control.issues.counting.task import IssueHousekeeping
from control.issues.lifecycle import Ignoring
from control.issues.tables import ActivityKind, issue_activity, issue_projects
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from proto.grouping.fingerprint import fingerprint as fingerprint_of
from proto.grouping.version_1 import fingerprint_version_1
from proto.otlp.native import write_block
from proto.stack_traces import in_app_frames
from proto.storage.tables import ERROR_OCCURRENCES
from tests.control.code.source_maps.uploaded import MINIFIED, RELEASE, SHOWN, document, upload
from tests.control.conftest import Control
from tests.control.issues.conftest import MINUTE, START, Ledger, fingerprint

DAY = timedelta(days=1)
TRACE = 'Traceback (most recent call last):\n  File "/app/shop/cart.py", line 9, in add\n    int(sku)\nValueError: x'


def housekeeping(ledger: Ledger, clickhouse: ClickHouse | None = None, retention_days: int = 0) -> IssueHousekeeping:
    return IssueHousekeeping(
        ledger.database, clickhouse, IssueUrls(), retention_days=retention_days, now=lambda: ledger.now
    )


async def store(
    clickhouse: ClickHouse,
    project_id: int,
    error: int | bytes,
    message: str,
    batch: int,
    stack: str = "",
    *,
    release: str = "1.0.0",
    version: int = FINGERPRINT_VERSION,
) -> None:
    """One stored occurrence of an error, which has a number or a fingerprint."""
    print_ = fingerprint(error) if isinstance(error, int) else error
    at = int(START.timestamp()) * 10**9 + batch
    row = (project_id, at, print_, "ValueError", message, stack, "span", b"t" * 16, b"s" * 8)
    block = write_block(ERROR_OCCURRENCES, [(*row, "checkout", "production", release, batch, 0, version)])
    await clickhouse.insert(ERROR_OCCURRENCES.name, ERROR_OCCURRENCES.column_names, block, token=f"test:{batch}")


async def stored_rows(clickhouse: ClickHouse) -> StoredRowList:
    table = OrderedTable(clickhouse, ERROR_OCCURRENCES.name, COLUMNS)
    return await table.read(Position(0, 0, 0), await table.settled_time() + 10**9, 10)


@pytest.mark.both_stores
async def test_ignoring_that_is_over_is_recorded_once(ledger: Ledger) -> None:
    await ledger.occur()
    async with ledger.database.write() as connection:
        issue = await ledger.issue()
        await lifecycle.set_ignored(connection, issue, Ignoring(ledger.now + MINUTE), now=ledger.now, by=None)
    await housekeeping(ledger).run_once()
    assert (await ledger.issue()).status is IssueStatus.IGNORED
    ledger.pass_by(MINUTE)
    assert (await ledger.issue()).status_at(ledger.now) is IssueStatus.UNRESOLVED
    for _ in range(2):
        await housekeeping(ledger).run_once()
    assert (await ledger.issue()).status is IssueStatus.UNRESOLVED
    async with ledger.database.read() as connection:
        kinds = (await connection.scalars(sa.select(issue_activity.c.kind).order_by(issue_activity.c.id))).all()
    assert kinds.count(ActivityKind.IGNORE_ENDED) == 1


@pytest.mark.both_stores
async def test_what_was_not_seen_for_long_is_deleted_with_what_was_merged_into_it(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        await ledger.occur(number)
    await ledger.merge(1, 2)
    ledger.pass_by(60 * DAY)
    await ledger.occur(3, at=START)  # late, and stored now
    await housekeeping(ledger, retention_days=90).run_once()
    assert len(await ledger.all()) == 3
    ledger.pass_by(31 * DAY)
    await housekeeping(ledger).run_once()
    assert len(await ledger.all()) == 3, "0 days: for ever"
    await housekeeping(ledger, retention_days=90).run_once()
    assert [issue.fingerprint for issue in await ledger.all()] == [fingerprint(3)]
    async with ledger.database.read() as connection:
        state = (await connection.execute(sa.select(issue_projects))).one()
    assert (state.issues, state.last_number) == (1, 3)
    await ledger.occur(1)
    assert (await ledger.issue(1)).number == 4, "numbers are not given again"


async def test_details_are_those_of_the_first_occurrence(ledger: Ledger, clickhouse: ClickHouse) -> None:
    project = ledger.project_id
    await store(clickhouse, project, 1, "second", 2)
    await store(clickhouse, project, 1, "first\nand more", 1, TRACE)
    await store(clickhouse, project, 2, "another", 3)
    await store(clickhouse, project + 1, 1, "of another project", 5)
    long = "chatter\n" * 5_000 + TRACE + "chatter\n" * 2_000
    await store(clickhouse, project, 3, "", 4, long)
    rows = await stored_rows(clickhouse)
    keys = [(project, fingerprint(number)) for number in (1, 2, 3)]
    found = await read_occurrence_texts(clickhouse, choose_rows(rows, (), keys))
    assert {**found.details, keys[2]: found.details[keys[2]].culprit} == {
        keys[0]: Details("ValueError", "ValueError: first", "shop/cart.py:add"),
        keys[1]: Details("ValueError", "ValueError: another", None),
        keys[2]: details("ValueError", "", long).culprit,
    }
    assert found.others[keys[2]] == ((project, fingerprint_version_1("ValueError", "", long)),), "it is read whole"
    assert [len(choose_rows(rows, every, keys)) for every in ((), keys[:1])] == [3, 4]


async def test_only_the_current_rules_know_the_frames_of_the_sources(control: Control, clickhouse: ClickHouse) -> None:
    """So an error is one issue after the upgrade, also if a gateway of the release before grouped what was minified."""
    assert (await upload(control, document()))[0] == 201
    source_maps = SourceMaps(control.checks.database, CollectorRegistry())
    await source_maps.refresh()
    type_, project = "ValueError", control.acme.project.id
    resolved, sent = fingerprint_of(type_, "no", SHOWN), fingerprint_version_1(type_, "no", MINIFIED)
    unresolved = fingerprint_of(type_, "no", MINIFIED)
    assert len({resolved, sent, unresolved}) == 3
    for batch, (print_, version) in enumerate([(sent, 1), (resolved, FINGERPRINT_VERSION)], 1):
        await store(clickhouse, project, print_, "no", batch, MINIFIED, release=RELEASE, version=version)
    rows = await stored_rows(clickhouse)
    keys = [(project, sent), (project, resolved)]
    found = await read_occurrence_texts(clickhouse, choose_rows(rows, keys, ()), source_maps)
    assert found.others == {keys[0]: (keys[1],), keys[1]: (keys[0],)}
    assert {one.culprit for one in found.details.values()} == {"src/cart.ts:addLine"}
    without = await read_occurrence_texts(clickhouse, choose_rows(rows, keys, ()))
    assert without.others[keys[0]] == ((project, unresolved),)


async def test_a_page_waits_for_source_maps_once(
    ledger: Ledger, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = SourceMaps(ledger.database)
    waits: list[float] = []
    asked: list[tuple[int, float]] = []

    def deadline() -> float:
        waits.append(len(waits) + 1.0)
        return waits[-1]

    monkeypatch.setattr(maps, "deadline", deadline)
    monkeypatch.setattr(maps, "of_project", lambda project_id, deadline: asked.append((project_id, deadline)))
    for number in range(1, 5):
        await store(clickhouse, ledger.project_id + number % 2, number, "no", number, f"{TRACE} {number}")
    rows = await stored_rows(clickhouse)
    keys = [(row.values[0], row.values[1]) for row in rows]
    found = await read_occurrence_texts(clickhouse, choose_rows(rows, (), keys), maps)
    assert set(found.details) == {(key[0], bytes(key[1])) for key in keys}
    assert (waits, sorted(asked)) == ([1.0], [(ledger.project_id, 1.0), (ledger.project_id + 1, 1.0)])


async def test_a_stack_trace_that_cannot_be_read_stops_no_counting(
    ledger: Ledger, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stacktrace: str) -> list[str]:
        if "hostile" in stacktrace:
            raise RecursionError
        return in_app_frames(stacktrace)

    monkeypatch.setattr(details_module, "in_app_frames", fail)
    for number, trace in enumerate([TRACE, f"{TRACE}hostile"], 1):
        await store(clickhouse, ledger.project_id, number, "no", number, trace)
    rows = await stored_rows(clickhouse)
    keys = [(row.values[0], row.values[1]) for row in rows]
    found = await read_occurrence_texts(clickhouse, choose_rows(rows, (), keys))
    assert [found.details[key].culprit is None for key in sorted(keys)] == [False, True]
    assert len({found.details[key].title for key in keys}) == 1


async def test_titles_of_erased_occurrences_are_cleared(
    ledger: Ledger, clickhouse: ClickHouse, database: Database
) -> None:
    project = ledger.project_id
    for number in (1, 2):
        await ledger.occur(number, details=Details("ValueError", "ValueError: ada@example.org", "shop/cart.py:add"))
    await ledger.occur(3, details=Details(None, "ada@example.org", None))
    await store(clickhouse, project, 1, "left", 1)  # the others were erased
    await housekeeping(ledger, clickhouse).run_once()
    assert (await ledger.issue(1)).title == "ValueError: ada@example.org", "nothing was erased yet"
    for state in (ErasureState.COMPLETED, ErasureState.RUNNING):
        await erasure(database, ledger, state)
    await housekeeping(ledger, clickhouse).run_once()
    assert (await ledger.issue(1)).title != "ValueError: left", "a page may still be on its way"
    ledger.pass_by(MINUTE)
    await housekeeping(ledger, clickhouse).run_once()
    titles = [issue.title for issue in await ledger.all()]
    assert titles == ["ValueError: left", "ValueError", "(erased)"]
    assert [issue.count for issue in await ledger.all()] == [1, 1, 1]
    await ledger.occur(4, details=Details(None, "new", None))
    await housekeeping(ledger, clickhouse).run_once()
    assert (await ledger.issue(4)).title == "new", "once for each erasure"
    async with database.write() as connection:  # the one that was requested last is completed last
        done = {"state": ErasureState.COMPLETED.value, "erased_at": START, "completed_at": START}
        await connection.execute(erasure_rows.update().values(done))
    await housekeeping(ledger, clickhouse).run_once()
    assert (await ledger.issue(4)).title == "(erased)"


async def erasure(database: Database, ledger: Ledger, state: ErasureState) -> None:
    new = NewErasure(
        kind=ErasureKind.FILTER,
        org_id=ledger.tenant.organization.id,
        project_id=ledger.project_id,
        project_slug="web",
        filters=[],
        purged=True,
    )
    async with database.write() as connection:
        made = await erasures.create(connection, new, ledger.now)
        done: dict[str, object] = {"state": state.value}
        if state is ErasureState.COMPLETED:
            done |= {"erased_at": ledger.now, "completed_at": ledger.now}
        await connection.execute(erasure_rows.update().where(erasure_rows.c.id == made.id).values(done))
