"""What the faults happen to: one engine and one project, and gateways over them, each with a directory of its own.

site = Site(directory)              the engine, started, with the tables; keys in SQLite
gateway = Gateway(site, directory)  `sluice gateway` under the layer, not started
gateway.start(rules)                ... again and again, with other rules
site.stored("run")                  what the tables have of a run
"""

import asyncio
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from prometheus_client.parser import text_string_to_metric_families

from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from tests.e2e.product import Process, Service, call, clean_environment, eventually, run
from tests.engine.process import PASSWORD, USER, Engine
from tests.faults.preload import Layer, Rule
from tests.faults.reconciliation import Reconciliation, Stored, reconcile
from tests.faults.records import CLIENT, RUN, SEQUENCE, SUM, Export
from tests.faults.zygote import Zygote

DATABASE: Final = "telemetry"
MODE: Final = os.environ.get("FAULTS_MODE", "journal")
# Small, so that a test of seconds sees segments begun, sealed and deleted.
SMALL: Final[Mapping[str, str]] = {
    "SLUICE_DURABILITY": MODE,
    "SLUICE_GATEWAY_JOURNAL_SEGMENT_BYTES": str(64 * 2**10),
    "SLUICE_GATEWAY_JOURNAL_HOLD_S": "0.2",
    "SLUICE_GATEWAY_JOURNAL_LINGER_S": "0.05",
    "SLUICE_GATEWAY_SLOW_LINGER_S": "0.1",
    "SLUICE_GATEWAY_DERIVED_LINGER_S": "0.2",
}
SETTLED_S: Final = 60.0

_ROWS: Final = f"""
SELECT toUInt32(attributes['{CLIENT}']), toUInt64(attributes['{SEQUENCE}']), count(),
       countIf(attributes['{SUM}'] != toString(CRC32(concat(attributes['{RUN}'], '/', attributes['{CLIENT}'], '/',
                                                            attributes['{SEQUENCE}']))))
FROM (SELECT attributes FROM spans UNION ALL SELECT attributes FROM logs)
WHERE attributes['{RUN}'] = {{run:String}} GROUP BY 1, 2"""


class Tables(NamedTuple):
    """Sluice's tables, behind an engine's port."""

    port: int
    database: str

    def ask(self, sql: str, **parameters: str) -> list[list[Any]]:
        """Rows of a query; `{name:Type}` in it is bound."""
        bound = {f"param_{name}": value for name, value in parameters.items()}
        query = {"database": self.database, "default_format": "JSONCompactEachRow", **bound}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/?{urllib.parse.urlencode(query)}",
            data=sql.encode(),
            headers={"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def stored(self, run: str) -> tuple[Stored, int]:
        """Copies by client and sequence of what the tables have of a run, and how many rows have a wrong sum."""
        rows = self.ask(_ROWS, run=run)
        copies = {(int(client), int(sequence)): int(count) for client, sequence, count, _ in rows}
        return copies, sum(int(wrong) for *_, wrong in rows)


@contextmanager
def engine_of(data: Path) -> Iterator[Tables]:
    """The tables of a `sluice up` that has ended."""
    engine = Engine(data / "clickhouse")
    engine.start()
    try:
        yield Tables(engine.port, "default")
    finally:
        engine.stop()


class Site:
    """A running engine with Sluice's tables, and a project whose key is in a SQLite file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.engine = Engine(directory / "engine")
        self.engine.start()
        self.database_url = f"sqlite:///{directory / 'shared.db'}"
        operator, credentials = directory / "operator", directory / "credentials.json"
        environment = {
            "SLUICE_CLICKHOUSE_URL": self.clickhouse_url(),
            "SLUICE_DATABASE_URL": self.database_url,
            "SLUICE_RETENTION_DAYS": "0",  # a journal that is checked in has old records
        }
        run("migrate", "--data", str(operator), environment=environment)
        run("init", "--data", str(operator), "--json", "--out", str(credentials), environment=environment)
        written = json.loads(credentials.read_text())
        self.key: str = written["legacyKey"]
        self.tables = Tables(self.engine.port, DATABASE)

    def another_key(self, name: str) -> str:
        """That of a project of its own, in an organization that is made."""

        async def made() -> str:
            database = Database(self.database_url)
            await database.start()
            async with database.write() as connection:
                organization = await organization_store.create_organization(connection, name, name)
                project = await organization_store.create_project(connection, organization.id, name, name, [])
                key = await project_key_store.create_project_key(connection, organization.id, project.id, name)
            await database.close()
            return key.secret

        return asyncio.run(made())

    def clickhouse_url(self, port: int | None = None) -> str:
        """Of the engine itself, or of a proxy in front of it."""
        password = urllib.parse.quote(PASSWORD)
        return f"http://{USER}:{password}@127.0.0.1:{port or self.engine.port}/{DATABASE}"

    def stored(self, run: str) -> tuple[Stored, int]:
        """What the tables have of a run."""
        return self.tables.stored(run)

    def close(self) -> None:
        """End the engine."""
        self.engine.kill()


@dataclass
class Gateway:
    """`sluice gateway`, whose processes come and go; its port, data and log stay. With a zygote it is forked; one that
    is not `layered`, which has no rules and no clock, is forked as other services are (tests.e2e.product).
    """

    site: Site
    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    zygote: Zygote | None = None
    clickhouse_port: int | None = None
    options: tuple[str, ...] = ()
    shadow: bool = False
    layered: bool = True
    grpc_port: int = 0  # on which it takes exports as well

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.layer = Layer(self.directory / "layer")
        self._service = Service("gateway", self.directory / "data", self.directory / "log", options=self.options)

    @property
    def url(self) -> str:
        return self._service.url

    @property
    def port(self) -> int:
        return self._service.port

    @property
    def journal(self) -> Path:
        """Where its journals are."""
        return self._service.data / "journal"

    @property
    def log(self) -> str:
        """All that it has said."""
        return self._service.log.read_text() if self._service.log.exists() else ""

    @property
    def process(self) -> Process:
        """The one that runs, or has ended by itself."""
        if self._service.process is None:
            raise AssertionError("the gateway was not started")
        return self._service.process

    def begin(self, rules: Iterable[Rule] = ()) -> None:
        """Start a process and do not wait."""
        environment = {
            **SMALL,
            "SLUICE_CLICKHOUSE_URL": self.site.clickhouse_url(self.store_port),
            "SLUICE_DATABASE_URL": self.site.database_url,
            "SLUICE_GRPC_PORT": str(self.grpc_port or ""),
            **self.settings,
        }
        if self.layered:
            environment |= self.layer.environment(rules, shadow=f"{self.journal}*" if self.shadow else "")
        self._service.environment = environment
        if self.zygote is None:
            self._service.begin()
            return
        arguments = ["gateway", "--data", str(self._service.data), "--port", str(self.port), *self.options]
        forked = self.zygote.begin(arguments, clean_environment(environment), self._service.log)
        self._service.process = cast("subprocess.Popen[bytes]", forked)

    def start(self, rules: Iterable[Rule] = ()) -> None:
        """Start a process and wait until it is ready."""
        self.begin(rules)
        self._service.wait_until_ready()

    @property
    def store_port(self) -> int:
        """Where it has its ClickHouse."""
        return self.clickhouse_port or self.site.engine.port

    def ends_by_itself(self, seconds: float) -> bool:
        """Wait for that; whether it did."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_until_alive(self) -> None:
        self._service.wait_until_alive()

    def wait_until_ready(self) -> None:
        self._service.wait_until_ready()

    def stop(self) -> None:
        """End it as an operator does; it ends well."""
        self._service.stop()

    def kill(self) -> None:
        """End it without a word."""
        self._service.kill()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def open_files(self) -> int:
        """Descriptors that it has now."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        return metric(self.url, name, **labels)

    def wait_until_settled(self, seconds: float = SETTLED_S) -> None:
        """Wait until nothing that it acknowledged waits to be stored."""
        eventually(lambda: has_stored_all(self.url), "all is stored", seconds)


def settled(
    site: Site, gateway: Gateway, exports: Sequence[Export], run: str, seconds: float = SETTLED_S
) -> Reconciliation:
    """What there is when all that was acknowledged is stored and nothing else waits, or when the time is over."""

    def compared() -> Reconciliation:
        return reconcile(exports, *site.stored(run))

    deadline = time.monotonic() + seconds
    while compared().lost and time.monotonic() < deadline:
        time.sleep(0.1)
    gateway.wait_until_settled()
    return compared()


def has_stored_all(url: str) -> bool:
    """Whether nothing that was acknowledged waits to be stored: in memory, or in the journal of an earlier process, of
    which nobody has counted the items yet.
    """
    waiting = ("sluice_gateway_journal_unfinished_bytes", "sluice_gateway_pending_items")
    return not any(metric(url, name) for name in waiting)


def metric(url: str, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels, as a process tells it at this moment."""
    lines = call("GET", f"{url}/metrics").body.decode().splitlines()
    text = "".join(f"{line}\n" for line in lines if line.startswith(name))  # parsing all of them takes 10 ms
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
