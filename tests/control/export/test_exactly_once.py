"""Every row leaves once, whatever ends in the middle: processes that are killed, stores that fail after they have
written, exporters that are overtaken, rows that are erased.
"""

import asyncio
import io
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from msgspec import structs
from multidict import CIMultiDict, CIMultiDictProxy

from chassis.db.database import Database
from control.export import exporter as exporting
from control.export import store
from control.export import task as scheduling
from control.export.destinations.interfaces import DestinationError, ObjectStore, StoredObject
from control.export.exporter import Exporter, SinkDisabled, WarehouseMetrics
from control.export.model import BlobstoreConfig, RunStatus, Sink, SinkKind, Stream
from control.export.sink_destination import Destination, open_store
from control.export.store import LeaseUnavailable
from control.export.streams import parquet
from control.export.streams.parquet import from_micros
from control.export.streams.reading import Batch, ExportSource
from control.export.streams.schemas import SCHEMAS
from control.export.tables import warehouse_sinks
from control.export.task import WarehouseScheduler
from control.outbound.egress import EgressError, HttpReply
from control.secrets.secret_box import KeyFile, SecretBox
from tests.chassis.auth.tenants import new_tenant
from tests.selection import scaled

COMPLETE = BlobstoreConfig(bucket="b", region="r", access_key_id="a", secret_access_key="s")
STREAM = Stream.INGEST_OUTCOMES


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Gate:
    """Where somebody waits until he is let through."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def pass_by(self) -> None:
        self.reached.set()
        await self.opened.wait()


@dataclass
class Source:
    """A stream in memory: rows with numbers from 1, of which some are erased later."""

    rows: dict[int, str] = field(default_factory=dict)
    batch: int = 3

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        assert source.projects
        after = int(cursor or 0)
        numbers = sorted(number for number in self.rows if number > after)[: self.batch]
        if not numbers:
            return None
        rows = [self._row(number) for number in numbers]
        last = numbers[-1]
        return Batch(
            parquet.new_table(SCHEMAS[STREAM], rows),
            str(last).encode(),
            from_micros(last),
            f"{last:06d}",
            last == max(self.rows),
        )

    async def read_again(self, _source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        numbers = [number for number in sorted(self.rows) if int(cursor or 0) < number <= int(until)]
        return parquet.new_table(SCHEMAS[STREAM], [self._row(number) for number in numbers])

    def _row(self, number: int) -> tuple[Any, ...]:
        return str(number), "1", "web", number, number, "traces", "accepted", None, number, 1, 1, self.rows[number]


@dataclass
class Process:
    """What one process has, until it is killed at the given step. `kill_at` None: never."""

    world: "World"
    kill_at: int | None = None
    steps: int = 0
    is_dead: bool = False

    def step(self) -> None:
        self.steps += 1
        if self.is_dead or self.steps == self.kill_at:
            self.is_dead = True
            raise Killed


class World:
    """The database, the object store, and the source, which outlive processes."""

    def __init__(self, database: Database, secret_box: SecretBox, chance: random.Random) -> None:
        self.database = database
        self.secret_box = secret_box
        self.chance = chance
        self.source = Source()
        self.objects: dict[str, tuple[str, bytes]] = {}
        self.now = datetime(2026, 11, 20, tzinfo=UTC)
        self.faults = 0.0
        self.on_put: Callable[[], None] = lambda: None
        self.new_store: Callable[[Process], ObjectStore] = _Store

    def exporter(self, kill_at: int | None = None, put: Any = None) -> Exporter:
        process = Process(self, kill_at)
        store = self.new_store(process) if put is None else put
        return Exporter(
            _Database(process),  # type: ignore[arg-type]
            self.secret_box,
            {STREAM: self.source},
            lambda _sink: Destination("", store, None),
            WarehouseMetrics(None),
            now=lambda: self.now,
        )

    async def exported(self) -> list[str]:
        """The row ids in the object store."""
        return [row_id for _, body in self.objects.values() for row_id in _row_ids(body)]


class _Store:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        world = self._process.world
        world.on_put()
        self._process.step()
        if world.chance.random() < world.faults:
            raise DestinationError("The store is busy.")
        existing = world.objects.get(key)
        if existing is None:
            world.objects[key] = row_digest, body
        self._process.step()
        if world.chance.random() < world.faults:
            raise DestinationError("The store was not reached.")  # after it has written
        return None if existing is None else StoredObject(existing[0], len(existing[1]))


class _PlainBucket:
    """The guarded client of a process, before a store that knows no conditions. Nothing of a request is done once the
    process is killed; an answer may be lost.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    async def head(self, url: str, _headers: Mapping[str, str], *, account: str) -> HttpReply:
        self._step(account)
        stored = self._process.world.objects.get(_key_of(url))
        if stored is None:
            return _reply(404)
        return _reply(200, {"x-amz-meta-row-digest": stored[0], "Content-Length": str(len(stored[1]))})

    async def put(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str) -> HttpReply:
        assert "if-none-match" not in headers
        self._step(account)
        self._process.world.objects[_key_of(url)] = headers["x-amz-meta-row-digest"], body
        self._step(account)
        return _reply(200)

    def _step(self, account: str) -> None:
        assert account == "org"
        self._process.step()
        if self._process.world.chance.random() < self._process.world.faults:
            raise EgressError("The connection was lost.")


def _key_of(url: str) -> str:
    return unquote(url).removeprefix("https://s3.example.org/b/")


def _reply(status: int, headers: Mapping[str, str] | None = None) -> HttpReply:
    return HttpReply(status, CIMultiDictProxy(CIMultiDict(headers or {})), b"")


def plain_store(process: Process) -> ObjectStore:
    """The store of a config without conditional puts."""
    config = structs.replace(COMPLETE, endpoint="https://s3.example.org", path_style=True, conditional_puts=False)
    return open_store(config, _PlainBucket(process), "org")  # type: ignore[arg-type]


class _Database:
    """The database of a process: nothing is committed once it is killed, unless it was already."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        self._process.step()
        async with self._process.world.database.read() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Any]:
        self._process.step()
        async with self._process.world.database.write() as connection:
            yield connection
            self._process.step()
        self._process.step()


def _row_ids(body: bytes) -> list[str]:
    return list(pq.read_table(io.BytesIO(body)).column("row_id").to_pylist())


@pytest.fixture
async def world(migrated_url: str, tmp_path: Path) -> AsyncIterator[World]:
    database = Database(migrated_url)
    await database.start()
    ring = KeyFile(tmp_path / "sealing.keys")
    ring.generate()
    yield World(database, SecretBox(ring), random.Random(7))
    await database.close()


async def new_sink(world: World, slug: str = "acme") -> Sink:
    tenant = await new_tenant(world.database, slug)
    return await sink_of(world, tenant.organization.id, tenant.owner_id)


async def sink_of(world: World, org_id: str, owner_id: str | None) -> Sink:
    async with world.database.write() as connection:
        return await store.create(
            connection,
            world.secret_box,
            org_id=org_id,
            name="Lake",
            kind=SinkKind.BLOBSTORE,
            streams=[STREAM],
            config=COMPLETE,
            created_by=str(owner_id),
            now=world.now,
        )


@pytest.mark.both_stores
@pytest.mark.sized
@pytest.mark.parametrize("new_store", [_Store, plain_store], ids=["conditional", "read-back"])
async def test_kills_and_faults_between_any_two_steps(
    world: World, new_store: Callable[[Process], ObjectStore]
) -> None:
    """Late rows and erasures meanwhile: what was there when it was exported is there once."""
    world.new_store = new_store
    chance = world.chance
    sink = await new_sink(world)
    erased: set[int] = set()
    last = 0
    for _ in range(scaled(30, 300)):
        for _ in range(chance.randrange(4)):
            last += 1
            world.source.rows[last] = chance.choice(["{}", '{"truncated":1}'])
        if chance.random() < 0.2 and world.source.rows:
            gone = chance.choice(list(world.source.rows))
            del world.source.rows[gone]
            erased.add(gone)
        world.faults = chance.choice([0.0, 0.3])
        try:
            await world.exporter(kill_at=chance.randrange(1, 30)).export(sink.org_id, sink.id, 5)
        except Killed:
            world.now += store.LEASE
    world.faults = 0.0
    world.now += store.LEASE
    for _ in range(100):
        _, (ended,) = await world.exporter().export(sink.org_id, sink.id, 100)
        assert ended.run.status is RunStatus.SUCCEEDED, ended.run.error
        if ended.is_idle:
            break
    exported = await world.exported()
    assert len(exported) == len(set(exported))
    missing = {str(number) for number in range(1, last + 1)} - set(exported)
    assert missing <= {str(number) for number in erased}
    async with world.database.read() as connection:
        (checkpoint,) = (await store.list_checkpoints(connection, sink.id)).values()
        runs = await store.list_runs(connection, sink.id, 1_000)
    assert checkpoint.rows_exported == len(exported)
    assert checkpoint.intent is None
    assert sum(run.rows for run in runs) == len(exported)
    assert sorted(key for run in runs for key in run.object_keys) == sorted(world.objects)
    assert all(run.finished_at is not None for run in runs)


@pytest.mark.both_stores
async def test_an_exporter_that_was_overtaken_changes_nothing(world: World) -> None:
    """It is paused before its put, for longer than its lease; what it puts then is known by its key."""
    sink = await new_sink(world)
    world.source.rows = {1: "{}", 2: "{}"}
    gate = Gate()

    class Slow:
        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            await gate.pass_by()
            return await _Store(Process(world)).put_new(key, body, row_digest)

    slow = asyncio.create_task(world.exporter(put=Slow()).export(sink.org_id, sink.id, 1))
    await gate.reached.wait()
    with pytest.raises(LeaseUnavailable):
        await world.exporter().export(sink.org_id, sink.id, 1)
    world.now += store.LEASE
    world.source.rows[3] = "{}"
    await world.exporter().export(sink.org_id, sink.id, 10)
    gate.opened.set()
    _, (ended,) = await slow
    assert (ended.run.status, ended.run.error) == (RunStatus.FAILED, exporting.TAKEN_OVER)
    assert sorted(await world.exported()) == ["1", "2", "3"]


@pytest.mark.parametrize("erased", [False, True])
async def test_a_late_put_without_a_condition_replaces_a_batch_by_itself(world: World, erased: bool) -> None:
    """An exporter that is overtaken between its look and its put: each row is there once. What is not promised there:
    that the object stays what it was, and that a row that was erased between the two puts is gone.
    """
    world.new_store = plain_store
    sink = await new_sink(world)
    world.source.rows = {1: "{}", 2: "{}"}
    gate = Gate()

    class Pausing(_PlainBucket):
        async def put(self, url: str, body: bytes, headers: Mapping[str, str], *, account: str) -> HttpReply:
            await gate.pass_by()
            return await super().put(url, body, headers, account=account)

    config = structs.replace(COMPLETE, endpoint="https://s3.example.org", path_style=True, conditional_puts=False)
    paused_store = open_store(config, Pausing(Process(world)), "org")  # type: ignore[arg-type]
    slow = asyncio.create_task(world.exporter(put=paused_store).export(sink.org_id, sink.id, 1))
    await gate.reached.wait()
    world.now += store.LEASE
    if erased:
        del world.source.rows[2]
    world.source.rows[3] = "{}"
    await world.exporter().export(sink.org_id, sink.id, 10)
    assert sorted(await world.exported()) == (["1", "3"] if erased else ["1", "2", "3"])
    gate.opened.set()
    _, (ended,) = await slow
    assert (ended.run.status, ended.run.error) == (RunStatus.FAILED, exporting.TAKEN_OVER)
    assert sorted(await world.exported()) == ["1", "2", "3"]


async def test_a_batch_of_which_rows_are_erased_meanwhile_is_one_object(world: World) -> None:
    """Killed before the put, and again after the put of what was left: the object is known by either digest."""
    sink = await new_sink(world)
    world.source.rows = {1: "{}", 2: "{}"}

    class KilledBefore:
        async def put_new(self, *_: object) -> StoredObject | None:
            raise Killed

    class KilledAfter:
        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            await _Store(Process(world)).put_new(key, body, row_digest)
            raise Killed

    for put in (KilledBefore(), KilledAfter()):
        with pytest.raises(Killed):
            await world.exporter(put=put).export(sink.org_id, sink.id, 1)
        world.source.rows.pop(2, None)
        world.now += store.LEASE
    world.source.rows = {3: "{}"}
    _, (ended,) = await world.exporter().export(sink.org_id, sink.id, 1)
    assert (ended.run.status, ended.run.rows) == (RunStatus.SUCCEEDED, 1)
    await world.exporter().export(sink.org_id, sink.id, 1)
    assert sorted(await world.exported()) == ["1", "3"]


async def test_a_store_that_is_away_for_hours_after_it_has_written_stops_nothing(world: World) -> None:
    """Rows change between the runs that fail; the object is known by the digest of the first one."""
    sink = await new_sink(world)

    class Lost:
        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            world.objects.setdefault(key, (row_digest, body))
            raise DestinationError("The store was not reached.")

    for number in range(24):
        world.source.rows = {1: "{}", 2: f"[{number}]"}
        _, (ended,) = await world.exporter(put=Lost()).export(sink.org_id, sink.id, 1)
        assert ended.run.status is RunStatus.FAILED
    _, (ended,) = await world.exporter().export(sink.org_id, sink.id, 1)
    assert (ended.run.status, ended.run.rows, ended.run.error) == (RunStatus.SUCCEEDED, 2, None)
    assert sorted(await world.exported()) == ["1", "2"]


async def test_a_store_that_is_slow_delays_its_own_organization(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on schedule nor on request; exports of one organization take turns."""
    monkeypatch.setattr(scheduling, "POLL_S", 0.01)
    slow = await new_sink(world)
    others = [await sink_of(world, slow.org_id, slow.created_by) for _ in range(3)]
    quick = await new_sink(world, "globex")
    world.source.rows = {1: "{}"}
    gate, done = Gate(), asyncio.Event()
    putting = 0

    class Store:
        async def put_new(self, key: str, _body: bytes, _row_digest: str) -> StoredObject | None:
            nonlocal putting
            if key.startswith(quick.id):
                done.set()
                return None
            putting += 1
            assert putting == 1
            await gate.pass_by()
            putting -= 1
            return None

    exporter = world.exporter(put=Store())
    on_request = [asyncio.create_task(exporter.export(sink.org_id, sink.id, 1)) for sink in others]
    await gate.reached.wait()
    scheduler = WarehouseScheduler(world.database, exporter, 900, now=lambda: world.now)
    running = scheduler.running()
    await anext(running)
    async with asyncio.timeout(10):
        await done.wait()
    gate.opened.set()
    for _, (ended,) in await asyncio.gather(*on_request):
        assert (ended.run.status, ended.run.rows) == (RunStatus.SUCCEEDED, 1)
    await anext(running, None)


@pytest.mark.both_stores
async def test_a_sink_that_cannot_be_read_delays_no_other(world: World) -> None:
    broken, well = await new_sink(world), await new_sink(world, "globex")
    async with world.database.write() as connection:
        of_sink = warehouse_sinks.c.id == broken.id
        earlier = world.now - timedelta(minutes=1)
        await connection.execute(warehouse_sinks.update().where(of_sink).values(config=b"?", next_run_at=earlier))
    world.source.rows = {1: "{}"}
    scheduler = WarehouseScheduler(world.database, world.exporter(), 900, now=lambda: world.now)
    await scheduler.run_due()
    assert {key.split("/")[0] for key in world.objects} == {well.id}
    async with world.database.read() as connection:
        assert await store.find_due(connection, world.now, timedelta(minutes=15)) is None


async def test_two_sinks_share_a_bucket_and_a_foreign_object_stops_one(world: World) -> None:
    one = await new_sink(world)
    other = await sink_of(world, one.org_id, one.created_by)
    world.source.rows = {1: "{}"}
    for sink in (one, other):
        await world.exporter().export(sink.org_id, sink.id, 1)
    assert sorted(await world.exported()) == ["1", "1"]
    assert len({key.split("/")[0] for key in world.objects}) == 2
    world.source.rows[2] = "{}"
    key = next(key for key in world.objects if key.startswith(one.id))
    taken = key.replace("start__000001", "000001__000002")
    world.objects[taken] = "another", parquet.write_parquet(parquet.new_table(SCHEMAS[STREAM], []))
    _, (ended,) = await world.exporter().export(one.org_id, one.id, 1)
    assert ended.run.status is RunStatus.FAILED
    assert "another object" in str(ended.run.error)
    del world.objects[taken]
    _, (ended,) = await world.exporter().export(one.org_id, one.id, 1)
    assert (ended.run.status, ended.run.rows) == (RunStatus.SUCCEEDED, 1)


@pytest.mark.both_stores
async def test_a_sink_that_is_deleted_or_disabled_stops(world: World) -> None:
    sink = await new_sink(world)
    world.source.rows = {1: "{}"}

    class Deleting:
        async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
            async with world.database.write() as connection:
                await store.delete(connection, sink.id)
            return await _Store(Process(world)).put_new(key, body, row_digest)

    _, (ended,) = await world.exporter(put=Deleting()).export(sink.org_id, sink.id, 1)
    assert ended.run.status is RunStatus.FAILED
    with pytest.raises(LeaseUnavailable):
        await world.exporter().export(sink.org_id, sink.id, 1)
    other = await sink_of(world, sink.org_id, sink.created_by)
    async with world.database.write() as connection:
        await store.change(connection, other, name=None, enabled=False, streams=None, now=world.now)
    with pytest.raises(SinkDisabled):
        await world.exporter().export(other.org_id, other.id, 1)
    async with world.database.read() as connection:
        assert await store.find_due(connection, world.now + timedelta(days=1), timedelta(days=2)) is None


async def test_a_clock_that_is_set_back_holds_up_nothing_and_doubles_nothing(world: World) -> None:
    """By an hour: before an export, in the middle of one that is then killed, and while a sink is not due."""
    sink = await new_sink(world)
    scheduler = WarehouseScheduler(world.database, world.exporter(), 900, now=lambda: world.now)
    hour = timedelta(hours=1)

    def set_back() -> None:
        world.now -= hour

    world.on_put = set_back
    world.source.rows = {1: "{}"}
    await scheduler.run_due()
    for kill_at in range(1, 30):
        world.source.rows[kill_at + 1] = "{}"

        with suppress(Killed):
            await world.exporter(kill_at).export(sink.org_id, sink.id, 5)
        world.now -= hour
        await scheduler.run_due()
    world.on_put = lambda: None
    await world.exporter().export(sink.org_id, sink.id, 5, timedelta(minutes=15))
    world.source.rows[31] = "{}"
    world.now -= hour
    await scheduler.run_due()
    assert sorted(await world.exported(), key=int) == [str(number) for number in range(1, 32)]


async def test_a_sink_that_is_paused_for_a_day_continues_where_it_was(world: World) -> None:
    """What was stored meanwhile comes, what was erased meanwhile does not, nothing comes twice."""
    sink = await new_sink(world)
    scheduler = WarehouseScheduler(world.database, world.exporter(), 900, now=lambda: world.now)

    async def enable(*, enabled: bool) -> None:
        async with world.database.write() as connection:
            found = await store.find(connection, world.secret_box, sink.org_id, sink.id)
            assert found is not None
            await store.change(connection, found, name=None, enabled=enabled, streams=None, now=world.now)

    world.source.rows = dict.fromkeys(range(1, 8), "{}")
    await scheduler.run_due()
    await enable(enabled=False)
    world.source.rows |= dict.fromkeys(range(8, 40), "{}")
    for _ in range(12):
        world.now += timedelta(hours=2)
        await scheduler.run_due()
    assert len(await world.exported()) == 7
    del world.source.rows[3], world.source.rows[20]
    await enable(enabled=True)
    world.now += timedelta(hours=1)
    await scheduler.run_due()
    expected = [str(number) for number in range(1, 40) if number != 20]
    assert sorted(await world.exported(), key=int) == expected
