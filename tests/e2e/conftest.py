"""One running Sluice for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.e2e.product import Sluice, running, stop


@pytest.fixture(scope="session")
def sluice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sluice]:
    directory = tmp_path_factory.mktemp("sluice")
    sluice = running(directory / "data", directory / "log")
    yield sluice
    assert stop(sluice.process) == 0, (directory / "log").read_text()
