"""Several processes on one port (SO_REUSEPORT): the kernel spreads connections, a supervisor keeps them together.

The supervisor holds the port and the data directory and serves nothing itself, but for its own health port. It says
that it listens when every worker accepts. A signal is passed on and the workers drain; a worker that ends by itself
ends all, and the log says how it ended, so that whatever restarts the command sees the failure.

Each worker gets its listening sockets, which come from the supervisor before, if there is one (`handover`); a socket by
which the others ask for its metrics, and the supervisor whether it is ready (`chassis.runtime.worker_metrics`); a pipe
to say that it accepts; and the lifeline: a pipe that nobody writes to and only the supervisor could. It ends with the
supervisor, however that ended, and then the worker drains as on a signal.
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
from chassis.runtime.health import Dependency, NotReady
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from chassis.runtime.worker_metrics import WorkerDependency, WorkerMetrics, bind_worker_socket
from sluice import handover, process
from sluice.app_builder import compose_app
from sluice.settings_sources import SettingsSources

Listener: TypeAlias = socket.socket

# A worker that was asked to end while it was still starting dies of the signal; it had nothing to drain.
_CLEAN_EXIT_CODES: Final = (0, -signal.SIGTERM)
_SETTINGS_EXIT_CODE: Final = 2  # no restart will help; the command ends with it as one process alone does

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WorkerSpec:
    """What the supervisor has for one worker; descriptors are inherited."""

    number: int
    parent_pipe: int
    ready_pipe: int  # the pipe to say so
    metrics_socket: int
    metrics_addresses: Sequence[bytes]  # of all siblings
    listeners: Sequence[int]

    def __str__(self) -> str:
        names, listeners = ",".join(name.hex() for name in self.metrics_addresses), ",".join(map(str, self.listeners))
        return f"{self.number}:{self.parent_pipe}:{self.ready_pipe}:{self.metrics_socket}:{names}:{listeners}"

    @classmethod
    def parse(cls, text: str) -> "WorkerSpec":
        """From an option of the command line."""
        *numbers, names, listeners = text.split(":")
        number, lifeline, accepts, sibling = map(int, numbers)
        return cls(
            number,
            lifeline,
            accepts,
            sibling,
            [bytes.fromhex(name) for name in names.split(",")],
            [int(listener) for listener in listeners.split(",")],
        )


def supervise(
    arguments: argparse.Namespace, settings: ChassisSettings, listener: Listener, announce: Callable[[], None]
) -> int:
    """Run `arguments.workers` processes like this one on the port of `listener`; the exit code."""
    host, port = listener.getsockname()[:2]
    # Not from the working directory (-P): whatever lies there is no module of ours.
    command = [sys.executable, "-P", "-m", "sluice", arguments.command, "--host", host, "--port", str(port)]
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
    """At least one for each worker, all bound like `listener`: those of the supervisor before, and new ones."""
    listeners = handover.take_over_sockets(settings.data_dir, listener, command)
    if listeners:
        listener.close()
    else:
        listeners = [listener]
    host, port = listeners[0].getsockname()[:2]
    return listeners + [bind(host, port, reuse_port=True) for _ in range(count - len(listeners))]


def run_worker(names: Sequence[str], options: SettingsSources, settings: ChassisSettings, spec: str) -> int:
    """Be one of the processes: the port is shared, data directory and schemas are the supervisor's business.

    `text`: what the supervisor has for it.
    """
    process.run(_serve_worker(names, options, settings, WorkerSpec.parse(spec)))
    return 0


async def _serve_worker(
    names: Sequence[str], options: SettingsSources, settings: ChassisSettings, share: WorkerSpec
) -> None:
    stop = _stop_with_parent(
        share.parent_pipe
    )  # before anything is opened: a supervisor may be killed while workers start
    siblings = WorkerMetrics(share.number, socket.socket(fileno=share.metrics_socket), share.metrics_addresses)
    listener, *more = (socket.socket(fileno=each) for each in share.listeners)
    telemetry = Telemetry(_service(names), worker_metrics=siblings)
    app = compose_app(names, options, settings, telemetry)
    await serve(app, listener, settings, telemetry, partial(_report_accepting, share), stop, more)


def _service(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "sluice"


def _report_accepting(share: WorkerSpec) -> None:
    with suppress(BrokenPipeError):  # the supervisor is gone, which the lifeline tells
        os.write(share.ready_pipe, b"+")
    os.close(share.ready_pipe)


def _stop_with_parent(lifeline: int) -> asyncio.Event:
    """Set once the supervisor is gone: the pipe is readable then, and never before."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(lifeline)
        log.warning("the supervisor of this worker is gone, draining")
        stop.set()

    loop.add_reader(lifeline, ended)
    return stop


class Supervisor:
    """Keeps `count` workers, and tells of them at a port of its own."""

    def __init__(
        self, name: str, command: Sequence[str], count: int, settings: ChassisSettings, listeners: Sequence[Listener]
    ) -> None:
        self._name = name
        self._command = command
        self._count = count
        self._settings = settings
        self._listeners = listeners
        self._accepting = asyncio.Event()  # all of them do
        self._workers: Sequence[WorkerDependency] = ()
        self._readiness: list[Dependency] = [self]  # whether they are ready; workers once they accept
        self.draining = False

    async def run(self, health: Sequence[Listener], announce: Callable[[], None]) -> int:
        """Until a worker ends, or a signal comes and all have drained; the exit code. `health`: one socket, or none."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        siblings = [bind_worker_socket() for _ in range(self._count)]
        names = [each.getsockname() for each in siblings]
        async with AsyncExitStack() as stack:
            for each in health:
                await stack.enter_async_context(self._serve_health(each, names))
            processes = await self._start(siblings, names)
            ends = [loop.create_task(worker.wait()) for worker in processes]
            asked = await self._watch(stop, ends, announce)
            return await self._shut_down(processes, ends, asked=asked)

    @asynccontextmanager
    async def _serve_health(self, listener: Listener, names: Sequence[bytes]) -> AsyncIterator[None]:
        """/livez, /readyz and /metrics of the workers together."""
        settings = msgspec.structs.replace(self._settings, drain_timeout_s=DRAIN_GRACE_S)
        telemetry = Telemetry(self._name, worker_metrics=WorkerMetrics(None, None, names))
        self._workers = [WorkerDependency(number, name) for number, name in enumerate(names)]
        service = "sluice" if self._name == "up" else self._name
        app = build_app([], service=service, settings=settings, telemetry=telemetry, readiness=self._readiness)
        async with listening(app, listener, settings, telemetry):
            yield

    name = "supervisor"

    async def probe(self) -> None:
        """As something that its own readiness depends on."""
        if self.draining:
            raise NotReady("is shutting down")
        if not self._accepting.is_set():
            raise NotReady("waits for its workers")

    async def _start(self, siblings: Sequence[socket.socket], names: Sequence[bytes]) -> list[Process]:
        """The workers. What says that they accept is read from here on."""
        lifeline, _held = os.pipe()  # the other end is open for as long as this process is there, and in no other
        told, accepts = os.pipe()
        processes = []
        for number, sibling in enumerate(siblings):
            listeners = [each.fileno() for each in self._listeners[number :: self._count]]
            share = WorkerSpec(number, lifeline, accepts, sibling.fileno(), names, listeners)
            # Sessions of their own: a terminal's Ctrl-C would reach the workers beside the signal that is passed on.
            processes.append(
                await asyncio.create_subprocess_exec(
                    *(*self._command, "--share-port", str(share)),
                    start_new_session=True,
                    pass_fds=(lifeline, accepts, sibling.fileno(), *listeners),
                )
            )
        for each in siblings:
            each.close()
        os.close(lifeline)
        os.close(accepts)
        self._count_accepting(told)
        return processes

    def _count_accepting(self, told: int) -> None:
        loop = asyncio.get_running_loop()
        waited_for = self._count

        def read() -> None:
            nonlocal waited_for
            said = os.read(told, self._count)
            waited_for -= len(said)
            if not waited_for:
                self._accepting.set()
                self._readiness.extend(self._workers)
            if not said or not waited_for:
                loop.remove_reader(told)
                os.close(told)

        loop.add_reader(told, read)

    async def _watch(
        self, stop: asyncio.Event, ends: Sequence[asyncio.Task[int]], announce: Callable[[], None]
    ) -> bool:
        """Wait for a signal, or the end of a worker; whether it was a signal. Say meanwhile that all accept."""
        loop = asyncio.get_running_loop()
        stopped, accepting = loop.create_task(stop.wait()), loop.create_task(self._accepting.wait())
        await asyncio.wait([stopped, accepting, *ends], return_when=asyncio.FIRST_COMPLETED)
        if accepting.done() and not stop.is_set():
            with handover.offer_sockets(self._settings.data_dir, self._listeners, self._name):
                announce()
                await asyncio.wait([stopped, *ends], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        accepting.cancel()
        return stop.is_set()

    async def _shut_down(self, processes: Sequence[Process], ends: Sequence[asyncio.Task[int]], *, asked: bool) -> int:
        """Have them all end; the exit code."""
        self.draining = True
        for listener in self._listeners:
            listener.close()  # or clients would still wait in its queue, with nobody there to accept them
        first = [] if asked else [number for number, end in enumerate(ends) if end.done()]
        for number in first:
            _log_exit(number, ends[number].result(), "; ending the others")
        _forward_sigterm(processes)
        codes = await asyncio.gather(*ends)
        badly = [number for number, code in enumerate(codes) if code not in _CLEAN_EXIT_CODES and number not in first]
        for number in badly:
            _log_exit(number, codes[number])
        faults = {codes[number] for number in (*first, *badly)}
        return _SETTINGS_EXIT_CODE if _SETTINGS_EXIT_CODE in faults else int(bool(faults))


def _log_exit(number: int, code: int, then: str = "") -> None:
    """How a worker ended, by its return code: the signal's number where it is negative."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    said = f"worker {number} {how}{then}"
    log.error(said)


def _forward_sigterm(processes: Sequence[Process]) -> None:
    for worker in processes:
        if worker.returncode is None:
            worker.send_signal(signal.SIGTERM)
