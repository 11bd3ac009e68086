"""One engine for the tests of a worker, and gateways that end with their test."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.faults.deployment import Gateway, Site
from tests.faults.memory_group import LIMIT, MemoryGroup, memory_group
from tests.faults.proxy import Proxy
from tests.faults.zygote import Zygote

MakeGateway = Callable[..., Gateway]
_runs = itertools.count(1)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The engine, and a project over it; it stays alive."""
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.close()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """What gateways that start often are forked from, one at a time."""
    with Zygote() as zygote:
        yield zygote


@pytest.fixture
def proxy(site: Site) -> Iterator[Proxy]:
    """In front of the engine; all is well at first."""
    with Proxy(site.engine.port) as proxy:
        yield proxy


@pytest.fixture
def make_gateway(site: Site, tmp_path: Path) -> Iterator[MakeGateway]:
    """Gateways that are not started, each in a directory of its own."""
    made: list[Gateway] = []

    def make(**options: object) -> Gateway:
        gateway = Gateway(site, tmp_path / f"gateway-{len(made)}", **options)  # type: ignore[arg-type]  # its own fields
        made.append(gateway)
        return gateway

    yield make
    for gateway in made:
        gateway.kill()


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory on a disk: what a process writes to a file system in memory counts as its own."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with memory_group(LIMIT) as group:
        yield group


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """A name for what a test sends, which no other has."""
    return f"{request.node.name}-{next(_runs)}"
