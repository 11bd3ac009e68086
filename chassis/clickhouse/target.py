"""Parse the ClickHouse URL and open clickhouse-connect clients for it.

Connections to a ClickHouse server can be shut down while a thread waits for a response. A blocking read ends with its
response or its timeout, and a process that shuts down must not wait for the timeout of a server that hangs.
"""

import fcntl
import os
import re
import socket
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from weakref import WeakSet

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from clickhouse_connect.driver.httpclient import HttpClient
from clickhouse_connect.driver.httputil import all_managers, check_env_proxy, get_pool_manager
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from chassis.clickhouse import embedded, errors

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
        """Track a connection. Shut it down immediately if the client is being closed."""
        with self._lock:
            self._open.add(connection)
            is_aborted = self._aborted
        if is_aborted:
            _shut_down(connection)

    def abort(self) -> None:
        """Make every pending and future call fail."""
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
    sock = connection.sock  # read once, because its own thread may close the socket meanwhile
    if sock is not None:
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # the TCP socket, also with TLS: no close_notify is sent
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


_DATABASE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TLS_OPTIONS: Final = frozenset(("ca_cert", "client_cert", "client_cert_key"))
_PORTS: Final = {"http": 8123, "https": 8443}
_INVALID_URL: Final = (
    "The ClickHouse URL is not valid: the port must be a number, and / ? # @ : [ ] in the user or password must be "
    "percent-encoded."
)


class Target(NamedTuple):
    """A parsed ClickHouse URL. `directory` is set for the embedded engine, `host` for a server."""

    database: str | None
    directory: Path | None = None
    scheme: str = ""
    host: str = ""
    port: int = 0
    username: str | None = None
    password: str = ""
    options: tuple[tuple[str, str], ...] = ()
    memory_bytes: int = 0  # of the embedded engine; 0: two fifths of what the process may use

    @property
    def redacted_url(self) -> str:
        """The address for messages, without credentials."""
        return f"chdb://{self.directory}" if self.directory is not None else f"{self.scheme}://{self.host}:{self.port}"


def parse_url(url: str, database: str | None = None) -> Target:
    """Parse `chdb:///DIR` or `http(s)://user:pw@host:port/db`. Raises StoreMisconfigured with the reason.

    `database` overrides the database of the URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may quote the password
        raise errors.StoreMisconfigured(_INVALID_URL) from None
    if parts.scheme == "chdb":
        return _parse_embedded(parts, database)
    if parts.scheme not in _PORTS:
        raise errors.StoreMisconfigured(
            f"The ClickHouse URL has the unknown scheme {parts.scheme!r}. The URL must be chdb:///DIR, "
            "http://HOST:PORT/DB or https://HOST:PORT/DB."
        )
    if "@" in parts.path + parts.query + parts.fragment:  # a password with an unescaped / ? or #
        raise errors.StoreMisconfigured(_INVALID_URL)
    if not parts.hostname:
        raise errors.StoreMisconfigured("The ClickHouse URL has no host.")
    options = tuple(parse_qsl(parts.query))
    unknown = sorted({name for name, _ in options} - _TLS_OPTIONS)
    if unknown:
        raise errors.StoreMisconfigured(f"The ClickHouse URL has the unknown option {unknown[0]!r}.")
    return Target(
        database=_database_name(database or unquote(parts.path.strip("/")) or None),
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password or ""),
        options=options,
    )


def _parse_embedded(parts: SplitResult, database: str | None) -> Target:
    if parts.netloc or not parts.path.startswith("/") or parts.path == "/" or parts.query:
        raise errors.StoreMisconfigured(
            "The URL of the embedded ClickHouse must be chdb:///DIR with an absolute path, and have no other parts."
        )
    return Target(database=_database_name(database), directory=Path(unquote(parts.path)))


def _database_name(name: str | None) -> str | None:
    if name is not None and not _DATABASE.fullmatch(name):
        raise errors.StoreMisconfigured(
            f"{name!r} is not a ClickHouse database name (letters, digits and _, at most 64)."
        )
    return name


def open_client(target: Target, timeout_s: float, connections: AbortableConnections | None = None) -> Client:
    """Open a client and connect it, for a server over `connections`. Blocks. Raises StoreMisconfigured or
    StoreUnavailable.
    """
    if target.directory is not None:
        return _open_embedded(target, target.directory)
    return _open_server(target, timeout_s, connections)


def new_connections(target: Target) -> AbortableConnections | None:
    """Connections for one client of a server, with no connection opened yet. None for the embedded engine."""
    if target.directory is not None:
        return None
    options = dict(target.options)
    return AbortableConnections(
        target.scheme, target.host, target.port, {name: options.get(name) for name in _TLS_OPTIONS}
    )


def _open_server(target: Target, timeout_s: float, connections: AbortableConnections | None) -> Client:
    options = dict(target.options)
    try:
        client = clickhouse_connect.get_client(
            interface=target.scheme,
            host=target.host,
            port=target.port,
            username=target.username,
            password=target.password,
            database=target.database,
            # A session would serialize the calls, and a retry inside the library could repeat an insert unnoticed.
            autogenerate_session_id=False,
            query_retries=0,
            connect_timeout=5,
            send_receive_timeout=max(1, round(timeout_s)),
            # Blocks are sent uncompressed, because the gateway's CPU costs more than the network to ClickHouse.
            compress=False,
            pool_mgr=connections.pool if connections is not None else None,
            ca_cert=options.get("ca_cert"),
            client_cert=options.get("client_cert"),
            client_cert_key=options.get("client_cert_key"),
        )
    except (ClickHouseError, OSError) as error:
        raise errors.from_open(
            getattr(error, "code", None), f"{target.redacted_url}: {errors.reason(error)}"
        ) from error
    if isinstance(client, HttpClient):
        client.http_retries = 0
    return client


def _open_embedded(target: Target, directory: Path) -> Client:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise errors.StoreMisconfigured(f"The directory {directory} cannot be created: {error.strerror}.") from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise errors.StoreMisconfigured(f"The directory {directory} is not writable.")
    try:
        configuration = embedded.write_configuration(directory, embedded.engine_bytes(target.memory_bytes))
    except OSError as error:
        raise errors.StoreMisconfigured(f"The directory {directory} is not writable: {error.strerror}.") from error
    try:
        return clickhouse_connect.get_client(
            interface="chdb",
            path=str(directory),
            database=target.database,
            chdb_options={"config-file": str(configuration)},
        )
    except ImportError as error:
        raise errors.StoreMisconfigured(_why_not_loaded(), exit_code=1) from error
    except Error as error:
        if error.code is None and _held_by_another_process(directory):
            raise errors.StoreMisconfigured(
                f"The directory {directory} is in use by another process. Only one process can use an embedded engine.",
                exit_code=1,  # the setting may be correct, because the other process may be about to exit
            ) from error
        if error.code == errors.UNKNOWN_DATABASE:
            raise errors.from_open(error.code, str(error)) from error
        raise errors.StoreMisconfigured(f"The embedded engine cannot open {directory}: {error}") from error


def _why_not_loaded() -> str:
    """The reason why chdb cannot be imported. Its own error message is the same for all reasons."""
    if find_spec("chdb") is None:
        return (
            "The embedded engine needs the Python package chdb, which is not installed: pip install 'sluice[embedded]'."
        )
    return (
        "The embedded engine (chdb) is installed but cannot be loaded. The engine needs the machine's time zone: "
        "check that /usr/share/zoneinfo exists (Debian's package tzdata) and that TZ is the name of a time zone."
    )


def _held_by_another_process(directory: Path) -> bool:
    """Whether another process holds the engine's lock on `directory/status`; the engine's error does not say so."""
    try:
        with (directory / "status").open("rb") as status:
            fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
