"""Gateway, query and control as processes of their own: what each goes on doing while something else is away."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import postgresql
from tests.e2e.product import APART, Answer, Service, Sluice, call, eventually, is_ready, run, set_up_apart
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

    def explored(self) -> Answer:
        return self.sluice.get(f"/orgs/{self.sluice.org}/projects/{self.sluice.project}/explore/spans?limit=1")

    def controlled(self) -> Answer:
        return self.sluice.get(f"/orgs/{self.sluice.org}/projects")

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


def test_every_service_goes_on_while_another_is_away(apart: Apart) -> None:
    trace_id, answer = apart.export()
    assert answer.status == 200

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
    assert apart.stored(trace_id) == 1
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


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_nothing_acknowledged_is_lost_or_doubled_when_clickhouse_goes_and_comes(apart: Apart, end: str) -> None:
    senders = Senders(apart)
    with ThreadPoolExecutor(SENDERS) as threads:
        running = [threads.submit(senders.send) for _ in range(SENDERS)]
        try:
            for _ in range(2):
                more(senders.acknowledged)
                getattr(apart.engine, end)()
                more(senders.refused)
                apart.engine.start()
            more(senders.acknowledged)
        finally:
            senders.stop.set()
        for one in running:
            one.result()
    assert [apart.stored(trace_id) for trace_id in senders.acknowledged] == [1] * len(senders.acknowledged)
    assert all(apart.stored(trace_id) <= 1 for trace_id in senders.refused)


def test_while_clickhouse_is_away_control_works_and_the_others_say_when_to_come_back(apart: Apart) -> None:
    apart.engine.kill()
    try:
        refused(apart.export()[1])
        in_envelope(apart.explored())
        assert apart.controlled().status == 200
        assert apart.ready() == {"gateway": False, "query": False, "control": True}
    finally:
        apart.engine.start()
    eventually(lambda: all(apart.ready().values()), "all ready again")
    trace_id, answer = apart.export()
    assert (answer.status, apart.stored(trace_id)) == (200, 1)


def test_a_clickhouse_that_hangs_is_one_that_is_away(apart: Apart) -> None:
    apart.engine.pause()
    try:
        trace_id, answer = apart.export()
        refused(answer)
        eventually(lambda: not is_ready(apart.service("gateway").url), "not ready")
        assert apart.controlled().status == 200
    finally:
        apart.engine.resume()
    eventually(lambda: all(apart.ready().values()), "all ready again")
    assert apart.export()[1].status == 200
    assert apart.stored(trace_id) <= 1  # it may have been stored after its answer, once


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
        assert apart.ready() == {"gateway": True, "query": False, "control": False}
    finally:
        apart.database.start()
    eventually(lambda: apart.controlled().status == apart.explored().status == 200, "reads are answered again")
    assert apart.stored(trace_id) == 1


def test_services_start_before_what_they_need(apart: Apart) -> None:
    apart.sluice.stop()
    apart.engine.stop()
    apart.database.stop()
    try:
        for service in apart.sluice.services.values():
            service.begin()
        for service in apart.sluice.services.values():
            service.wait_until_alive()
        assert apart.ready() == dict.fromkeys(APART, False)
        refused(apart.export()[1])
        in_envelope(apart.controlled())
        in_envelope(apart.explored())
    finally:
        apart.database.start()
        apart.engine.start()
    eventually(lambda: all(apart.ready().values()), "all ready")
    trace_id, answer = apart.export()
    assert (answer.status, apart.stored(trace_id)) == (200, 1)


def test_several_gateways_share_a_port(apart: Apart) -> None:
    gateway = apart.service("gateway")
    gateway.stop()
    gateway.options = ("--workers", "2")
    try:
        gateway.start()
        traces = [apart.export() for _ in range(20)]  # a connection each
        assert [answer.status for _, answer in traces] == [200] * 20
        assert [apart.stored(trace_id) for trace_id, _ in traces] == [1] * 20
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
        ("gateway", {"database": "nowhere"}, 1, "`sluice migrate` creates it"),
        ("query", {"database": "default"}, 1, "run `sluice migrate`"),
        ("gateway", {"password": "wrong"}, 1, "refuses the user or the password"),
        ("query", {"relational": "empty"}, 1, "run `sluice migrate`"),
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


def test_a_gateway_that_waits_for_its_tables_goes_on_when_they_are_made(apart: Apart, tmp_path: Path) -> None:
    """ClickHouse is away at its start and empty when it comes: there is nothing to restart after `sluice migrate`."""
    late = Engine(tmp_path / "late")
    environment = {**apart.service("gateway").environment, "SLUICE_CLICKHOUSE_URL": f"{late.url}/late"}
    service = started(apart, tmp_path, "gateway", SLUICE_CLICKHOUSE_URL=f"{late.url}/late")
    try:
        service.wait_until_alive()
        late.start()
        key = {"X-Legacy-Auth": f"Legacy legacy_key={apart.sluice.key}", "Content-Type": "application/x-protobuf"}
        body = one_span(os.urandom(16).hex())
        refused(call("POST", f"{service.url}/v1/traces", body, key))
        run("migrate", "--data", str(tmp_path / "operator"), environment=environment)
        eventually(lambda: is_ready(service.url), "it is ready")
        assert call("POST", f"{service.url}/v1/traces", body, key).status == 200
        service.stop()
    finally:
        service.kill()
        late.kill()
