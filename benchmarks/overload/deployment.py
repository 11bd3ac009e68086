"""The gateway and the endpoint behind it as processes, each on cores of its own, and the gateway's memory over time."""

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import linear_regression, median
from typing import Final, NamedTuple, Self

from benchmarks.gateway.rivals import Endpoint, endpoint
from benchmarks.processes import cpu_s, pid_of, resident_mib
from benchmarks.stores import opened
from control.identity.organizations import organization_store, project_key_store
from proto.otlp.policy import Signal
from tests.e2e.product import set_up_apart

_SAMPLE_S: Final = 0.5


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
    """What became of memory, in words."""
    return (
        f"{min(samples):.0f} / {median(samples):.0f} / {max(samples):.0f} MiB (min, median, max),"
        f" {_slope(samples, every_s):+.2f} MiB a minute over the second half"
    )


def _slope(samples: Sequence[float], every_s: float) -> float:
    """Change a minute over the second half, by least squares: what is filled once is filled by then."""
    late = samples[len(samples) // 2 :]
    return linear_regression(range(len(late)), late).slope * 60 / every_s if len(late) > 1 else 0.0
