"""The gateway and the endpoint behind it as processes, each on cores of its own, the processes that send to it, and its
memory over time.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from statistics import linear_regression, median
from typing import Final, NamedTuple, Self

from benchmarks.gateway.bodies import ITEMS, Kind
from benchmarks.gateway.rivals import Endpoint, endpoint
from benchmarks.overload.offering import Load, Outcome, exports, joined, offer
from benchmarks.processes import cpu_s, pid_of, resident_mib
from benchmarks.report import quantile
from benchmarks.stores import opened
from control.identity.organizations import organization_store, project_key_store
from proto.otlp.policy import Signal
from tests.e2e.product import set_up_apart

_SAMPLE_S: Final = 0.5
_QUIET_S: Final = 3.0  # without an arrival, once nothing is missing
_GIVEN_UP_S: Final = 60.0  # without one, while something is
_QUANTILES: Final = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))


class Cores(NamedTuple):
    """Of the machine: those of the gateway, and those of whoever sends to it and stores for it."""

    gateway: Sequence[int]
    others: Sequence[int]

    @classmethod
    def split(cls) -> "Cores":
        """Half of what this process may use for each, so that more senders do not make the gateway slower."""
        cores = sorted(os.sched_getaffinity(0))
        half = max(1, len(cores) // 2)
        return cls(cores[:half], cores[half:] or cores)


class Deployment(NamedTuple):
    """A running gateway with some projects, in front of an endpoint."""

    port: int
    keys: Sequence[str]
    pid: int
    sink: Endpoint
    database: str

    def cpu_s(self) -> float:
        """CPU of the gateway so far."""
        return cpu_s(self.pid)

    def rows(self, signal: Signal) -> int:
        """Items that have arrived at the endpoint."""
        return self.sink.rows(f"{self.database}.{'spans' if signal == 'traces' else 'logs'}")


@contextmanager
def deployed(directory: Path, cores: Cores, projects: int, settings: Mapping[str, str]) -> Iterator[Deployment]:
    """Start both, and end them. The endpoint shares the cores of this process."""
    os.sched_setaffinity(0, cores.others)
    with endpoint(directory) as sink:
        place = directory / "sluice"
        place.mkdir()
        url = f"sqlite:///{place / 'shared.db'}"
        sluice = set_up_apart(place, f"http://127.0.0.1:{sink.port}/load", url, **settings)
        keys = [sluice.key, *make_keys(url, sluice.org, projects - 1)]
        gateway = sluice.services["gateway"]
        os.sched_setaffinity(0, cores.gateway)  # what is started has them from its start, with all its threads
        gateway.start()
        os.sched_setaffinity(0, cores.others)
        try:
            yield Deployment(gateway.port, keys, pid_of(gateway), sink, "load")
            gateway.stop()
        finally:
            gateway.kill()


def make_keys(url: str, org_slug: str, projects: int) -> list[str]:
    """Keys of so many new projects of an organization, in the relational store at a URL."""
    return asyncio.run(_make_keys(url, org_slug, projects))


async def _make_keys(url: str, org_slug: str, projects: int) -> list[str]:
    keys = []
    async with opened(url) as database, database.write() as connection:
        organization = await organization_store.find_organization(connection, org_slug)
        if organization is None:
            raise RuntimeError("there is no organization")
        for number in range(projects):
            project = await organization_store.create_project(connection, organization.id, f"load-{number}", "Load", [])
            key = await project_key_store.create_project_key(connection, organization.id, project.id, "load")
            keys.append(key.secret)
    return keys


class Memory:
    """Resident memory of a process, in MiB, watched while it is a context."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._samples: list[float] = []

    def __enter__(self) -> Self:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._samples.append(resident_mib(self._pid))

    @property
    def most(self) -> float:
        return max(self._samples)

    def __str__(self) -> str:
        return memory_of(self._samples, _SAMPLE_S)


def memory_of(samples: Sequence[float], every_s: float) -> str:
    """How the memory changed, in words."""
    return (
        f"{min(samples):.0f} / {median(samples):.0f} / {max(samples):.0f} MiB (min, median, max),"
        f" {_slope(samples, every_s):+.2f} MiB a minute over the second half"
    )


def _slope(samples: Sequence[float], every_s: float) -> float:
    """Change a minute over the second half, by least squares: what is filled once is filled by then."""
    late = samples[len(samples) // 2 :]
    return linear_regression(range(len(late)), late).slope * 60 / every_s if len(late) > 1 else 0.0


class Bench:
    """A deployment, and the processes that send to it."""

    def __init__(self, deployment: Deployment, senders: Executor, processes: int, kind: Kind) -> None:
        self.deployment = deployment
        self._senders = senders
        self._processes = processes
        self._kind = kind
        self.acknowledged = 0  # items

    def offer(self, rate: float, seconds: float, connections: int) -> Outcome:
        """So many requests a second from all processes together; 0: without a pause."""
        rate, connections = rate / self._processes, max(1, connections // self._processes)
        requests = exports(self._kind, *self.deployment.keys)
        load = Load(self.deployment.port, requests, rate, seconds, connections)
        outcome = joined(list(self._senders.map(offer, [load] * self._processes)))
        self.acknowledged += outcome.count(200) * ITEMS
        return outcome

    def missing(self) -> int:
        """Acknowledged items that are not at the endpoint, once nothing more comes: the journal may hold minutes."""
        while True:
            left, idle_s = self._left(), self.deployment.sink.arrived()["idle_s"]
            if idle_s >= (_QUIET_S if left <= 0 else _GIVEN_UP_S):
                return left
            time.sleep(0.2)

    def _left(self) -> int:
        return self.acknowledged - self.deployment.rows(self._kind.signal)


def times_of(times: Sequence[float]) -> str:
    """Their quantiles, in words."""
    return ", ".join(f"{name} {quantile(times, q) * 1e3:.0f} ms" for name, q in _QUANTILES)
