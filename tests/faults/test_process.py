"""The process is stopped, paused, starved, told a wrong time: nothing acknowledged is lost or stored twice."""

import logging
import resource
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tests.e2e.product import Answer, Process, call, eventually, is_ready
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site, settled
from tests.faults.loading import loaded, more, more_inserts, nobody_waited
from tests.faults.proxy import Proxy, Reset
from tests.faults.records import Body, Export, body_of, rejected_of
from tests.faults.sdk import PATIENCE_S, SdkClient
from tests.faults.zygote import Zygote
from tests.ports import free_port
from tests.selection import scaled

HOUR_NS = 3600 * 10**9
YEAR_NS = 365 * 24 * HOUR_NS
IN_FLIGHT = 8


@pytest.fixture
def gateway(make_gateway: MakeGateway, zygote: Zygote) -> Gateway:
    """Running."""
    gateway = make_gateway(zygote=zygote, settings={"SLUICE_DRAIN_TIMEOUT_S": "3"})
    gateway.start()
    return gateway


class Half:
    """An export whose body is half sent."""

    def __init__(self, gateway: Gateway, site: Site, run: str, number: int) -> None:
        self.export = Export(number, 0, 20)
        path, headers, self._content = body_of(self.export, run)
        headers.update({"X-Legacy-Auth": f"Legacy legacy_key={site.key}", "Content-Length": str(len(self._content))})
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._sock = socket.create_connection(("127.0.0.1", gateway.port), timeout=20)
        self._sock.sendall(f"POST {path} HTTP/1.1\r\nHost: sluice\r\n{head}\r\n".encode())
        self._sock.sendall(self._content[: len(self._content) // 2])

    def complete(self) -> None:
        """Send the rest, and read the answer."""
        self._sock.sendall(self._content[len(self._content) // 2 :])
        with self._sock, self._sock.makefile("rb") as answer:
            self.export.answers.append(answer.readline().split()[1].decode())

    def close(self) -> None:
        self._sock.close()


def test_fault_03_sigterm_with_bodies_in_flight(gateway: Gateway, site: Site, run: str) -> None:
    halves = [Half(gateway, site, run, number) for number in range(IN_FLIGHT)]
    never = Half(gateway, site, run, IN_FLIGHT)
    try:
        eventually(lambda: gateway.metric("sluice_http_connections") > IN_FLIGHT, "all are being read")
        gateway.signal(signal.SIGTERM)
        eventually(lambda: '"event": "draining"' in gateway.log, "it drains")
        for half in halves:
            half.complete()
        assert [half.export.answers for half in halves] == [["200"]] * IN_FLIGHT
        assert gateway.process.wait(20) == 0  # although one body never comes
    finally:
        never.close()
    gateway.start()
    records = settled(site, gateway, [half.export for half in halves], run)
    assert (records.faults, records.again) == ({}, 0), records


def test_fault_25_sigstop_for_half_a_minute_scaled_to_seconds(gateway: Gateway, site: Site, run: str) -> None:
    with loaded(gateway, site, run, attempt_s=0.5) as load:
        more(load)
        gateway.signal(signal.SIGSTOP)
        before = load.count("timeout")
        try:
            eventually(lambda: load.count("timeout") > before + 10, "clients give up")
        finally:
            gateway.signal(signal.SIGCONT)
        more(load)
        assert gateway.metric("sluice_loop_lag_worst_seconds") > 0.3  # it was told, however short


def connections(gateway: Gateway, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(count)]


def test_fault_26_fd_exhaustion(make_gateway: MakeGateway, site: Site, run: str) -> None:
    """With a low limit (`ulimit -n`) connections get what the journal and the stores leave, and idle ones give way."""
    gateway = make_gateway()
    gateway.begin()
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (400, 400))  # long before it looks
    gateway.wait_until_ready()
    held: list[socket.socket] = []
    try:
        with loaded(gateway, site, run) as load:
            more(load)
            held = connections(gateway, 300)
            more(load, 60)
            assert gateway.open_files() < 300
    finally:
        for sock in held:
            sock.close()
    assert "Too many open files" not in gateway.log


def test_fault_26_not_one_descriptor_is_left(gateway: Gateway, site: Site, run: str) -> None:
    """Not even of its reserve: it may have to refuse, but loses nothing, and goes on when there are some again."""
    with loaded(gateway, site, run) as load:
        more(load)
        usual = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (gateway.open_files() + 5, usual[1]))
        held = connections(gateway, 30)
        try:
            eventually(lambda: "accepting connections paused" in gateway.log, "it can take none")
        finally:
            for sock in held:
                sock.close()
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, usual)
        eventually(lambda: call("GET", f"{gateway.url}/livez").status == 200, "others get in again")
        more(load)
    assert not gateway.ends_by_itself(0)


def post(gateway: Gateway, site: Site, body: Body) -> Answer:
    headers = {**body.headers, "X-Legacy-Auth": f"Legacy legacy_key={site.key}"}
    return call("POST", gateway.url + body.path, body.content, headers)


# How far ahead the gateway is; whether it takes items of now, and items of what it has for now.
CLOCKS = {
    "an-hour-ahead": (HOUR_NS, True, True),
    "an-hour-behind": (-HOUR_NS, True, True),
    "in-1970": (-56 * YEAR_NS, False, False),
    "in-2100": (74 * YEAR_NS, False, True),
}


def test_fault_19_clock_is_wrong(make_gateway: MakeGateway, zygote: Zygote, proxy: Proxy, site: Site, run: str) -> None:
    """Its timers go on, its tokens hold, what is out of bounds by its clock is rejected and counted; never a 5xx."""
    gateway = make_gateway(zygote=zygote, clickhouse_port=proxy.port)
    gateway.start()
    with loaded(gateway, site, run) as load:
        more(load)
        for ahead in (HOUR_NS // 2, -HOUR_NS // 2, 0):  # within what an item may be ahead
            gateway.layer.set_clock(ahead)
            proxy.next(Reset())
            more_inserts(proxy, lambda seen: seen.fault == Reset(), 1)
            more(load)
    nobody_waited(load)
    taken: list[Export] = []
    for number, (clock, (ahead, takes_now, takes_its_own)) in enumerate(CLOCKS.items()):
        gateway.layer.set_clock(ahead)
        for start_ns, takes in ((time.time_ns(), takes_now), (time.time_ns() + ahead, takes_its_own)):
            export = Export(number, len(taken) * 10, 4, answers=["200"])
            answer = post(gateway, site, body_of(export, f"{run}-set", start_ns=start_ns))
            assert (answer.status, rejected_of(export, answer.body)) == (200, 0 if takes else 4), (clock, takes)
            taken += [export] if takes else []
    gateway.layer.set_clock(0)
    records = settled(site, gateway, taken, f"{run}-set")
    assert (records.faults, records.stored) == ({}, 4 * len(taken)), records


@pytest.mark.long
def test_a_rolling_restart_under_load_fails_no_export(
    make_gateway: MakeGateway, site: Site, run: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As docs/operations.md has it: the next one starts on the same port and directory, says at its own health port
    that it is ready, and the one before is told to end; the first of them is given up. Nobody is refused or reset, SDKs
    that keep their connection or clients that make a new one each time. Or, as it may be, the next one starts when the
    last has gone, and an SDK tries again until it is there.
    """
    caplog.set_level(logging.CRITICAL, "opentelemetry")  # it warns of every attempt
    ports = (free_port(), free_port())
    settings: dict[str, str] = {}
    gateway = make_gateway(options=("--workers", "2"), settings=settings)
    gateway.start()
    clients = [SdkClient(gateway.url, site.key, run, number) for number in range(scaled(2, 3))]
    try:
        with loaded(gateway, site, f"{run}-new", reconnect=True, rate=scaled(8.0, 30.0)) as load:
            before = gateway.process
            for turn in scaled((1,), (0, 1, 2)):  # in turn 0 the next one is given up
                settings["SLUICE_HEALTH_PORT"] = str(ports[turn % 2])
                gateway.begin()
                send_until(clients, partial(is_ready, f"http://127.0.0.1:{ports[turn % 2]}"))
                goes, stays = (before, gateway.process) if turn else (gateway.process, before)
                goes.send_signal(signal.SIGTERM)
                send_until(clients, partial(has_ended, goes))
                assert goes.returncode == 0
                before = stays
                send_until(clients, more_answers(clients))
        assert {answer for export in load.exports for answer in export.answers} == {"200"}
        answers = {answer for client in clients for export in client.exports for answer in export.answers}
        assert answers == {"200"}

        gateway.signal(signal.SIGTERM)
        send_until(clients, lambda: gateway.ends_by_itself(0))
        assert gateway.process.returncode == 0
        gateway.begin()
        send_until(clients, more_answers(clients))
    finally:
        exports = [export for client in clients for export in client.finish()]
    assert {client.failed for client in clients} == {0}
    records = settled(site, gateway, exports, run)
    assert (records.faults, records.unanswered) == ({}, 0), records


def has_ended(process: Process) -> bool:
    return process.poll() is not None


def send_until(clients: Sequence[SdkClient], done: Callable[[], bool]) -> None:
    """Spans of all clients, some hundred a second."""

    def send() -> bool:
        for client in clients:
            client.span()
        return done()

    eventually(send, "the next step", 2 * PATIENCE_S)


def more_answers(clients: Sequence[SdkClient]) -> Callable[[], bool]:
    """Whether each of the clients has had two more exports answered from now on."""
    seen = [client.answered for client in clients]
    return lambda: all(client.answered >= before + 2 for client, before in zip(clients, seen, strict=True))
