"""Storage order: nothing is skipped and nothing read twice, whatever is late, crashes, or has a wrong clock."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from chassis.clickhouse import ClickHouse, QueryTooLarge, StoreUnavailable, migrations, storage_order
from chassis.clickhouse.storage_order import (
    DISTANCE_US,
    START,
    Checkpoint,
    OrderedTable,
    Position,
    StorageOrderReader,
    StoredRow,
    StoredRowList,
)
from chassis.clickhouse.stored_time import CLOCK_SQL, INSERT_COMMENT, ClockReading, StoredTimeFloor, floor_of
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from proto.otlp.native import write_block
from proto.storage.tables import ERROR_OCCURRENCES, FIRST_REBUILT_ROW
from tests.chassis.clickhouse.storage_world import EPOCH_S, US, ModelTable, run_schedules
from tests.logs import captured_log

SCHEDULES = 5_000
SMOKE = 200
NOW_US = int(EPOCH_S) * US


async def test_random_schedules() -> None:
    await run_schedules(range(SMOKE))


@pytest.mark.long
async def test_every_schedule() -> None:
    await run_schedules(range(SCHEDULES))


# --- the floor of an insert ------------------------------------------------------------------------------------------


class Clocks:
    """ClickHouse's clock, the latest row of its tables, and a monotonic clock of the process that inserts."""

    def __init__(self) -> None:
        self.now_us, self.latest_us, self.monotonic_s, self.readings = NOW_US, 0, 1_000.0, 0

    def read(self) -> ClockReading:
        self.readings += 1
        return ClockReading(self.now_us, self.latest_us)

    def pass_time(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.now_us += int(seconds * US)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def floor(clocks: Clocks) -> Callable[[], int]:
    """The floor of an insert that starts now."""
    stored_time_floor = StoredTimeFloor(lambda: clocks.monotonic_s)

    def floor_us() -> int:
        found = floor_of(stored_time_floor.insert_comment(clocks.read))
        assert found is not None
        return found

    return floor_us


def test_a_floor_follows_the_clock_of_clickhouse_and_reads_it_seldom(clocks: Clocks, floor: Callable[[], int]) -> None:
    assert floor() == NOW_US
    clocks.pass_time(14.5)
    assert floor() == NOW_US + 14_500_000
    assert clocks.readings == 1
    clocks.pass_time(0.5)
    clocks.now_us -= 50_000  # it runs a little slower
    assert floor() == clocks.now_us
    assert clocks.readings == 2


def test_a_floor_stays_where_the_clock_has_gone_back(clocks: Clocks, floor: Callable[[], int]) -> None:
    floor()
    clocks.pass_time(15.0)
    noticed = clocks.now_us
    clocks.now_us -= 60 * US
    with captured_log() as events:
        assert floor() == noticed
        clocks.pass_time(30.0)
        assert floor() == noticed
    assert events.getvalue().count("clock has jumped back") == 1
    assert '"seconds": 60.0' in events.getvalue()
    clocks.pass_time(31.0)
    assert floor() == clocks.now_us == noticed + US


def test_a_process_that_starts_after_a_step_back_is_after_the_latest_row(
    clocks: Clocks, floor: Callable[[], int]
) -> None:
    clocks.latest_us = NOW_US + 3_600 * US
    with captured_log() as events:
        assert floor() == clocks.latest_us + 1
    assert '"seconds": 3600.0' in events.getvalue()


def test_other_comments_have_no_floor() -> None:
    for comment in ("", "sluice:3f", INSERT_COMMENT, f"{INSERT_COMMENT}1.5", f"{INSERT_COMMENT}x.000001"):
        assert floor_of(comment) is None


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_survives_its_text() -> None:
    checkpoint = Checkpoint(
        Position(NOW_US, 2**63 - 1, 2**32 - 1), {(5, 20_000): storage_order.BlockProgress(NOW_US, 7)}
    )
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint
    assert Checkpoint.decode(Checkpoint().encode()) == Checkpoint(START, {})


async def test_rebuilt_rows_are_skipped_where_the_rows_that_they_replace_were_delivered() -> None:
    """Rebuilt rows have other numbers. Of block 1 the first rows were delivered, block 2 comes rebuilt and twice."""
    rebuilt, time = FIRST_REBUILT_ROW, NOW_US
    stored = [Position(time, 1, 0), Position(time, 1, 1)]
    stored += [Position(time + US, 1, rebuilt + row) for row in (4, 9)]
    stored += [Position(time + after * US, 2, rebuilt + row) for after in (1, 2) for row in (0, 7)]

    class Repaired(ModelTable):
        async def settled_time(self) -> int:
            return NOW_US + 100 * US

        async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
            found = [StoredRow(one, 20_000, ()) for one in stored if after < one and one.stored_us <= until_us]
            return StoredRowList(found[:limit])

        async def first_time(self, after_us: int, _until_us: int) -> int | None:
            return next((one.stored_us for one in stored if one.stored_us > after_us), None)

    for limit in (1, 2, 100):
        reader, checkpoint, rows = StorageOrderReader(Repaired()), Checkpoint(), []
        while True:
            page = await reader.read(checkpoint, limit=limit)
            checkpoint = Checkpoint.decode(page.checkpoint.encode())
            rows += [one.position for one in page.rows]
            if page.is_last:
                break
        assert rows == [*stored[:2], *stored[4:6]]


async def test_a_checkpoint_remembers_a_bounded_number_of_blocks() -> None:
    class Endless(ModelTable):
        async def settled_time(self) -> int:
            return NOW_US + 10_000 * US

        async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
            first = max(after.stored_us, NOW_US) + US
            times = range(first, min(until_us + 1, first + limit * US), US)
            return StoredRowList(StoredRow(Position(time, time, 0), 20_000, ()) for time in times)

        async def first_time(self, after_us: int, _until_us: int) -> int | None:
            return max(after_us, NOW_US) + US

    reader, checkpoint, rows = StorageOrderReader(Endless(), window_s=1_500), Checkpoint(), 0
    while True:
        page = await reader.read(checkpoint, limit=100)
        checkpoint, rows = page.checkpoint, rows + len(page.rows)
        assert len(checkpoint.recent) <= 1_600
        if page.is_last:
            break
    assert rows == 9_999
    assert len(checkpoint.recent) == 1_501


async def test_a_slice_that_is_too_large_is_halved_and_nothing_in_it_is_skipped() -> None:
    class Dense(ModelTable):
        """One row, late in the first slice; a statement over more than a tenth of a second is too large."""

        stored = StoredRow(Position(NOW_US + 900_000, 1, 0), 20_000, ())

        async def settled_time(self) -> int:
            return NOW_US + 100 * US

        async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
            if until_us - max(after.stored_us, NOW_US) > 100_000 and until_us < NOW_US + 2 * US:
                raise QueryTooLarge("too large")
            is_found = after < self.stored.position and until_us >= NOW_US + 900_000
            return StoredRowList([self.stored][:limit] if is_found else [])

        async def first_time(self, after_us: int, until_us: int) -> int | None:
            return self.stored.position.stored_us if after_us < self.stored.position.stored_us <= until_us else None

    page = await StorageOrderReader(Dense()).read(Checkpoint(Position(NOW_US, 0, 0)))
    assert page.rows == [Dense.stored]


# --- ClickHouse itself -----------------------------------------------------------------------------------------------

DAYS = (20_780, 20_781, 20_770)


@pytest.fixture
async def gateways(
    clickhouse_url: str, new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sequence[ClickHouse]]:
    """Two clients that insert, as two gateways do. A machine under load gets more time than production gives."""
    patient = CLOCK_SQL.replace("max_execution_time = 1", "max_execution_time = 60")
    monkeypatch.setattr("chassis.clickhouse.client.CLOCK_SQL", patient)
    name = new_database()
    stores = [ClickHouse(clickhouse_url, database=name, stored_time_floor=StoredTimeFloor()) for _ in range(2)]
    await migrations.migrate(stores[0], retention_days=0)
    for store in stores:
        await store.start()
    yield stores
    await stores[0].command(f"DROP DATABASE {name}")
    for store in stores:
        await store.close()


async def insert(store: ClickHouse, batch_id: int, rows: int, *, project: int = 7, message: str = "") -> None:
    """A batch of error occurrences: a block for each day."""
    for at, day in enumerate(DAYS):
        ids = b"t" * 16, b"s" * 8
        raised = (project, day * 86_400 * 10**9, b"f" * 16, "E", message, "", "span", *ids, "", "", "", batch_id)
        block = [(*raised, row, FINGERPRINT_VERSION) for row in range(at * rows, (at + 1) * rows)]
        pieces = write_block(ERROR_OCCURRENCES, block)
        await store.insert("error_occurrences", ERROR_OCCURRENCES.column_names, pieces, token=f"{batch_id}:{day}")


async def read_all(
    reader: StorageOrderReader[StoredRowList], checkpoint: Checkpoint, limit: int
) -> tuple[list[StoredRow], Checkpoint]:
    """Everything that is settled."""
    rows: list[StoredRow] = []
    while True:
        page = await reader.read(checkpoint, limit=limit)
        rows += page.rows
        checkpoint = Checkpoint.decode(page.checkpoint.encode())
        if page.is_last:
            return rows, checkpoint


@pytest.mark.both_stores
async def test_followers_read_what_two_gateways_store(
    gateways: Sequence[ClickHouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateways[0]
    with monkeypatch.context() as slow:  # the clock cannot be read in time, on a busy machine: an insert fails for now
        slow.setattr("chassis.clickhouse.client.CLOCK_SQL", "SELECT 1, 2 WHERE 0")
        with pytest.raises(StoreUnavailable):
            await insert(store, 1, 1)
    await store.command("INSERT INTO error_occurrences (project_id, time, batch_id) VALUES (7, now64(9), 1)")  # earlier
    table = OrderedTable(store, "error_occurrences", ["project_id", "message"])
    reader, checkpoint, rows = StorageOrderReader(table), Checkpoint(), list[StoredRow]()
    batches = [random.getrandbits(63) for _ in range(8)]

    async def store_batches(gateway: ClickHouse, ids: Sequence[int]) -> None:
        for batch_id in ids:
            await insert(gateway, batch_id, 3, project=batch_id % 2)
            await insert(gateway, batch_id, 3, project=batch_id % 2)  # a retry

    inserting = asyncio.gather(store_batches(gateways[0], batches[:4]), store_batches(gateways[1], batches[4:]))
    while not inserting.done():
        found, checkpoint = await read_all(reader, checkpoint, 7)
        rows += found
    await inserting
    while len(rows) < 72:
        found, checkpoint = await read_all(reader, checkpoint, 7)
        rows += found
    positions = [row.position for row in rows]
    assert positions == sorted(set(positions))
    assert {(row.position.batch_id, row.position.row, row.day) for row in rows} == {
        (batch_id, at * 3 + row, day) for batch_id in batches for at, day in enumerate(DAYS) for row in range(3)
    }
    odd = OrderedTable(store, "error_occurrences", project_ids=[1])
    found, _ = await read_all(StorageOrderReader(odd), Checkpoint(), 1_000)
    assert [row.position for row in found] == [row.position for row in rows if row.values[0] == 1]


async def test_a_running_insert_holds_back_what_is_settled(gateways: Sequence[ClickHouse]) -> None:
    store, table = gateways[0], OrderedTable(gateways[1], "error_occurrences")
    slow = "SELECT 7, now64(9), 3, number FROM numbers(4) WHERE sleepEachRow(0.5) = 0"
    ((now,),) = await store.query("SELECT toUnixTimestamp64Micro(now64(6))", {}, limits=storage_order._LIMITS)
    before = await table.settled_time()
    assert isinstance(now, int)
    assert now - DISTANCE_US <= before, "behind the clock"
    running = asyncio.create_task(
        store.command(
            f"INSERT INTO error_occurrences (project_id, time, batch_id, row) {slow}", {}, {"max_block_size": 1},
            stores_rows=True,
        )
    )  # fmt: skip
    held = []
    while not running.done():
        held.append(await table.settled_time())
        await asyncio.sleep(0.02)
    await running
    page = await StorageOrderReader(OrderedTable(store, "error_occurrences")).read(Checkpoint())
    while not page.rows:
        page = await StorageOrderReader(OrderedTable(store, "error_occurrences")).read(Checkpoint())
    stored_us = page.rows[0].position.stored_us
    assert before < stored_us
    assert len(held) > 3
    assert max(held[1:-1]) < stored_us


async def test_a_page_that_is_too_large_is_read_in_pieces(gateways: Sequence[ClickHouse]) -> None:
    await insert(gateways[0], 5, 10, message="m" * 10_000)
    table = OrderedTable(gateways[0], "error_occurrences", ["message"], page_bytes=60_000)
    reader, rows, checkpoint = StorageOrderReader(table), list[StoredRow](), Checkpoint()
    while len(rows) < 30:
        page = await reader.read(checkpoint)
        assert len(page.rows) <= 6
        rows, checkpoint = [*rows, *page.rows], page.checkpoint
    assert [row.position.row for row in rows] == list(range(30))
    with pytest.raises(QueryTooLarge):
        await StorageOrderReader(OrderedTable(gateways[0], "error_occurrences", page_bytes=10)).read(Checkpoint())
