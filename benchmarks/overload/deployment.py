"""The gateway and the endpoint behind it as processes, each on cores of its own, and the gateway's memory over time."""

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, Self

import psutil  # type: ignore[import-untyped]  # it has no types
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.gateway.rivals import Endpoint, endpoint
from chassis.db.database import Database
from control.identity.organizations import organization_store, project_key_store
from proto.otlp.policy import Signal
from tests.e2e.product import call, set_up_apart

MIB: Final = 2**20
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
    process: psutil.Process
    sink: Endpoint
    database: str
    data: Path

    def cpu_s(self) -> float:
        """CPU of the gateway so far."""
        return float(sum(self.process.cpu_times()[:2]))

    def resident(self) -> int:
        """Bytes of it in memory."""
        return int(self.process.memory_info().rss)

    def rows(self, signal: Signal) -> int:
        """Items that have arrived at the endpoint."""
        return self.sink.rows(f"{self.database}.{'spans' if signal == 'traces' else 'logs'}")

    def metric(self, name: str, **labels: str) -> float:
        """A sample of `/metrics`, summed over the labels that are not given."""
        text = call("GET", f"http://127.0.0.1:{self.port}/metrics").body.decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


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
            if gateway.process is None:
                raise RuntimeError("the gateway has ended")
            process = psutil.Process(gateway.process.pid)
            yield Deployment(gateway.port, keys, process, sink, "load", gateway.data)
            gateway.stop()
        finally:
            gateway.kill()


def make_keys(url: str, org_slug: str, projects: int) -> list[str]:
    """Keys of so many new projects of an organization, in the relational store at a URL."""
    return asyncio.run(_make_keys(url, org_slug, projects))


async def _make_keys(url: str, org_slug: str, projects: int) -> list[str]:
    database = Database(url)
    await database.start()
    keys = []
    async with database.write() as connection:
        organization = await organization_store.find_organization(connection, org_slug)
        if organization is None:
            raise RuntimeError("there is no organization")
        for number in range(projects):
            project = await organization_store.create_project(connection, organization.id, f"load-{number}", "Load", [])
            key = await project_key_store.create_project_key(connection, organization.id, project.id, "load")
            keys.append(key.secret)
    await database.close()
    return keys


def slope(samples: Sequence[float], every_s: float) -> float:
    """Change a minute over the second half, by least squares: what is filled once is filled by then."""
    late = samples[len(samples) // 2 :]
    mean_x, mean_y = (len(late) - 1) / 2, sum(late) / len(late)
    spread = sum((x - mean_x) ** 2 for x in range(len(late)))
    return sum((x - mean_x) * (y - mean_y) for x, y in enumerate(late)) / max(spread, 1e-9) * 60 / every_s


class Memory:
    """Resident memory of a gateway, watched while it is a context."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._samples: list[float] = []  # MiB

    def __enter__(self) -> Self:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._samples.append(self._deployment.resident() / MIB)

    @property
    def most(self) -> float:
        """MiB."""
        return max(self._samples)

    @property
    def slope(self) -> float:
        """MiB a minute over the second half."""
        return slope(self._samples, _SAMPLE_S)

    def __str__(self) -> str:
        return (
            f"{min(self._samples):.0f} / {median(self._samples):.0f} / {self.most:.0f} MiB (min, median, max),"
            f" {self.slope:+.2f} MiB a minute over the second half"
        )
