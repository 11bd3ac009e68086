"""Gateway, query and control as processes of their own: what each goes on doing while something else is away."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import postgresql
from tests.e2e.product import (
    APART,
    Answer,
    Service,
    Sluice,
    call,
    eventually,
    is_ready,
    run,
    set_up_apart,
)
from tests.e2e.reading import listed, settled
from tests.engine.process import PASSWORD, QUOTED, Engine

SENDERS = 3
SETTINGS = {"SLUICE_GATEWAY_ACK_DEADLINE_S": "2", "SLUICE_DATABASE_TIMEOUT_S": "2"}


@dataclass
class Apart:
    """The services and the two servers below them; a test may stop any of them."""

    sluice: Sluice
    engine: Engine
    database: postgresql.PostgreSQL

    def service(self, name: str) -> Service:
        return self.sluice.services[name]

    def export(self, trace_id: str | None = None) -> tuple[str, Answer]:
        """Send one span of a trace of its own."""
        trace_id = trace_id or os.urandom(16).hex()
        return trace_id, self.sluice.export("traces", one_span(trace_id))

    def stored(self, trace_id: str) -> int:
        """How many spans of the trace are stored."""
        return len(self.sluice.explore(f"/spans?traceId={trace_id}")["data"])

    def copies(self) -> Counter[str]:
        """The same of every trace."""
        return Counter(row["traceId"] for row in listed(self.sluice, "/spans?hours=1"))

    def arrived(self, *trace_ids: str) -> dict[str, int]:
        """How many spans of each trace are stored, once whatever was taken is."""
        eventually(lambda: set(trace_ids) <= self.copies().keys(), "everything acknowledged")
        settled(self.sluice)
        copies = self.copies()
        return {trace_id: copies[trace_id] for trace_id in trace_ids}

    def explored(self) -> Answer:
        return self.sluice.get(f"/orgs/{self.sluice.org}/projects/{self.sluice.project}/explore/spans?limit=1")

    def controlled(self) -> Answer:
        return self.sluice.get(f"/orgs/{self.sluice.org}/projects")

    def seen(self) -> dict[str, bool]:
        """What the gateway's `/readyz` says of its dependencies."""
        answer = call("GET", f"{self.service('gateway').url}/readyz")
        return {each["name"]: each["ok"] for each in answer.json()["dependencies"]}

    def ready(self) -> dict[str, bool]:
        return {name: is_ready(service.url) for name, service in self.sluice.services.items()}


def one_span(trace_id: str) -> bytes:
    request = ExportTraceServiceRequest()
    now = time.time_ns()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace_id),
        span_id=os.urandom(8),
        name="sent",
        start_time_unix_nano=now - 10**9,
        end_time_unix_nano=now,
    )
    return request.SerializeToString()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """Everything set up, for the tests of this file alone: they stop what others share."""
    directory = tmp_path_factory.mktemp("apart")
    engine = Engine(directory / "engine")
    engine.start()
    try:
        with postgresql.running(tmp_path_factory.mktemp("postgresql")) as database:
            sluice = set_up_apart(directory, f"{engine.url}/telemetry", database.new_database(), **SETTINGS)
            yield Apart(sluice, engine, database)
            sluice.kill()
    finally:
        engine.kill()


@pytest.fixture
def apart(servers: Apart) -> Apart:
    """Everything there and ready, whatever the test before stopped."""
    return ready_with(servers)


@pytest.fixture
def storing(servers: Apart) -> Apart:
    """The same with a gateway that answers after the insert."""
    return ready_with(servers, SLUICE_DURABILITY="store")


def ready_with(servers: Apart, **settings: str) -> Apart:
    """Everything there and ready, the gateway with these settings."""
    gateway = servers.service("gateway")
    wanted = {**servers.service("control").environment, **settings}
    if gateway.environment != wanted:
        gateway.stop()
        gateway.environment = wanted
    servers.sluice.start()
    eventually(lambda: all(servers.ready().values()), "all ready")
    return servers


def refused(answer: Answer) -> None:
    """A 503 with which a client knows what to do."""
    assert answer.status == 503, answer.body
    assert 1 <= int(answer.headers["Retry-After"]) <= 5


def in_envelope(answer: Answer) -> None:
    refused(answer)
    error = answer.json()["error"]
    assert (error["code"], sorted(error)) == ("service_unavailable", ["code", "message", "requestId"])


@pytest.mark.long
def test_every_service_goes_on_while_another_is_away(apart: Apart) -> None:
    trace_id, answer = apart.export()
    assert (answer.status, apart.arrived(trace_id)) == (200, {trace_id: 1})

    apart.service("gateway").kill()
    assert apart.stored(trace_id) == 1
    assert apart.controlled().status == 200
    assert apart.ready() == {"gateway": False, "query": True, "control": True}

    apart.service("gateway").start()
    apart.service("query").stop()
    trace_id, answer = apart.export()
    assert answer.status == 200
    assert apart.controlled().status == 200

    apart.service("query").start()
    apart.service("control").stop()
    assert apart.arrived(trace_id) == {trace_id: 1}
    assert apart.export()[1].status == 200


@dataclass
class Senders:
    """Clients that send one span after another, each once, and remember what they were told."""

    apart: Apart
    acknowledged: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        while not self.stop.is_set():
            trace_id, answer = self.apart.export()
            if answer.status == 200:
                self.acknowledged.append(trace_id)
            else:
                refused(answer)
                self.refused.append(trace_id)
            self.stop.wait(0.02)


def more(answered: list[str]) -> None:
    """Wait until some more are answered so."""
    seen = len(answered)
    eventually(lambda: len(answered) > seen + 2 * SENDERS, "answers")


def sent_while_clickhouse_goes_and_comes(apart: Apart, end: str, *, refusing: bool) -> Senders:
    """What several clients were told, `refusing` or not while it is away."""
    senders = Senders(apart)
    with ThreadPoolExecutor(SENDERS) as threads:
        running = [threads.submit(senders.send) for _ in range(SENDERS)]
        try:
            for _ in range(2):
                more(senders.acknowledged)
                getattr(apart.engine, end)()
                more(senders.refused if refusing else senders.acknowledged)
                apart.engine.start()
            more(senders.acknowledged)
        finally:
            senders.stop.set()
        for one in running:
            one.result()
    return senders


@pytest.mark.parametrize("end", ["kill", pytest.param("stop", marks=pytest.mark.long)])
def test_nothing_is_refused_lost_or_doubled_when_clickhouse_goes_and_comes(apart: Apart, end: str) -> None:
    senders = sent_while_clickhouse_goes_and_comes(apart, end, refusing=False)
    assert senders.refused == []
    assert apart.arrived(*senders.acknowledged) == dict.fromkeys(senders.acknowledged, 1)


def test_while_clickhouse_is_away_exports_are_taken_and_only_reads_wait_for_it(apart: Apart) -> None:
    apart.engine.kill()
    try:
        trace_id, answer = apart.export()
        assert answer.status == 200
        in_envelope(apart.explored())
        assert apart.controlled().status == 200
        eventually(lambda: not apart.seen()["clickhouse"], "the gateway's word that ClickHouse is away")
        wanted = {"gateway": True, "query": False, "control": True}
        eventually(lambda: apart.ready() == wanted, "only query is not ready")
        assert apart.export()[1].status == 200
    finally:
        apart.engine.start()
    eventually(lambda: all(apart.ready().values()), "all ready again")
    assert apart.arrived(trace_id) == {trace_id: 1}


def test_a_clickhouse_that_hangs_is_one_that_is_away(apart: Apart) -> None:
    apart.engine.pause()
    try:
        trace_id, answer = apart.export()
        assert answer.status == 200
        eventually(lambda: not apart.seen()["clickhouse"], "the gateway's word that ClickHouse is away")
        assert is_ready(apart.service("gateway").url)
        assert apart.export()[1].status == 200
        assert apart.controlled().status == 200
    finally:
        apart.engine.resume()
    eventually(lambda: all(apart.ready().values()), "all ready again")
    assert apart.arrived(trace_id) == {trace_id: 1}


def test_while_the_database_is_away_known_keys_are_good(apart: Apart) -> None:
    assert apart.export()[1].status == 200
    apart.database.stop()
    try:
        trace_id, answer = apart.export()
        assert answer.status == 200
        unknown = {"X-Legacy-Auth": f"Legacy legacy_key={'0' * 32}"}
        refused(call("POST", f"{apart.sluice.gateway_url}/v1/traces", b"", unknown))
        # What a token reaches is remembered for some seconds.
        eventually(lambda: apart.controlled().status == apart.explored().status == 503, "reads are refused")
        in_envelope(apart.controlled())
        in_envelope(apart.explored())
        wanted = {"gateway": True, "query": False, "control": False}
        eventually(lambda: apart.ready() == wanted, "only the gateway is ready")
    finally:
        apart.database.start()
    eventually(lambda: apart.controlled().status == apart.explored().status == 200, "reads are answered again")
    assert apart.arrived(trace_id) == {trace_id: 1}


@contextmanager
def away(server: Engine | postgresql.PostgreSQL) -> Iterator[None]:
    """Without it."""
    server.stop()
    try:
        yield
    finally:
        server.start()


def start_all(sluice: Sluice) -> None:
    """Start the services until they live."""
    for service in sluice.services.values():
        service.begin()
    for service in sluice.services.values():
        service.wait_until_alive()


def test_services_start_before_what_they_need(apart: Apart) -> None:
    apart.sluice.stop()
    with away(apart.engine):
        with away(apart.database):
            start_all(apart.sluice)
            wanted = {"gateway": True, "query": False, "control": False}
            eventually(lambda: apart.ready() == wanted, "only the gateway is ready")
            assert apart.seen() == {"journal": True, "clickhouse": False, "database": False}
            refused(apart.export()[1])  # with a key that it has not seen yet
            in_envelope(apart.controlled())
            in_envelope(apart.explored())
        trace_id = eventually(lambda: taken(apart), "an export is taken, though ClickHouse was never there")
    eventually(lambda: all(apart.ready().values()), "all ready")
    assert apart.arrived(trace_id) == {trace_id: 1}


def taken(apart: Apart) -> str:
    """The trace of an export that is taken; empty for one that is not."""
    trace_id, answer = apart.export()
    return trace_id if answer.status == 200 else ""


def test_several_gateways_share_a_port(apart: Apart) -> None:
    gateway = apart.service("gateway")
    gateway.stop()
    gateway.options = ("--workers", "2")
    try:
        gateway.start()
        traces = [apart.export() for _ in range(20)]  # a connection each
        assert [answer.status for _, answer in traces] == [200] * 20
        trace_ids = [trace_id for trace_id, _ in traces]
        assert apart.arrived(*trace_ids) == dict.fromkeys(trace_ids, 1)
        gateway.stop()
    finally:
        gateway.kill()
        gateway.options = ()


def started(apart: Apart, tmp_path: Path, name: str, **settings: str) -> Service:
    """A service beside those of the deployment, begun."""
    service = Service(name, tmp_path / "data", tmp_path / "log", {**apart.service(name).environment, **settings})
    service.begin()
    return service


@pytest.mark.parametrize(
    ("name", "settings", "code", "sentence"),
    [
        ("gateway", {"database": "nowhere"}, 2, "Run `sluice migrate` to create it"),
        pytest.param("query", {"database": "default"}, 1, "Run `sluice migrate`", marks=pytest.mark.long),
        ("gateway", {"password": "wrong"}, 2, "rejected the user or password"),
        pytest.param("query", {"relational": "empty"}, 1, "Run `sluice migrate`", marks=pytest.mark.long),
        ("control", {"relational": "wrong"}, 1, "password authentication failed"),
    ],
)
def test_what_an_operator_must_mend_stops_the_start_with_one_sentence(
    apart: Apart, tmp_path: Path, name: str, settings: dict[str, Any], code: int, sentence: str
) -> None:
    changed = {}
    clickhouse = f"http://sluice:{settings.get('password', QUOTED)}@127.0.0.1:{apart.engine.port}"
    changed["SLUICE_CLICKHOUSE_URL"] = f"{clickhouse}/{settings.get('database', 'telemetry')}"
    if settings.get("relational") == "empty":
        changed["SLUICE_DATABASE_URL"] = apart.database.new_database()
    if settings.get("relational") == "wrong":
        changed["SLUICE_DATABASE_URL"] = apart.database.url("postgres", "not-this-one")
    service = started(apart, tmp_path, name, **changed)
    try:
        assert service.process is not None
        assert service.process.wait(60) == code
        said = service.log.read_text()
        assert sentence in said.splitlines()[-1]
        assert said.splitlines()[-1].startswith("sluice: ")
        for secret in (PASSWORD, QUOTED, "not-this-one", postgresql.PASSWORD):
            assert secret not in said
    finally:
        service.kill()


@pytest.mark.parametrize("mode", ["journal", pytest.param("store", marks=pytest.mark.long)])
def test_a_gateway_that_waits_for_its_tables_goes_on_when_they_are_made(
    apart: Apart, tmp_path: Path, mode: str
) -> None:
    """ClickHouse is away at its start and empty when it comes: there is nothing to restart after `sluice migrate`."""
    late = Engine(tmp_path / "late")
    settings = {"SLUICE_CLICKHOUSE_URL": f"{late.url}/late", "SLUICE_DURABILITY": mode}
    environment = {**apart.service("gateway").environment, **settings}
    service = started(apart, tmp_path, "gateway", **settings)
    try:
        service.wait_until_alive()
        late.start()
        key = {"X-Legacy-Auth": f"Legacy legacy_key={apart.sluice.key}", "Content-Type": "application/x-protobuf"}
        first, second = (one_span(os.urandom(16).hex()) for _ in range(2))
        answer = call("POST", f"{service.url}/v1/traces", first, key)
        if mode == "journal":
            assert answer.status == 200
            eventually(lambda: "Run `sluice migrate` to create it" in service.log.read_text(), "the reason")
        else:
            refused(answer)
        run("migrate", "--data", str(tmp_path / "operator"), environment=environment)
        eventually(lambda: all_there(service), "it has what it needs")
        assert call("POST", f"{service.url}/v1/traces", second, key).status == 200
        eventually(lambda: spans_in(late, "late") == (2 if mode == "journal" else 1), "what it took")
        service.stop()
    finally:
        service.kill()
        late.kill()


def all_there(service: Service) -> bool:
    """Whether it is ready, and none of its dependencies away."""
    answer = call("GET", f"{service.url}/readyz")
    return answer.status == 200 and all(each["ok"] for each in answer.json()["dependencies"])


def spans_in(engine: Engine, database: str) -> int:
    """How many spans a database of the engine has."""
    client = clickhouse_connect.get_client(dsn=engine.url, database=database, autogenerate_session_id=False)
    ((count,),) = client.query("SELECT count() FROM spans").result_rows
    client.close()
    return int(count)


@pytest.mark.parametrize("end", ["kill", pytest.param("stop", marks=pytest.mark.long)])
def test_what_is_acknowledged_after_the_insert_is_not_lost_or_doubled_either(storing: Apart, end: str) -> None:
    senders = sent_while_clickhouse_goes_and_comes(storing, end, refusing=True)
    copies = storing.copies()
    assert {trace_id: copies[trace_id] for trace_id in senders.acknowledged if copies[trace_id] != 1} == {}
    assert all(copies[trace_id] <= 1 for trace_id in senders.refused)


def test_in_the_mode_store_exports_are_told_to_come_back_while_clickhouse_is_away(storing: Apart) -> None:
    storing.engine.kill()
    try:
        refused(storing.export()[1])
        in_envelope(storing.explored())
        assert storing.controlled().status == 200
        wanted = {"gateway": False, "query": False, "control": True}
        eventually(lambda: storing.ready() == wanted, "only control is ready")
    finally:
        storing.engine.start()
    eventually(lambda: all(storing.ready().values()), "all ready again")
    trace_id, answer = storing.export()
    assert (answer.status, storing.stored(trace_id)) == (200, 1)


def test_in_the_mode_store_a_clickhouse_that_hangs_is_one_that_is_away(storing: Apart) -> None:
    storing.engine.pause()
    try:
        trace_id, answer = storing.export()
        refused(answer)
        eventually(lambda: not is_ready(storing.service("gateway").url), "not ready")
        assert storing.controlled().status == 200
    finally:
        storing.engine.resume()
    eventually(lambda: all(storing.ready().values()), "all ready again")
    assert storing.export()[1].status == 200
    assert storing.stored(trace_id) <= 1  # it may have been stored after its answer, once


@pytest.mark.long
def test_in_the_mode_store_services_start_before_what_they_need(storing: Apart) -> None:
    storing.sluice.stop()
    with away(storing.engine), away(storing.database):
        start_all(storing.sluice)
        eventually(lambda: storing.ready() == dict.fromkeys(APART, False), "none is ready")
        refused(storing.export()[1])
        in_envelope(storing.controlled())
        in_envelope(storing.explored())
    eventually(lambda: all(storing.ready().values()), "all ready")
    trace_id, answer = storing.export()
    assert (answer.status, storing.stored(trace_id)) == (200, 1)
