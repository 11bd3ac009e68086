"""Fault 22: connections that are held for nothing, at every stage of a request. Closed in time, memory bounded, others
served: those who are connected and those who come.
"""

import socket
from contextlib import suppress
from typing import Final

import pytest

from tests.e2e.product import call, eventually
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site
from tests.faults.hostile import MIB, connected, is_closed, memory_below, most_connections, resident
from tests.faults.loading import loaded, more
from tests.selection import scaled

IDLE: Final = scaled(1_000, 10_000)
SOME: Final = scaled(100, 200)
UNENDING: Final = scaled(1_500, 4_000)
AT_THE_CAP: Final = scaled(1_000, 2_000)
PER_CONNECTION: Final = 20 * 2**10  # bytes of the gateway's memory; measured: 6 to 11 KB
# Scaled down from 10 and 15.
IMPATIENT: Final = {"SLUICE_HEADER_TIMEOUT_S": scaled("3", "6"), "SLUICE_BODY_TIMEOUT_S": "2"}


def running(make_gateway: MakeGateway, **settings: str) -> Gateway:
    gateway = make_gateway(settings=settings, layered=False)
    gateway.start()
    return gateway


def newcomer(gateway: Gateway) -> int:
    """The status of a request over a connection of its own."""
    return call("GET", f"{gateway.url}/livez").status


@pytest.mark.sized
def test_fault_22_idle_connections_and_slow_heads_and_bodies(make_gateway: MakeGateway, site: Site, run: str) -> None:
    """They stay as long as they may. At full size some idle ones give way: it is the cap."""
    gateway = running(make_gateway, **IMPATIENT)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: a\r\nX-Legacy-Auth: Legacy legacy_key={site.key}\r\n".encode()
    slow_body = head + b"Content-Type: application/x-protobuf\r\nContent-Length: 60000000\r\n\r\n"
    count = most_connections(IDLE)
    with loaded(gateway, site, run) as load:
        more(load)
        most = resident(gateway.process.pid) + count * PER_CONNECTION + 64 * MIB
        with (
            memory_below(gateway, most),
            connected(gateway.port, count) as idle,
            connected(gateway.port, SOME, head) as heads,
            connected(gateway.port, SOME, slow_body) as bodies,
        ):
            held = gateway.metric("sluice_http_connections")
            assert held > 0.9 * count - gateway.metric("sluice_http_expired_connections_total")
            for sock in (*heads, *bodies):
                sock.sendall(b"x")
            more(load)
            assert newcomer(gateway) == 200
            answers = {sock.recv(12) for sock in bodies}
            assert answers <= {b"HTTP/1.1 503", b""}, answers
            eventually(lambda: all(map(is_closed, [*idle, *heads, *bodies])), "all are closed", 60)
        more(load)
        assert load.count("reset") == 0
    assert gateway.metric("sluice_http_expired_connections_total") >= count
    assert gateway.metric("sluice_http_refused_connections_total") == 0
    assert gateway.metric("sluice_gateway_inflight_bytes") == gateway.metric("sluice_gateway_places_taken") == 0


@pytest.mark.sized
def test_fault_22_at_the_cap_those_who_wait_give_way(make_gateway: MakeGateway, site: Site, run: str) -> None:
    gateway = running(make_gateway, SLUICE_MAX_CONNECTIONS="100", SLUICE_HEADER_TIMEOUT_S="600")
    with loaded(gateway, site, run) as load:
        more(load)
        with connected(gateway.port, AT_THE_CAP, b"POST /v1/tr") as idle:
            assert gateway.metric("sluice_http_connections") <= 100
            assert newcomer(gateway) == 200
            more(load)
            assert sum(map(is_closed, idle)) >= AT_THE_CAP - 100
        assert load.count("reset") == 0


@pytest.mark.sized
def test_fault_22_heads_that_never_end(make_gateway: MakeGateway, site: Site, run: str) -> None:
    """A megabyte each of many connections, no more than one may have, and no less: what they may hold has a limit."""
    budget = 16 * MIB
    gateway = running(make_gateway, SLUICE_HEADER_TIMEOUT_S="600", SLUICE_MAX_HEAD_BUFFER_BYTES=str(budget))
    count = most_connections(UNENDING)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\n" + b"X-Endless: %s\r\n" % (b"e" * 8_000) * 130
    with loaded(gateway, site, run) as load:
        more(load)
        most = resident(gateway.process.pid) + budget + count * PER_CONNECTION + 64 * MIB
        with memory_below(gateway, most), connected(gateway.port, count, head[:60_000]) as unfinished:
            assert gateway.metric("sluice_http_head_bytes") <= budget
            more(load)
            assert newcomer(gateway) == 200
            answers = {answer_to_more(sock, head[60_000:]) for sock in unfinished[-100:]}
            assert answers == {b"HTTP/1.1 400"}, answers
            more(load)
        assert load.count("reset") == 0
    assert gateway.metric("sluice_http_head_memory_closed_connections_total") >= count - budget // 60_000
    eventually(lambda: gateway.metric("sluice_http_head_bytes") == 0, "nothing is held", 60)


def answer_to_more(sock: socket.socket, rest: bytes) -> bytes:
    """How the answer begins when the head goes on; it may come, and the connection be closed, before all is sent."""
    with suppress(ConnectionError):
        sock.sendall(rest)
    return sock.recv(12)
