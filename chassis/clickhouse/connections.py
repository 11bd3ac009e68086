"""Connections to a ClickHouse server that can be cut while a thread waits for their answer.

A blocking read ends with its answer or its timeout, and a process that stops must not wait that long for a server that
hangs.
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
        self._lock = threading.Lock()  # threads connect while the event loop's cuts
        self._open: WeakSet[HTTPConnection] = WeakSet()
        self._aborted = False
        options = {**tls, _PROXIES[scheme]: check_env_proxy(scheme, host, port)}
        self.pool: PoolManager = get_pool_manager(**options)
        self.pool.pool_classes_by_scheme = _pool_classes(self)

    def register(self, connection: HTTPConnection) -> None:
        """Remember one, or cut it at once: the client is being closed."""
        with self._lock:
            self._open.add(connection)
            late = self._aborted
        if late:
            _shut_down(connection)

    def abort(self) -> None:
        """End every call under way, now and later."""
        with self._lock:
            self._aborted = True
            connections = set(self._open)
        for connection in connections:
            _shut_down(connection)

    def close(self) -> None:
        """Close what is idle."""
        self.pool.clear()
        all_managers.pop(self.pool, None)


def _shut_down(connection: HTTPConnection) -> None:
    sock = connection.sock  # read once: its own thread may close it meanwhile
    if sock is not None:
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # under TLS as well: nothing is said any more
        except OSError:
            pass  # it is closed


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
