"""What processes take of the machine, and functions that run in processes of their own."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from tests.e2e.product import Service

P = ParamSpec("P")
T = TypeVar("T")

_SCHEDULED: Final = 2  # CPUCLOCK_SCHED of Linux's clocks of a process: all of its threads, in nanoseconds
_PROBE_S: Final = 0.002
_WARM: Final = 20  # requests before the first that counts


def pid_of(service: Service) -> int:
    """The process of a service. Raises RuntimeError if it has ended."""
    if service.process is None:
        raise RuntimeError(f"{service.command} does not run")
    return service.process.pid


def cpu_s(pid: int) -> float:
    """CPU of a process so far, and of its threads that have ended; not that of its children."""
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def resident_mib(pid: int) -> float:
    """MiB of a process in memory."""
    return _status_mib(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """The most MiB of a process in memory, since its start or since `reset_peak`."""
    return _status_mib(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    """The peak begins again at what is in memory now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _status_mib(pid: int, name: str) -> float:
    """A line of /proc/PID/status."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{name}:")[2].split()[0]) / 1_024


def spawned(count: int = 1) -> ProcessPoolExecutor:
    """Workers that share nothing with this process."""
    return ProcessPoolExecutor(count, get_context("spawn"))


def apart(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What a function gives in a process of its own, which ends: one process has one engine."""
    with spawned() as worker:
        return worker.submit(call, *arguments, **options).result()


@contextmanager
def probed(port: int, waits: list[float]) -> Iterator[None]:
    """Another process asks for `/livez` meanwhile: how many seconds each answer took."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_probe, args=(port, theirs), daemon=True)
    process.start()
    theirs.close()  # if the process ends, this one does not wait for it
    ours.recv()
    try:
        yield
    finally:
        ours.send(None)
        waits.extend(ours.recv())
        process.join()


def _probe(port: int, pipe: Connection) -> None:
    client, waits = HTTPConnection("127.0.0.1", port), list[float]()
    for _ in range(_WARM):
        _ask(client)
    pipe.send(None)
    while not pipe.poll():
        begun = time.perf_counter()
        _ask(client)
        waits.append(time.perf_counter() - begun)
        time.sleep(_PROBE_S)
    pipe.send(waits)


def _ask(client: HTTPConnection) -> None:
    client.request("GET", "/livez")
    client.getresponse().read()
