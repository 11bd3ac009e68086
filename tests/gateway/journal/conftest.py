"""A disk in memory for each test."""

import pytest

from tests.gateway.journal.disk import Disk


@pytest.fixture
def disk() -> Disk:
    return Disk()
