"""Several processes on one port (SO_REUSEPORT): the kernel spreads connections, a supervisor keeps them together.

The supervisor holds the port and the data directory and serves nothing itself. A signal is passed on and the workers
drain; a worker that ends by itself ends all, and the log says how it ended, so that whatever restarts the command sees
the failure. Each worker gets a socket by which the others ask for its metrics (`chassis.siblings`), and the lifeline: a
pipe that nobody writes to and only the supervisor could. It ends with the supervisor, however that ended, and then the
worker drains as on a signal.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import structlog

from chassis.serve import bind, serve
from chassis.settings import ChassisSettings
from chassis.siblings import Siblings, bound
from chassis.telemetry import Telemetry
from sluice import process
from sluice.options import Options
from sluice.services import assemble

Listener: TypeAlias = socket.socket

# A worker that was asked to end while it was still starting dies of the signal; it had nothing to drain.
_WELL: Final = (0, -signal.SIGTERM)
_WRONG_SETTINGS: Final = 2  # no restart will help; the command ends with it as one process alone does

log = structlog.get_logger(__name__)


def supervise(arguments: argparse.Namespace, listener: Listener, announce: Callable[[], None]) -> int:
    """Run `arguments.workers` processes like this one on the port of `listener`, which is only held; the exit code."""
    host, port = listener.getsockname()[:2]
    command = [sys.executable, "-m", "sluice", arguments.command, "--host", host, "--port", str(port)]
    for name in ("config", "data"):
        if getattr(arguments, name) is not None:
            command += [f"--{name}", getattr(arguments, name)]
    with listener:
        return process.run(_keep(command, arguments.workers, announce))


def work(names: Sequence[str], options: Options, settings: ChassisSettings, share: str) -> int:
    """Be one of the processes: the port is shared, data directory and schemas are the supervisor's business.

    `share` is what the supervisor has for it.
    """
    number, lifeline, descriptor, sockets = share.split(":")
    siblings = Siblings(
        int(number), socket.socket(fileno=int(descriptor)), list(map(bytes.fromhex, sockets.split(",")))
    )
    listener = bind(settings.host, settings.port, share=True)
    process.run(_work(names, options, settings, listener, siblings, int(lifeline)))
    return 0


async def _work(
    names: Sequence[str],
    options: Options,
    settings: ChassisSettings,
    listener: Listener,
    siblings: Siblings,
    lifeline: int,
) -> None:
    stop = _at_the_end_of(lifeline)  # before anything is opened: a supervisor may be killed while its workers start
    telemetry = Telemetry(names[0] if len(names) == 1 else "sluice", siblings=siblings)
    await serve(assemble(names, options, settings, telemetry), listener, settings, telemetry, stop=stop)


def _at_the_end_of(lifeline: int) -> asyncio.Event:
    """Set once the supervisor is gone: the pipe is readable then, and never before."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(lifeline)
        log.warning("the supervisor of this worker is gone, draining")
        stop.set()

    loop.add_reader(lifeline, ended)
    return stop


async def _start(command: Sequence[str], count: int, lifeline: int) -> list[Process]:
    """The workers, each with its number, its socket and the names of all sockets. `lifeline`: what they read."""
    sockets = [bound() for _ in range(count)]
    names = ",".join(one.getsockname().hex() for one in sockets)
    processes = []
    for number, own in enumerate(sockets):
        share = f"{number}:{lifeline}:{own.fileno()}:{names}"
        # Sessions of their own: a terminal's Ctrl-C would reach the workers beside the signal that is passed on.
        processes.append(
            await asyncio.create_subprocess_exec(
                *command, "--share-port", share, start_new_session=True, pass_fds=(own.fileno(), lifeline)
            )
        )
    for one in sockets:
        one.close()
    return processes


async def _keep(command: Sequence[str], count: int, announce: Callable[[], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    lifeline, _held = os.pipe()  # the other end is open for as long as this process is there, and in no other
    processes = await _start(command, count, lifeline)
    os.close(lifeline)
    ends = [loop.create_task(worker.wait()) for worker in processes]
    stopped = loop.create_task(stop.wait())
    announce()
    await asyncio.wait([stopped, *ends], return_when=asyncio.FIRST_COMPLETED)
    asked = stop.is_set()
    stopped.cancel()
    first = [] if asked else [number for number, end in enumerate(ends) if end.done()]
    for number in first:
        _tell(number, ends[number].result(), "; ending the others")
    _pass_on(processes)
    codes = await asyncio.gather(*ends)
    badly = [number for number, code in enumerate(codes) if code not in _WELL and number not in first]
    for number in badly:
        _tell(number, codes[number])
    faults = {codes[number] for number in (*first, *badly)}
    return _WRONG_SETTINGS if _WRONG_SETTINGS in faults else int(bool(faults))


def _tell(number: int, code: int, then: str = "") -> None:
    """How a worker ended, by its return code: the signal's number where it is negative."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    said = f"worker {number} {how}{then}"
    log.error(said)


def _pass_on(processes: Sequence[Process]) -> None:
    for worker in processes:
        if worker.returncode is None:
            worker.send_signal(signal.SIGTERM)
