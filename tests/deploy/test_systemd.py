"""The units of deploy/systemd, started by systemd: the commands of docs/deployment.md are run as they stand there, and
what they start is killed, stopped, misconfigured and rebooted.
"""

import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests import postgresql
from tests.deploy.machine import Machine, documented, own_network
from tests.e2e.product import Sluice, call, eventually, is_ready
from tests.engine.process import Engine
from tests.gateway.otlp import PROTOBUF, span, traces

pytestmark = pytest.mark.long

DATA: Final = "/var/lib/sluice"
SETTINGS: Final = "/etc/sluice"
SENDERS: Final = 4
READY_S: Final = 60.0
GATEWAYS: Final = {f"sluice-gateway@{number}": f"http://127.0.0.{number}:4318" for number in (1, 2)}
APART: Final = {**GATEWAYS, "sluice-query": "http://127.0.0.1:4319", "sluice-control": "http://127.0.0.1:4320"}
SENT: Final = "Sent and stored: 3 spans, 1 log record."
ENDED: Final = ("ActiveState", "Result", "ExecMainStatus", "NRestarts")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Running, with Sluice installed and no unit started. This thread is in its network."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        machine.unpack()
        machine.install(documented("python3 -m venv /opt/sluice"))
        with own_network():
            machine.boot()
            yield machine
    finally:
        machine.close()


class Deployment(Sluice):
    """What the units serve, each on the port of its own."""

    gateways: tuple[str, ...] = ("http://127.0.0.1:4318",)
    query = control = "http://127.0.0.1:4318"

    @property
    def gateway_url(self) -> str:
        return self.gateways[0]

    @property
    def query_url(self) -> str:
        return self.query

    @property
    def control_url(self) -> str:
        return self.control

    def offer(self, trace_id: bytes, number: int) -> bool:
        """Export a span to the first gateway that takes it, as a proxy does; whether one did."""
        headers = {"X-Legacy-Auth": f"Legacy legacy_key={self.key}", "Content-Type": PROTOBUF}
        body = traces(span(number, trace_id=trace_id))
        for url in self.gateways:
            try:
                answer = call("POST", f"{url}/v1/traces", body, headers)
            except OSError:
                continue
            if answer.status == 200:
                return True
        return False

    def stored(self, trace_id: bytes) -> int:
        """How many spans of the trace are stored."""
        found = self.explore(f"/traces/{trace_id.hex()}/waterfall")
        return int(found["spanCount"]) if found else 0


def reached(written: Mapping[str, Any], data: Path) -> Deployment:
    """By what the set-up wrote down."""
    return Deployment(
        services={},
        data=data,
        org=written["orgSlug"],
        project=written["projectSlug"],
        project_id=written["projectId"],
        key=written["legacyKey"],
        token=written["accessToken"],
    )


@dataclass
class Load:
    """Spans of one trace, from several threads."""

    sluice: Deployment
    trace_id: bytes
    acknowledged: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    stopping: bool = False

    def send(self, numbers: Iterator[int]) -> None:
        while not self.stopping:
            number = next(numbers)
            (self.acknowledged if self.sluice.offer(self.trace_id, number) else self.refused).append(number)

    def more(self) -> None:
        """Wait until exports have gone by."""
        enough = len(self.acknowledged) + 20
        eventually(lambda: len(self.acknowledged) >= enough, "exports go by", READY_S)

    def all_stored(self) -> bool:
        """What is in flight as a process is killed may be stored and not acknowledged."""
        least, stored = len(self.acknowledged), self.sluice.stored(self.trace_id)
        return least <= stored <= least + len(self.refused)


@contextmanager
def load(sluice: Deployment) -> Iterator[Load]:
    """While the block runs; at its end everything that was acknowledged is stored, once."""
    running = Load(sluice, os.urandom(16))
    numbers = itertools.count(1)
    with ThreadPoolExecutor(SENDERS) as pool:
        sending = [pool.submit(running.send, numbers) for _ in range(SENDERS)]
        try:
            running.more()
            yield running
            running.more()
        finally:
            running.stopping = True
        for each in sending:
            each.result()
    eventually(running.all_stored, f"{len(running.acknowledged)} spans are stored", READY_S)


def kill(machine: Machine, unit: str, url: str) -> None:
    """Its main process, without a word; systemd starts another one, which becomes ready."""
    before = machine.main_process(unit)
    machine(f"kill -KILL {before}")
    eventually(lambda: machine.main_process(unit) not in {0, before}, f"{unit} is started again", READY_S)
    eventually(lambda: is_ready(url), f"{unit} is ready", READY_S)


def misconfigure(machine: Machine, unit: str, file: str) -> None:
    """Restart a unit with a setting that does not exist: it ends for good, and says why. Then mend it."""
    path = machine.root / SETTINGS.lstrip("/") / file
    good = path.read_text()
    path.write_text(f"{good}\nprot = 1\n")
    machine(f"systemctl restart {unit}")
    eventually(lambda: machine.show(unit, "ActiveState") == {"ActiveState": "failed"}, f"{unit} ends", READY_S)
    expected = {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2", "NRestarts": "0"}
    assert machine.show(unit, *ENDED) == expected
    assert "Unknown setting: prot in " in machine.logs(unit)
    path.write_text(good)
    machine(f"systemctl start {unit}")


def is_hardened(machine: Machine, unit: str) -> bool:
    """Whether the kernel holds the process to what its unit says: where systemd cannot, it may go on without."""
    pid = machine.main_process(unit)
    status = dict(re.findall(r"^(\w+):\t(.*)$", machine(f"cat /proc/{pid}/status"), re.MULTILINE))
    mounts = machine(f"cat /proc/{pid}/mountinfo")
    return (
        (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)
        and re.search(r"^(\S+ ){4}/ ro,", mounts, re.MULTILINE) is not None
        and re.search(rf"^(\S+ ){{4}}{DATA} rw,", mounts, re.MULTILINE) is not None
        and "hidepid=invisible,subset=pid" in mounts
        and len(machine(f"cat /proc/{pid}/uid_map").splitlines()) > 1
    )


@pytest.fixture
def up(machine: Machine) -> Iterator[Deployment]:
    """All in one process, by the commands of the documentation; a trace is sent, and the page opened."""
    said = machine(documented("install -m 0600 /dev/null /etc/sluice/sluice.toml"))
    try:
        assert SENT in said
        assert re.search(r"^http://127\.0\.0\.1:4318/ui/\S+$", said, re.MULTILINE)
        credentials = machine.root / DATA.lstrip("/") / "bootstrap.json"
        yield reached(msgspec.json.decode(credentials.read_bytes()), credentials.parent)
    finally:
        machine(f"systemctl disable --now sluice; rm -rf {DATA}")


def test_sluice_up_outlives_what_happens_to_a_service(machine: Machine, up: Deployment) -> None:
    assert is_hardened(machine, "sluice")
    with load(up) as running:
        kill(machine, "sluice", up.gateway_url)
        running.more()
        machine("systemctl stop sluice")
        expected = {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0", "NRestarts": "1"}
        assert machine.show("sluice", *ENDED) == expected
        machine("systemctl start sluice")
    misconfigure(machine, "sluice", "sluice.toml")
    eventually(lambda: is_ready(up.gateway_url), "sluice is ready", READY_S)
    machine.reboot()
    eventually(lambda: is_ready(up.gateway_url), "sluice is ready", READY_S)
    assert up.stored(running.trace_id) >= len(running.acknowledged)


def test_a_unit_is_started_again_however_often_it_ends(machine: Machine, up: Deployment) -> None:
    for _ in range(12):  # by default systemd gives up after five in a window of ten seconds
        eventually(lambda: machine.main_process("sluice"), "it is started again", READY_S)
        machine("systemctl kill --signal=KILL sluice")
    eventually(lambda: is_ready(up.gateway_url), "sluice is ready", READY_S)


@pytest.fixture
def apart(machine: Machine, tmp_path: Path) -> Iterator[Deployment]:
    """Two gateways, query and control over servers of this thread's network, by the commands of the documentation."""
    engine = Engine(tmp_path / "engine")
    engine.start()
    try:
        with postgresql.running(tmp_path) as server:
            database_url = server.new_database()
            for name in ("gateway", "query", "control", "migrate"):
                url = engine.reader_url if name == "query" else engine.url
                stores = f'clickhouse_url = "{url}/units"\ndatabase_url = "{database_url}"\n'
                more = 'public_url = "https://telemetry.example.com"\ntrusted_proxies = ["127.0.0.1"]\n'
                (machine.root / SETTINGS.lstrip("/") / f"{name}.toml").write_text(stores + more)
            try:
                said = machine(documented("chmod 0600 /etc/sluice/*.toml"))
                assert SENT in said
                credentials = machine.root / "root/sluice/init-shop-checkout.json"
                sluice = reached(msgspec.json.decode(credentials.read_bytes()), credentials.parent)
                sluice.gateways = tuple(GATEWAYS.values())
                sluice.query, sluice.control = APART["sluice-query"], APART["sluice-control"]
                yield sluice
            finally:
                machine(f"systemctl disable --now {' '.join(APART)}; rm -rf {DATA} /root/sluice")
    finally:
        engine.stop()


def test_services_apart_outlive_what_happens_to_them(machine: Machine, apart: Deployment) -> None:
    assert {unit: is_hardened(machine, unit) for unit in APART} == dict.fromkeys(APART, True)
    files = machine.root / SETTINGS.lstrip("/")
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.glob("*.toml")} == {0o600}
    with load(apart) as running:
        machine(documented("for i in 1 2; do\n    systemctl restart"))  # one after the other
        assert running.refused == []
    for unit in GATEWAYS:
        assert machine.show(unit, "Result", "NRestarts") == {"Result": "success", "NRestarts": "0"}
    with load(apart) as running:
        for unit, url in APART.items():
            kill(machine, unit, url)
    assert "drain" in machine.logs("sluice-gateway@*")
    misconfigure(machine, "sluice-query", "query.toml")
    eventually(lambda: is_ready(apart.query_url), "query is ready", READY_S)
    with load(apart) as running:
        pass
    machine.reboot()
    for unit, url in APART.items():
        eventually(partial(is_ready, url), f"{unit} is ready", READY_S)
    assert apart.stored(running.trace_id) >= len(running.acknowledged)


def test_a_second_signal_ends_a_service_that_drains(machine: Machine, apart: Deployment) -> None:
    before = machine.main_process("sluice-control")
    machine("systemctl kill --kill-whom=main --signal=TERM sluice-control")
    eventually(lambda: not is_ready(apart.control_url), "it drains", READY_S)
    assert machine.main_process("sluice-control") == before

    def is_ended() -> bool:
        """Signals of one second count as one."""
        machine(f"kill -TERM {before} || true")
        return machine.main_process("sluice-control") != before

    eventually(is_ended, "it ends", 5)  # alone it drains for ten seconds
    eventually(lambda: is_ready(apart.control_url), "control is ready", READY_S)
