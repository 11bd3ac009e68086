"""Bind a port, serve until a signal, drain.

    start    bind -> start the cleanup contexts -> accept
    SIGTERM  /readyz turns 503, each response is the last of its connection
             -> after the drain delay, accept what the kernel has queued and stop accepting; servers of other
                protocols do the same (OTHER_SERVERS)
             -> wait up to DRAIN_GRACE_S for the connections to end (`_drain_connections`)
             -> finish requests in flight, close the cleanup contexts

The port is bound before anything is started, so a port in use is reported immediately, with one sentence.

Connections are accepted in batches, and after a pause if no file descriptor is free (`Acceptor`). asyncio itself logs
an error for each connection that it has no descriptor for. uvloop accepts one connection per loop iteration (since
libuv 1.45), so under load, when iterations are long, new clients wait for many seconds. uvloop also closes connections
that it has no descriptor for. Here, with both loops, a limited number of the connections that the kernel has queued is
accepted at a time. Without a free descriptor, connections stay in the kernel's queue for PAUSE_S.
"""

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiohttp import http_parser, web

from chassis.errors import StartupError
from chassis.http.connections.connection import connection_factory
from chassis.http.connections.registry import ConnectionContext, ConnectionRegistry
from chassis.http.preparse import PRE_PARSE_FILTERS
from chassis.runtime import fd_limits, memory
from chassis.runtime.health import HEALTH, OTHER_SERVERS
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

BACKLOG: Final = 1024  # connections that the kernel queues while the loop is busy
ACCEPT_BATCH: Final = 64  # connections accepted before the loop runs something else
CLOSE_ROUNDS: Final = 64  # of accepting at the end, if new connections arrive while others are connected
PAUSE_S: Final = 0.5  # when descriptors or memory for another connection are exhausted

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Accepts connections of a bound socket and gives each a new protocol, from `start` until `close`."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], telemetry: Telemetry) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._protocol = protocol
        self._telemetry = telemetry
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start listening and accepting. Raises OSError when the socket cannot listen."""
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit this option
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def close(self) -> None:
        """Accept the connections that the kernel has queued, then stop accepting. The listener stays open, and its
        owner must close it immediately, because the kernel resets connections that it queues meanwhile.
        """
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        else:
            self._loop.remove_reader(self._listener.fileno())
            with suppress(OSError):
                await self._accept_queued()
        await asyncio.gather(*self._connecting)

    async def _accept_queued(self) -> None:
        """Accept until no connection arrives while the last ones are being connected. Raises OSError like
        `_accept_some`.
        """
        for _ in range(CLOSE_ROUNDS):
            await asyncio.gather(*self._connecting)
            if not self._accept_some(BACKLOG):
                return

    def _accept(self) -> None:
        try:
            self._accept_some(ACCEPT_BATCH)
        except OSError as error:
            self._pause_accepting(error)

    def _accept_some(self, max_connections: int) -> int:
        """Accept at most `max_connections` connections from the queue. Returns how many were taken. Raises OSError when
        descriptors or memory for another connection are exhausted.
        """
        for taken in range(max_connections):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return taken
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                continue  # its client has closed the connection
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        return max_connections

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # its client has closed the connection meanwhile
            accepted.close()

    def _pause_accepting(self, error: OSError) -> None:
        """Stop accepting for PAUSE_S, because an immediate retry would be a busy loop."""
        self._telemetry.accept_pauses.inc()
        self._telemetry.log.warning("accepting connections paused", detail=error.strerror, pause_s=PAUSE_S)
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._accept)


DRAIN_GRACE_S: Final = 1.0  # for kept-alive and just accepted connections
DRAIN_POLL_S: Final = 0.01
_SIGNAL_DEBOUNCE_S: Final = 1.0  # signals within this time (from service manager and supervisor) count as one


async def serve(
    app: web.Application,
    listener: socket.socket,
    settings: ChassisSettings,
    telemetry: Telemetry,
    on_listening: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
    extra_listeners: Sequence[socket.socket] = (),
) -> None:
    """Serve `app` on a bound socket (`bind`) until SIGTERM or SIGINT, then drain. A later signal ends the process.

    `extra_listeners`: further bound sockets. `stop`: an event that ends serving like the first signal. Raises
    StartupError when a socket cannot listen, and every exception that a cleanup context raises when it starts.
    """
    stop = stop or asyncio.Event()
    _install_signal_handlers(stop)  # first, so that a signal during the start leaves nothing half open
    async with listening(app, listener, settings, telemetry, extra_listeners):
        memory.freeze_gc()
        on_listening()
        await stop.wait()
        app[HEALTH].draining = True
        telemetry.log.info("draining", delay_s=settings.drain_delay_s, timeout_s=settings.drain_timeout_s)
        await asyncio.sleep(settings.drain_delay_s)
    telemetry.log.info("stopped")


@asynccontextmanager
async def listening(
    app: web.Application,
    listener: socket.socket,
    settings: ChassisSettings,
    telemetry: Telemetry,
    extra_listeners: Sequence[socket.socket] = (),
) -> AsyncIterator[None]:
    """Start `app` and accept connections. On exit stop accepting, finish requests in flight, and close.

    The connection limit of the settings applies, or a lower limit if there are too few file descriptors.
    """
    runner = web.AppRunner(app, shutdown_timeout=settings.drain_timeout_s, handle_signals=False)
    listeners = (listener, *extra_listeners)
    try:
        await runner.setup()
        max_connections = _connection_limit(settings, telemetry, app[OTHER_SERVERS].descriptors)
        health = app[HEALTH]
        context = ConnectionContext(
            settings,
            telemetry,
            max_connections=max_connections,
            filters=app.get(PRE_PARSE_FILTERS, {}),
            is_draining=lambda: health.draining,
        )
        protocol = connection_factory(_server(runner), context)
        acceptors: list[Acceptor] = []
        try:
            for each in listeners:
                acceptors.append(_listen(Acceptor(each, protocol, telemetry), each))
            yield
        finally:
            health.draining = True
            for stop_accepting in app[OTHER_SERVERS].stop_accepting:
                stop_accepting()
            for acceptor in acceptors:
                await acceptor.close()
            for each in listeners:
                each.close()
            await _drain_connections(context.registry, min(DRAIN_GRACE_S, settings.drain_timeout_s))
    finally:
        for each in listeners:
            each.close()
        await runner.cleanup()


async def _drain_connections(registry: ConnectionRegistry, seconds: float) -> None:
    """Wait until all connections have ended, at most `seconds`. Each client may send one more request, whose response
    closes the connection. Closing a connection while a request is in transit would lose the request.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while len(registry) and loop.time() < end:  # noqa: ASYNC110 - no event signals that the last connection has ended
        await asyncio.sleep(DRAIN_POLL_S)


def bind_health(settings: ChassisSettings) -> list[socket.socket]:
    """The bound socket of the separate health port, if one is configured. Raises StartupError, like `bind`."""
    if not settings.health_port:
        return []
    if settings.health_port == settings.port:  # a port can be bound twice, but only one socket can listen
        raise StartupError("--health-port and --port must differ.", exit_code=2)
    return [bind("127.0.0.1", settings.health_port, option="--health-port")]


def bind(host: str, port: int, *, reuse_port: bool = False, option: str = "--port") -> socket.socket:
    """A TCP socket bound to the first address of `host`. `reuse_port`: other processes may bind the same port
    (SO_REUSEPORT). `option`: the command-line option of the port, for the message.

    Raises StartupError with one sentence for a port in use, an address of another machine, a missing permission, or an
    unknown host.
    """
    _require_c_parser()
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise StartupError(f"The host {host!r} cannot be resolved: {error.strerror}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _bind_error(host, port, error, option) from error
    return listener


def _listen(acceptor: Acceptor, listener: socket.socket) -> Acceptor:
    host, port = listener.getsockname()[:2]
    try:
        acceptor.start()
    except OSError as error:
        raise _bind_error(host, port, error) from error
    return acceptor


def _connection_limit(settings: ChassisSettings, telemetry: Telemetry, reserved: int) -> int:
    """The connection limit of the settings, or the number of file descriptors that are left when everything else is
    open, if that is lower. `reserved`: descriptors of other servers in the process.
    """
    affordable = fd_limits.connection_budget() - reserved
    if affordable < settings.max_connections:
        telemetry.log.warning(
            "connection limit lowered: too few file descriptors",
            configured=settings.max_connections,
            connections=affordable,
            hint="raise the limit on open files (ulimit -Hn, LimitNOFILE)",
        )
    return min(affordable, settings.max_connections)


def _bind_error(host: str, port: int, error: OSError, option: str = "--port") -> StartupError:
    if error.errno == errno.EADDRINUSE:
        return StartupError(
            f"Port {port} on {host} is in use. Stop the other program or choose another port with {option}."
        )
    if error.errno == errno.EACCES:
        return StartupError(
            f"Port {port} on {host} requires privileges that this user does not have. Choose a port above 1023."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartupError(f"{host} is not an address of this machine.")
    return StartupError(f"Cannot listen on port {port} of {host}: {error.strerror}.")


def _require_c_parser() -> None:
    """Require aiohttp's C parser, because its Python parser is many times slower and less tested."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise StartupError("aiohttp is installed without its C parser. Install a build of aiohttp for this platform.")


def _server(runner: web.AppRunner) -> web.Server:
    if runner.server is None:
        raise RuntimeError("the runner is not set up")
    return runner.server


def _install_signal_handlers(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        loop.call_later(_SIGNAL_DEBOUNCE_S, restore_default_handlers)

    def restore_default_handlers() -> None:
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(name)  # the next signal has its default effect and ends the process

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, on_signal)
