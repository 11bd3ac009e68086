"""Bind a port, serve until a signal, drain.

    start    bind -> start the cleanup contexts -> accept
    SIGTERM  /readyz turns 503, each response is the last of its connection
             -> after the drain delay, accept what the kernel has queued and stop accepting; servers of other
                protocols do the same (OTHER_SERVERS)
             -> wait up to DRAIN_GRACE_S for the connections to end (`_drain_connections`)
             -> finish requests in flight, close the cleanup contexts

The port is bound before anything is started, so a port in use fails at once, with one sentence.
"""

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import http_parser, web

from chassis.errors import StartupError
from chassis.http.connections.acceptor import Acceptor
from chassis.http.connections.connection import connection_factory
from chassis.http.connections.registry import ConnectionContext, ConnectionRegistry
from chassis.http.preparse import PRE_PARSE_FILTERS
from chassis.runtime import fd_limits, memory
from chassis.runtime.health import HEALTH
from chassis.runtime.other_servers import OTHER_SERVERS
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

DRAIN_GRACE_S: Final = 1.0  # for kept-alive and just accepted connections
DRAIN_POLL_S: Final = 0.01
_SIGNAL_DEBOUNCE_S: Final = 1.0  # two signals within it (from a service manager and from a supervisor) count as one


async def serve(
    app: web.Application,
    listener: socket.socket,
    settings: ChassisSettings,
    telemetry: Telemetry,
    on_listening: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
    extra_listeners: Sequence[socket.socket] = (),
) -> None:
    """Serve `app` on a bound socket (`bind`) until SIGTERM or SIGINT, then drain; a later signal ends the process.

    `extra_listeners`: further bound sockets. `stop`: an event that ends serving like the first signal. Raises
    StartupError when a socket cannot listen, and what a cleanup context raises when it starts.
    """
    stop = stop or asyncio.Event()
    _install_signal_handlers(stop)  # before anything is opened: a signal during the start leaves nothing half open
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
    """Start `app` and accept connections; on exit stop accepting, finish requests in flight, and close.

    The connection limit is that of the settings, or lower if the file descriptors do not suffice.
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
    """Wait until all connections have ended, at most `seconds`: each client may send one more request, whose response
    closes the connection. Closing a connection while a request is in transit would lose the request.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while len(registry) and loop.time() < end:  # noqa: ASYNC110 - nothing else waits for the last connection to end
        await asyncio.sleep(DRAIN_POLL_S)


def bind_health(settings: ChassisSettings) -> list[socket.socket]:
    """The bound socket of the separate health port, if one is configured. Raises StartupError, like `bind`."""
    if not settings.health_port:
        return []
    if settings.health_port == settings.port:  # it can be bound twice, but not listened on
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
    """The connection limit of the settings, or that of the file descriptors left once everything else is open.
    `reserved`: descriptors of other servers in the process.
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
        return StartupError(f"Port {port} on {host} is in use; stop the other program or choose another with {option}.")
    if error.errno == errno.EACCES:
        return StartupError(
            f"Port {port} on {host} requires privileges that this user does not have; choose a port above 1023."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartupError(f"{host} is not an address of this machine.")
    return StartupError(f"Cannot listen on port {port} of {host}: {error.strerror}.")


def _require_c_parser() -> None:
    """Require aiohttp's C parser: the one in Python is many times slower and less tested."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise StartupError("aiohttp is installed without its C parser; install a build of aiohttp for this platform.")


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
            loop.remove_signal_handler(name)  # the next signal has its default effect: it ends the process

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, on_signal)
