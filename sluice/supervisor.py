"""Runs several processes on one port (SO_REUSEPORT): the kernel distributes connections, and a supervisor runs the
workers.

`supervise` opens the sockets and runs a `Supervisor`. The supervisor holds the port and the data directory, and serves
only its health port. It announces the address when every worker accepts connections. It forwards SIGTERM and SIGINT as
SIGTERM, and the workers drain. If a worker exits unexpectedly, the supervisor stops all workers and logs how this
worker exited, so that the service manager sees the failure and restarts the command.

Each worker (`run_worker`) inherits:

- its listening sockets, taken over from the previous supervisor if there is one (`handover`);
- a metrics socket: the other workers read its metrics from it, and the supervisor its readiness
  (`chassis.runtime.health`);
- a ready pipe, to report that it accepts connections;
- the parent pipe. Only the supervisor has its write end, and never writes to it. The pipe closes when the supervisor
  exits for any reason. The worker then drains as on a signal.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import msgspec
import structlog

from chassis.http.serve import DRAIN_GRACE_S, bind, bind_health, listening, serve
from chassis.http.web import build_app
from chassis.runtime.health import Dependency, NotReady, WorkerDependency, WorkerMetrics, bind_worker_socket
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from sluice import handover, process
from sluice.app_builder import compose_app
from sluice.settings_sources import SettingsSources

Listener: TypeAlias = socket.socket

# SIGTERM kills a worker that is still starting; it has nothing to drain.
_CLEAN_EXIT_CODES: Final = (0, -signal.SIGTERM)
_SETTINGS_EXIT_CODE: Final = 2  # a restart does not help, so the command exits with this code, like a single process

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WorkerSpec:
    """The values that a worker gets from the supervisor; descriptors are inherited, and given by number."""

    number: int
    parent_pipe: int
    ready_pipe: int  # the worker writes one byte when it accepts connections
    metrics_socket: int
    metrics_addresses: Sequence[bytes]  # of all workers
    listeners: Sequence[int]

    def __str__(self) -> str:
        names, listeners = ",".join(name.hex() for name in self.metrics_addresses), ",".join(map(str, self.listeners))
        return f"{self.number}:{self.parent_pipe}:{self.ready_pipe}:{self.metrics_socket}:{names}:{listeners}"

    @classmethod
    def parse(cls, text: str) -> "WorkerSpec":
        """Parse the value of `--share-port`, which `str` creates."""
        *numbers, names, listeners = text.split(":")
        number, parent_pipe, ready_pipe, metrics_socket = map(int, numbers)
        return cls(
            number,
            parent_pipe,
            ready_pipe,
            metrics_socket,
            [bytes.fromhex(name) for name in names.split(",")],
            [int(listener) for listener in listeners.split(",")],
        )


def supervise(
    arguments: argparse.Namespace, settings: ChassisSettings, listener: Listener, announce: Callable[[], None]
) -> int:
    """Run `arguments.workers` worker processes on the port of `listener`; returns the exit code."""
    host, port = listener.getsockname()[:2]
    # -P: do not import modules from the working directory.
    command = [sys.executable, "-P", "-m", "sluice", arguments.command, "--host", host, "--port", str(port)]
    if "grpc_port" in arguments:
        command += ["--grpc-port", "" if settings.grpc_port is None else str(settings.grpc_port)]
    for name in ("config", "data"):
        if getattr(arguments, name) is not None:
            command += [f"--{name}", getattr(arguments, name)]
    health = bind_health(settings)
    with ExitStack() as stack:
        listeners = _listeners(arguments.command, settings, listener, arguments.workers)
        for each in (*listeners, *health):
            stack.enter_context(each)
        supervisor = Supervisor(arguments.command, command, arguments.workers, settings, listeners)
        return process.run(supervisor.run(health, announce))


def _listeners(command: str, settings: ChassisSettings, listener: Listener, count: int) -> list[Listener]:
    """At least `count` sockets with the address of `listener`: the sockets of the previous supervisor, if there is one,
    and new sockets."""
    listeners = handover.take_over_sockets(settings.data_dir, listener, command)
    if listeners:
        listener.close()
    else:
        listeners = [listener]
    host, port = listeners[0].getsockname()[:2]
    return listeners + [bind(host, port, reuse_port=True) for _ in range(count - len(listeners))]


def run_worker(names: Sequence[str], options: SettingsSources, settings: ChassisSettings, spec: str) -> int:
    """Run as one of the workers. The port is shared. The supervisor handles the data directory and schemas.

    `spec`: the worker's `WorkerSpec` as text.
    """
    process.run(_serve_worker(names, options, settings, WorkerSpec.parse(spec)))
    return 0


async def _serve_worker(
    names: Sequence[str], options: SettingsSources, settings: ChassisSettings, spec: WorkerSpec
) -> None:
    # Before any store is opened, because a supervisor may be killed while workers start.
    stop = _stop_with_parent(spec.parent_pipe)
    worker_metrics = WorkerMetrics(spec.number, socket.socket(fileno=spec.metrics_socket), spec.metrics_addresses)
    listener, *extra_listeners = (socket.socket(fileno=each) for each in spec.listeners)
    telemetry = Telemetry(_service(names), worker_metrics=worker_metrics)
    app = compose_app(names, options, settings, telemetry)
    await serve(app, listener, settings, telemetry, partial(_report_accepting, spec), stop, extra_listeners)


def _service(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "sluice"


def _report_accepting(spec: WorkerSpec) -> None:
    with suppress(BrokenPipeError):  # the supervisor has exited, which the parent pipe reports
        os.write(spec.ready_pipe, b"+")
    os.close(spec.ready_pipe)


def _stop_with_parent(parent_pipe: int) -> asyncio.Event:
    """An event that is set when the supervisor exits: the pipe becomes readable only then."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_parent_exit() -> None:
        loop.remove_reader(parent_pipe)
        log.warning("supervisor has exited, draining")
        stop.set()

    loop.add_reader(parent_pipe, on_parent_exit)
    return stop


class Supervisor:
    """Runs `count` workers and reports their health and metrics on its own port."""

    def __init__(
        self, name: str, command: Sequence[str], count: int, settings: ChassisSettings, listeners: Sequence[Listener]
    ) -> None:
        self._name = name
        self._command = command
        self._count = count
        self._settings = settings
        self._listeners = listeners
        self._accepting = asyncio.Event()  # set when all workers accept connections
        self._workers: Sequence[WorkerDependency] = ()
        self._readiness: list[Dependency] = [self]  # the workers are added when all of them accept connections
        self.draining = False

    async def run(self, health: Sequence[Listener], announce: Callable[[], None]) -> int:
        """Run until a worker exits, or a signal arrives and all have drained. Returns the exit code.

        `health`: one listening socket, or none.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        metrics_sockets = [bind_worker_socket() for _ in range(self._count)]
        addresses = [each.getsockname() for each in metrics_sockets]
        async with AsyncExitStack() as stack:
            for each in health:
                await stack.enter_async_context(self._serve_health(each, addresses))
            processes = await self._start(metrics_sockets, addresses)
            exits = [loop.create_task(worker.wait()) for worker in processes]
            signalled = await self._watch(stop, exits, announce)
            return await self._shut_down(processes, exits, signalled=signalled)

    @asynccontextmanager
    async def _serve_health(self, listener: Listener, addresses: Sequence[bytes]) -> AsyncIterator[None]:
        """Serve /livez, /readyz and /metrics for all workers together."""
        settings = msgspec.structs.replace(self._settings, drain_timeout_s=DRAIN_GRACE_S)
        telemetry = Telemetry(self._name, worker_metrics=WorkerMetrics(None, None, addresses))
        self._workers = [WorkerDependency(number, address) for number, address in enumerate(addresses)]
        service = "sluice" if self._name == "up" else self._name
        app = build_app([], service=service, settings=settings, telemetry=telemetry, readiness=self._readiness)
        async with listening(app, listener, settings, telemetry):
            yield

    name = "supervisor"

    async def probe(self) -> None:
        """The supervisor's own entry in /readyz. Raises NotReady while it drains or is waiting for its workers."""
        if self.draining:
            raise NotReady("is shutting down")
        if not self._accepting.is_set():
            raise NotReady("is waiting for its workers")

    async def _start(self, metrics_sockets: Sequence[socket.socket], addresses: Sequence[bytes]) -> list[Process]:
        """Start the workers, and start reading the ready pipe."""
        # Only this process has the write end, open for as long as the process runs.
        parent_pipe, _write_end = os.pipe()
        ready_reader, ready_pipe = os.pipe()
        processes = []
        for number, metrics_socket in enumerate(metrics_sockets):
            listeners = [each.fileno() for each in self._listeners[number :: self._count]]
            spec = WorkerSpec(number, parent_pipe, ready_pipe, metrics_socket.fileno(), addresses, listeners)
            # In their own sessions: otherwise Ctrl-C reaches the workers in addition to the forwarded signal.
            processes.append(
                await asyncio.create_subprocess_exec(
                    *(*self._command, "--share-port", str(spec)),
                    start_new_session=True,
                    pass_fds=(parent_pipe, ready_pipe, metrics_socket.fileno(), *listeners),
                )
            )
        for each in metrics_sockets:
            each.close()
        os.close(parent_pipe)
        os.close(ready_pipe)
        self._count_accepting(ready_reader)
        return processes

    def _count_accepting(self, ready_reader: int) -> None:
        loop = asyncio.get_running_loop()
        remaining = self._count

        def on_ready() -> None:
            nonlocal remaining
            received = os.read(ready_reader, self._count)
            remaining -= len(received)
            if not remaining:
                self._accepting.set()
                self._readiness.extend(self._workers)
            if not received or not remaining:
                loop.remove_reader(ready_reader)
                os.close(ready_reader)

        loop.add_reader(ready_reader, on_ready)

    async def _watch(
        self, stop: asyncio.Event, exits: Sequence[asyncio.Task[int]], announce: Callable[[], None]
    ) -> bool:
        """Wait for a signal or the exit of a worker; returns whether it was a signal. Announces when all accept."""
        loop = asyncio.get_running_loop()
        stopped, accepting = loop.create_task(stop.wait()), loop.create_task(self._accepting.wait())
        await asyncio.wait([stopped, accepting, *exits], return_when=asyncio.FIRST_COMPLETED)
        if accepting.done() and not stop.is_set():
            with handover.offer_sockets(self._settings.data_dir, self._listeners, self._name):
                announce()
                await asyncio.wait([stopped, *exits], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        accepting.cancel()
        return stop.is_set()

    async def _shut_down(
        self, processes: Sequence[Process], exits: Sequence[asyncio.Task[int]], *, signalled: bool
    ) -> int:
        """Stop all workers; returns the exit code."""
        self.draining = True
        for listener in self._listeners:
            listener.close()  # otherwise clients would wait in its queue, from which no process accepts
        first = [] if signalled else [number for number, end in enumerate(exits) if end.done()]
        for number in first:
            _log_exit(number, exits[number].result(), "; stopping the others")
        _forward_sigterm(processes)
        codes = await asyncio.gather(*exits)
        failed = [number for number, code in enumerate(codes) if code not in _CLEAN_EXIT_CODES and number not in first]
        for number in failed:
            _log_exit(number, codes[number])
        faults = {codes[number] for number in (*first, *failed)}
        return _SETTINGS_EXIT_CODE if _SETTINGS_EXIT_CODE in faults else int(bool(faults))


def _log_exit(number: int, code: int, suffix: str = "") -> None:
    """Log how a worker exited. A negative `code` is the negated number of the signal that killed it."""
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    message = f"worker {number} {how}{suffix}"
    log.error(message)


def _forward_sigterm(processes: Sequence[Process]) -> None:
    for worker in processes:
        if worker.returncode is None:
            worker.send_signal(signal.SIGTERM)
