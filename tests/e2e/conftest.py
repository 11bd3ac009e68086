"""Running deployments: every test that takes `sluice` is about all of them."""

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.e2e.product import DEPLOYMENTS, Sluice, running, running_apart
from tests.engine.process import Engine
from tests.ports import free_port

_numbers = itertools.count(1)


class Deploy(Protocol):
    """Starts a deployment in an empty directory, with these settings."""

    def __call__(self, directory: Path, **settings: str) -> Sluice: ...


_SECOND = pytest.mark.second_store  # the stores are what tells these from the others
_PARAMETERS = [
    pytest.param(name, marks=() if name in ("embedded-sqlite", "apart-postgresql") else _SECOND) for name in DEPLOYMENTS
]


@pytest.fixture(scope="session", params=_PARAMETERS)
def deploy(request: pytest.FixtureRequest) -> Deploy:
    """Starts the deployment in an empty directory."""
    stores, _, relational = request.param.partition("-")

    def database_url(directory: Path) -> str:
        if relational == "sqlite":
            return f"sqlite:///{directory / 'shared.db'}"
        return str(request.getfixturevalue("postgresql").new_database())

    def start(directory: Path, **settings: str) -> Sluice:
        url = database_url(directory)
        settings = {"SLUICE_GRPC_PORT": str(free_port()), **settings}
        if stores == "embedded":
            stated = {} if relational == "sqlite" else {"SLUICE_DATABASE_URL": url}
            return running(directory / "data", directory / "log", **stated, **settings)
        engine: Engine = request.getfixturevalue("engine")
        return running_apart(directory, f"{engine.url}/e2e_{next(_numbers)}", url, **settings)

    return start


@pytest.fixture(scope="session")
def sluice(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    """One running Sluice of each deployment for all tests of this folder; they leave it running."""
    sluice = deploy(tmp_path_factory.mktemp("sluice"))
    yield sluice
    sluice.stop()


def _deployment(item: pytest.Item | None) -> str | None:
    """The deployment that a test runs on, if it runs on a shared one."""
    parameters = getattr(item, "callspec", None)
    return None if parameters is None else parameters.params.get("deploy")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Stop a deployment after its last test. Otherwise it polls its stores until the session ends, which takes 2 % of a
    processor for each service.
    """
    yield
    if _deployment(item) not in (None, _deployment(nextitem)):
        for fixture in item.session._fixturemanager.getfixturedefs("sluice", item) or ():
            fixture.finish(item._request)  # type: ignore[attr-defined]  # of a test function
