"""Liveness and readiness of a process (`/livez` and `/readyz`) and of its workers.

Servers of other protocols (`OtherServers`) drain together with the HTTP server, and share its file descriptors.

Several worker processes behind one port exchange metrics and readiness with each other and the supervisor. Each worker
listens on its own socket in Linux's abstract namespace, which the supervisor binds. A client sends the query `metrics`
or `ready`. The worker that gets `GET /metrics` queries the other workers and responds with the metrics of all workers.
Every sample has the label `worker`. A worker that does not respond in time is reported with `sluice_worker_up` 0. For
the supervisor each worker is a dependency (`WorkerDependency`).
"""

import asyncio
import os
import re
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
import structlog
from aiohttp import web

PROBE_TIMEOUT_S: Final = 2.0
REUSE_S: Final = 1.0  # how long results of probes are reused, so that a flood of /readyz causes no flood of probes
_NO_RESPONSE: Final = f"no response within {PROBE_TIMEOUT_S:g} s"
_UNAVAILABLE: Final = "does not respond"  # the public text, because a driver's error may name hosts, ports and users
_MAX_DETAIL: Final = 500  # characters of a driver's error, in the log

log = structlog.get_logger(__name__)


class NotReady(Exception):
    """A dependency responds but cannot be used now. The message is shown to clients, so it must not name hosts."""


class Dependency(Protocol):
    """A dependency of a service. `probe` raises while the dependency is unavailable. The message of the exception is
    logged and must not contain secrets.
    """

    @property
    def name(self) -> str: ...

    async def probe(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OptionalDependency:
    """A dependency that the service does not need for a while. `/readyz` reports its state, but does not fail."""

    dependency: Dependency

    @property
    def name(self) -> str:
        """The dependency's name."""
        return self.dependency.name

    async def probe(self) -> None:
        """Probe the dependency."""
        await self.dependency.probe()


class Probe(msgspec.Struct, frozen=True):
    """The result of the last probe of a dependency. `error` is null if it is available, otherwise a generic reason."""

    name: str
    ok: bool
    error: str | None
    required: bool


class Health:
    """The state that `/readyz` reports: every dependency by name, and whether the process is shutting down."""

    def __init__(
        self, service: str, dependencies: Sequence[Dependency], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.service = service
        self.draining = False
        self._dependencies = dependencies
        self._clock = clock
        self._lock = asyncio.Lock()
        self._unavailable: set[str] = set()
        self._round: tuple[float, list[Probe]] | None = None

    async def probes(self) -> list[Probe]:
        """Probe all dependencies concurrently, each for at most PROBE_TIMEOUT_S. Callers within REUSE_S share the
        result.
        """
        async with self._lock:
            if self._round is None or self._clock() - self._round[0] >= REUSE_S:
                probes = await asyncio.gather(*(self._probe(dependency) for dependency in self._dependencies))
                self._round = (self._clock(), probes)
            return self._round[1]

    def not_ready_reason(self, probes: Sequence[Probe]) -> str | None:
        """The reason why the process is not ready, which is safe to show to clients. None when the process is ready."""
        unavailable = [probe.name for probe in probes if probe.required and not probe.ok]
        if unavailable:
            return f"{', '.join(unavailable)} unavailable"
        return "the process is shutting down" if self.draining else None

    async def _probe(self, dependency: Dependency) -> Probe:
        required = not isinstance(dependency, OptionalDependency)
        limit = asyncio.timeout(PROBE_TIMEOUT_S)
        try:
            async with limit:
                await dependency.probe()
        except Exception as error:  # noqa: BLE001 - any error of a driver means that the dependency is unavailable
            text = _NO_RESPONSE if limit.expired() else str(error) if isinstance(error, NotReady) else _UNAVAILABLE
            self._log_unavailable(dependency.name, text if limit.expired() else _detail(error))
            return Probe(dependency.name, False, text, required)
        self._log_recovered(dependency.name)
        return Probe(dependency.name, True, None, required)

    def _log_unavailable(self, name: str, detail: str) -> None:
        """Log one line per change, not per probe, because load balancers probe every few seconds during an outage."""
        if name not in self._unavailable:
            self._unavailable.add(name)
            log.warning("dependency unavailable", service=self.service, dependency=name, detail=detail)

    def _log_recovered(self, name: str) -> None:
        if name in self._unavailable:
            self._unavailable.remove(name)
            log.warning("dependency recovered", service=self.service, dependency=name)


HEALTH: Final = web.AppKey("health", Health)


def _detail(error: Exception) -> str:
    """The error's own message, never the message of its cause, because a driver's message may quote a password."""
    return (str(error) or type(error).__name__)[:_MAX_DETAIL]


@dataclass
class OtherServers:
    """The servers of other protocols in the process. The cleanup contexts that run such a server add it when they
    start.
    """

    descriptors: int = 0  # files that all of them together may open, for connections
    # Each function is called once, when the HTTP server stops accepting.
    stop_accepting: list[Callable[[], None]] = field(default_factory=list)


OTHER_SERVERS: Final = web.AppKey("other_servers", OtherServers)


RESPONSE_TIMEOUT_S: Final = 1.0  # short, because a worker that hangs must not fail the scrape of all workers
MAX_EXPOSITION: Final = 16 * 2**20  # bytes
_CREDENTIALS: Final = struct.Struct("3i")  # ucred of a peer: process, user, group

METRICS: Final = b"metrics\n"
READY: Final = b"ready\n"  # the response is the reason why the worker is not ready as a line, or an empty line

_NAME: Final = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_UP: Final = b"# HELP sluice_worker_up 1 if the worker responds, 0 otherwise.\n# TYPE sluice_worker_up gauge\n"


class WorkerMetrics:
    """Metrics of the workers of a port, seen from one process. `own_number` is the number of this process, `listener`
    is its socket, and `names` are the sockets of all workers. The supervisor has no number and no socket.
    """

    def __init__(self, own_number: int | None, listener: socket.socket | None, names: Sequence[bytes]) -> None:
        self._own_number = own_number
        self._listener = listener
        self._names = names

    async def serve(self, exposition: Callable[[], bytes], app: web.Application) -> AsyncIterator[None]:
        """A cleanup context that serves `exposition` to the other workers, and readiness to the supervisor."""

        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if _is_same_user(writer):
                    async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                        query = await reader.readline()
                    writer.write(await _readiness(app[HEALTH]) if query == READY else exposition())
                    await writer.drain()
            except (OSError, TimeoutError, ValueError):
                pass  # the client has disconnected or sent an invalid query
            finally:
                writer.close()

        if self._listener is None:
            yield
            return
        server = await asyncio.start_unix_server(respond, sock=self._listener)
        yield
        server.close()

    async def collect(self, exposition: bytes) -> bytes:
        """The metrics of all workers. `exposition` contains the metrics of this process, if it is a worker."""
        others = [number for number in range(len(self._names)) if number != self._own_number]
        fetched = await asyncio.gather(*(self._fetch_exposition(number) for number in others))
        expositions = dict(zip(others, fetched, strict=True)) | (
            {} if self._own_number is None else {self._own_number: exposition}
        )
        return merge_expositions({number: expositions[number] for number in sorted(expositions)})

    async def _fetch_exposition(self, number: int) -> bytes:
        """The metrics of a worker. Empty when the worker does not respond in time."""
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                return await _query_worker(self._names[number], METRICS)
        except (OSError, TimeoutError) as error:
            log.warning("worker metrics unavailable", worker=number, error=str(error) or "no response in time")
            return b""


class WorkerDependency:
    """A worker as a dependency of its supervisor. The worker is unavailable when it does not respond, or when it
    reports that it is not ready.
    """

    def __init__(self, number: int, name: bytes) -> None:
        self.name = f"worker {number}"
        self._socket = name

    async def probe(self) -> None:
        """Raises NotReady with the worker's reason, or OSError when the worker does not respond."""
        response = await _query_worker(self._socket, READY)
        if response != b"\n":
            raise NotReady(response.decode().strip())


async def _readiness(health: Health) -> bytes:
    return f"{health.not_ready_reason(await health.probes()) or ''}\n".encode()


async def _query_worker(name: bytes, query: bytes) -> bytes:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, name)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
    try:
        if not _is_same_user(writer):
            raise PermissionError("the socket belongs to a process of another user")
        writer.write(query)
        response = b""
        while part := await reader.read(2**16):
            response += part
            if len(response) > MAX_EXPOSITION:
                raise OSError("the response is too long")
        if not response.endswith(b"\n"):
            raise ConnectionError("the response is truncated")
        return response
    finally:
        writer.close()


def _is_same_user(writer: asyncio.StreamWriter) -> bool:
    """Whether the peer is a process of the same user. Any user can connect to names of the abstract namespace."""
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def bind_worker_socket() -> socket.socket:
    """Create a listening socket with a free name that the system chooses (unix(7), autobind)."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen()
    return listener


def merge_expositions(expositions: Mapping[int, bytes]) -> bytes:
    """Merge the expositions of several workers. An empty exposition means that the worker did not respond."""
    families: dict[bytes, list[bytes]] = {}
    for worker, text in expositions.items():
        label = b'worker="%d"' % worker
        lines: list[bytes] = []
        for line in text.splitlines(keepends=True):
            if line.startswith((b"# HELP ", b"# TYPE ")):
                lines = families.setdefault(line.split(b" ", 3)[2], [])
                if line not in lines[:2]:
                    lines.append(line)
            else:
                lines.append(_with_label(line, label))
    up = [b'sluice_worker_up{worker="%d"} %d\n' % (worker, bool(text)) for worker, text in expositions.items()]
    return b"".join([line for lines in families.values() for line in lines] + [_UP, *up])


def _with_label(sample: bytes, label: bytes) -> bytes:
    """The sample line with an additional label before its other labels."""
    name = _NAME.match(sample)
    if name is None:
        return sample
    rest = sample[name.end() :]
    if rest.startswith(b"{}"):
        rest = rest[2:]
    if rest.startswith(b"{"):
        return b"%s{%s,%s" % (name[0], label, rest[1:])
    return b"%s{%s}%s" % (name[0], label, rest)
