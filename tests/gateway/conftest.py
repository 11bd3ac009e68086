"""The gateway on a real socket, with real project keys, over the embedded engine or a recording store."""

import asyncio
import io
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import ClickHouse, QueryLimits, StoreError
from chassis.db.database import Database
from chassis.db.migrations import migrate
from chassis.http.access import Guards
from chassis.http.serve import bind, listening
from chassis.http.web import build_app
from chassis.limits.limiter import LocalLimiter
from chassis.limits.redis import RedisLimiter
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from control.identity.organizations import organization_store, project_key_store
from gateway.app import service
from gateway.ingest.snapshots import IngestSnapshots
from gateway.ingest.wiring import TelemetryStore
from gateway.settings import GatewaySettings
from tests.gateway.otlp import NOW_NS, PROTOBUF
from tests.tables import CopiedTables

CHASSIS_OPTIONS = (
    *("otlp_rate", "otlp_burst", "failed_key_rate", "grpc_port", "keepalive_timeout_s", "header_timeout_s"),
    *("max_connections", "max_connections_per_address", "drain_timeout_s", "trusted_proxies", "body_min_rate"),
    *("send_timeout_s", "host"),
)
LINGER = {"linger_s": 0.0, "journal_linger_s": 0.0}
DEADLINE_S = 20.0  # for anything that must happen; never a measure of speed
PLAIN = ("Accept-Encoding",)  # what aiohttp would add, and get compressed answers


@dataclass
class Project:
    """A project and its key."""

    id: int
    key: str


@dataclass
class Insert:
    """An insert as the store was asked for it."""

    table: str
    token: str
    body: bytes

    @property
    def day(self) -> int:
        """Since 1970, of its rows."""
        return int(self.token.split(":")[2])


@dataclass
class RecordingStore:
    """A store that records what it is asked, and fails as it is told.

    `failures` are raised by the next inserts, one each; `refuse` decides about every insert. Those that `hold` names
    wait until they are `released`. `answer` is the error that an insert is answered with although it was taken.
    """

    behind: TelemetryStore | None = None
    away: StoreError | None = None
    failures: list[StoreError] = field(default_factory=list)
    refuse: Callable[[Insert], Exception | None] = lambda _insert: None
    answer: Callable[[Insert], Exception | None] = lambda _insert: None
    hold: Callable[[Insert], bool] = lambda _insert: False
    released: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[Insert] = field(default_factory=list)
    held: list[Insert] = field(default_factory=list)
    taken: list[Insert] = field(default_factory=list)
    probes: int = 0

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        insert = Insert(table, token, b"".join(pieces))
        self.asked.append(insert)
        if self.hold(insert):
            self.held.append(insert)
            await self.released.wait()
        error = self.away or (self.failures.pop(0) if self.failures else None) or self.refuse(insert)
        if error is not None:
            raise error
        if self.behind is not None:
            await self.behind.insert(table, columns, pieces, token=token)
        self.taken.append(insert)
        if (lost := self.answer(insert)) is not None:
            raise lost

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]:
        """Without a store behind: batches that a table has rows of; else nothing is there."""
        if self.behind is not None:
            return await self.behind.query(sql, parameters, limits=limits)
        asked = parameters.get("ids", ())
        assert isinstance(asked, Sequence)
        there = {insert.token.split(":")[0] for insert in self.taken if f"FROM {insert.table} " in sql}
        return [(batch,) for batch in asked if str(batch) in there]

    async def probe(self) -> None:
        self.probes += 1
        if self.away is not None:
            raise self.away

    def tables(self) -> list[str]:
        """Tables of the inserts that were taken, in order."""
        return [insert.table for insert in self.taken]

    def into(self, table: str) -> list[Insert]:
        """Inserts into one table that were taken."""
        return [insert for insert in self.taken if insert.table == table]


def holding(*tables: str, behind: TelemetryStore | None = None) -> RecordingStore:
    """A store that holds all inserts, or those into some tables."""
    return RecordingStore(behind, hold=lambda insert: not tables or insert.table in tables)


@dataclass
class Answer:
    """An answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def content_type(self) -> str:
        return self.headers["Content-Type"]


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Gateway:
    """A listening gateway."""

    port: int
    client: aiohttp.ClientSession
    projects: list[Project]
    telemetry: Telemetry
    stop: Callable[[], Awaitable[None]]
    snapshots: IngestSnapshots

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None, *, project: int = 0
    ) -> Answer:
        """Send a protobuf request with the key of a project, unless `headers` say otherwise."""
        given = {"Content-Type": PROTOBUF, **self.key(project), **(headers or {})}
        return await self.request("POST", path, data=io.BytesIO(body), headers=given)

    def key(self, project: int = 0) -> dict[str, str]:
        """The header that carries the key of a project."""
        return {"X-Legacy-Auth": f"Legacy legacy_key={self.projects[project].key}"}

    async def statuses(self, *bodies: bytes, project: int = 0) -> list[int]:
        """Of exports of spans that are sent at once."""
        sent = [self.post("/v1/traces", body, project=project) for body in bodies]
        return [answer.status for answer in await asyncio.gather(*sent)]

    def later(self, *bodies: bytes, project: int = 0) -> "asyncio.Task[list[int]]":
        """The same, under way."""
        return asyncio.create_task(self.statuses(*bodies, project=project))

    @asynccontextmanager
    async def written_to(
        self, *pieces: str | bytes
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection on which this was sent, for what no client sends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for piece in pieces:
            writer.write(piece.encode() if isinstance(piece, str) else piece)
        async with asyncio.timeout(DEADLINE_S):
            yield reader, writer
        writer.close()

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        async with self.client.request(method, f"http://127.0.0.1:{self.port}{path}", **options) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def all_stored(self) -> None:
        """Wait until all that it has acknowledged is rows."""
        await eventually(lambda: self.metric("pending_items") == 0)

    def metric(self, name: str, **labels: str) -> float:
        """A sample at /metrics, summed over the labels that are not given; 0 where there is none."""
        return sum(
            sample.value
            for family in self.telemetry.registry.collect()
            for sample in family.samples
            if sample.name == f"sluice_gateway_{name}" and labels.items() <= sample.labels.items()
        )


StartGateway = Callable[..., Awaitable[Gateway]]
Rows = Callable[..., Awaitable[list[tuple[Any, ...]]]]


@pytest.fixture
async def clickhouse(
    clickhouse_url: str, new_database: Callable[[], str], copied_tables: dict[str, CopiedTables]
) -> AsyncIterator[ClickHouse]:
    """Migrated tables of this test alone: what a gateway that was cut off still sends comes to nobody else's."""
    copied = copied_tables.setdefault(clickhouse_url, CopiedTables(clickhouse_url, new_database))
    async with copied.copy() as store:
        yield store


@pytest.fixture(scope="session")
def unexpiring_tables() -> dict[str, CopiedTables]:
    """By URL of an engine."""
    return {}


@pytest.fixture
async def unexpiring(
    clickhouse_url: str, new_database: Callable[[], str], unexpiring_tables: dict[str, CopiedTables]
) -> AsyncIterator[ClickHouse]:
    """Tables of this test alone that keep their rows whatever the date is."""
    new = CopiedTables(clickhouse_url, new_database, retention_days=0)
    async with unexpiring_tables.setdefault(clickhouse_url, new).copy() as store:
        yield store


@pytest.fixture(scope="session")
def database_with_projects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Project]]:
    """A migrated relational store with what `make_projects` makes, to be copied."""
    file = tmp_path_factory.mktemp("relational") / "sluice.db"
    migrate(f"sqlite:///{file}")

    async def made() -> list[Project]:
        database = Database(f"sqlite:///{file}")
        await database.start()
        try:
            return await make_projects(database)
        finally:
            await database.close()

    return file, asyncio.run(made())


async def make_projects(database: Database) -> list[Project]:
    """Two projects of one organization; the second has the sensitive word `plate`."""
    made = []
    async with database.write() as connection:
        organization = await organization_store.create_organization(connection, "acme", "Acme")
        for slug, words in (("shop", []), ("garage", ["plate"])):
            project = await organization_store.create_project(connection, organization.id, slug, slug.title(), words)
            key = await project_key_store.create_project_key(connection, organization.id, project.id, "test")
            made.append(Project(project.id, key.secret))
    return made


@pytest.fixture
async def checks(tmp_path: Path, database_with_projects: tuple[Path, list[Project]]) -> AsyncIterator[AuthGuards]:
    """Guards over a relational store of this test alone, with `projects` in it."""
    file = shutil.copy(database_with_projects[0], tmp_path / "sluice.db")
    checks = AuthGuards.create(Database(f"sqlite:///{file}"), None)
    await checks.database.start()
    yield checks
    await checks.bearer.close()
    await checks.project_keys.close()
    await checks.database.close()


@pytest.fixture
def projects(database_with_projects: tuple[Path, list[Project]]) -> list[Project]:
    """What `make_projects` makes, in the store of `checks`."""
    return database_with_projects[1]


@pytest.fixture
def durability(request: pytest.FixtureRequest) -> str:
    """The mode of a gateway that is started without one: the default, or DURABILITY of the module."""
    return str(getattr(request.module, "DURABILITY", "journal"))


@pytest.fixture
def started() -> list[Gateway]:
    """The gateways of this test."""
    return []


@pytest.fixture
async def start_gateway(
    checks: AuthGuards, projects: list[Project], durability: str, started: list[Gateway], tmp_path: Path
) -> AsyncIterator[StartGateway]:
    """Start a gateway over a store; options are fields of its settings."""
    async with AsyncExitStack() as stack:

        async def start(store: TelemetryStore, **options: Any) -> Gateway:
            of_chassis = {name: options.pop(name) for name in CHASSIS_OPTIONS if name in options}
            chassis = ChassisSettings(
                body_timeout_s=options.pop("body_timeout_s", 60.0),
                durability=options.pop("durability", durability),
                **of_chassis,
            )
            redis, clock = options.pop("redis", None), options.pop("clock", lambda: NOW_NS)
            telemetry = Telemetry("test")
            made = service(
                chassis,
                GatewaySettings(**{**LINGER, "journal_dir": str(tmp_path / f"journal-{len(started)}"), **options}),
                store,
                telemetry,
                database=checks.database,
                project_keys=checks.project_keys if "grpc_port" in of_chassis else None,
                redis=redis,
                clock=clock,
            )
            app = build_app(
                made.routes,
                service=made.name,
                settings=chassis,
                telemetry=telemetry,
                cleanup_contexts=made.cleanup_contexts,
                guards=Guards.over(checks),
                readiness=made.readiness,
                limiter=None if redis is None else RedisLimiter(redis, LocalLimiter(), telemetry.registry),
            )
            listener = bind("127.0.0.1", 0)
            port = listener.getsockname()[1]
            running = AsyncExitStack()
            stack.push_async_exit(running)
            await running.enter_async_context(listening(app, listener, chassis, telemetry))
            client = await stack.enter_async_context(
                aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=PLAIN)
            )
            started.append(Gateway(port, client, projects, telemetry, running.aclose, made.snapshots))
            return started[-1]

        yield start


@pytest.fixture
def rows(clickhouse: ClickHouse, started: list[Gateway]) -> Rows:
    """Read rows of the embedded engine, once all that the last gateway has acknowledged is stored."""

    async def read(sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        for gateway in started[-1:]:
            await gateway.all_stored()
        return await clickhouse.query(sql, parameters, limits=QueryLimits())

    return read


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)
