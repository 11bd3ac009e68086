"""Cutting a client's connections while other threads open and close them."""

import socket
import sys
import threading
from collections.abc import Iterator

import pytest
from urllib3.connection import HTTPConnection

from chassis.clickhouse.target import AbortableConnections

MANY = 3_000


@pytest.fixture
def connections() -> Iterator[AbortableConnections]:
    connections = AbortableConnections("http", "127.0.0.1", 1, {})
    yield connections
    connections.close()


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_connections_may_be_made_while_they_are_cut(connections: AbortableConnections) -> None:
    made = [HTTPConnection("127.0.0.1", 1) for _ in range(MANY)]
    for connection in made[: MANY // 2]:
        connections.register(connection)

    def add() -> None:
        for connection in made[MANY // 2 :]:
            connections.register(connection)

    adding = threading.Thread(target=add)
    adding.start()
    connections.abort()
    while adding.is_alive():
        connections.abort()
    adding.join()


def test_a_connection_that_its_thread_closes_meanwhile_is_cut_all_the_same(connections: AbortableConnections) -> None:
    ours, theirs = socket.socketpair()

    class Closing(HTTPConnection):
        reads = 0

        @property
        def sock(self) -> socket.socket | None:
            self.reads += 1
            return ours if self.reads == 1 else None

        @sock.setter
        def sock(self, value: object) -> None:
            pass

    connection = Closing("127.0.0.1", 1)
    connection.reads = 0
    with ours, theirs:
        connections.register(connection)
        connections.abort()
        assert theirs.recv(1) == b""
