"""Connections to a ClickHouse server that can be shut down while a thread waits for a response.

A blocking read ends with its response or its timeout; a process that shuts down must not wait that long for a server
that hangs.
"""

import socket
import threading
from typing import Any, Final
from weakref import WeakSet

from clickhouse_connect.driver.httputil import all_managers, check_env_proxy, get_pool_manager
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

_PROXIES: Final = {"http": "http_proxy", "https": "https_proxy"}


class AbortableConnections:
    """The connections of one client."""

    def __init__(self, scheme: str, host: str, port: int, tls: dict[str, Any]) -> None:
        self._lock = threading.Lock()  # threads connect while the event loop's thread aborts
        self._open: WeakSet[HTTPConnection] = WeakSet()
        self._aborted = False
        options = {**tls, _PROXIES[scheme]: check_env_proxy(scheme, host, port)}
        self.pool: PoolManager = get_pool_manager(**options)
        self.pool.pool_classes_by_scheme = _pool_classes(self)

    def register(self, connection: HTTPConnection) -> None:
        """Track a connection; shut it down at once if the client is being closed."""
        with self._lock:
            self._open.add(connection)
            is_aborted = self._aborted
        if is_aborted:
            _shut_down(connection)

    def abort(self) -> None:
        """Fail every call, pending and future."""
        with self._lock:
            self._aborted = True
            connections = set(self._open)
        for connection in connections:
            _shut_down(connection)

    def close(self) -> None:
        """Close the idle connections."""
        self.pool.clear()
        all_managers.pop(self.pool, None)


def _shut_down(connection: HTTPConnection) -> None:
    sock = connection.sock  # read once: its own thread may close it meanwhile
    if sock is not None:
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # the TCP socket also under TLS: no close_notify is sent
        except OSError:
            pass  # already closed


def _pool_classes(connections: AbortableConnections) -> dict[str, Any]:
    class Http(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            connections.register(self)

    class Https(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            connections.register(self)

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}
