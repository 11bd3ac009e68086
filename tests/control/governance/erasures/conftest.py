"""Deleting, with people who log in, and workers that tests run."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chassis.db.database import Database
from chassis.erasures import leases
from control.governance.erasures.purge import Purger
from control.settings import ControlSettings
from sluice.erasure_filters import check_filters
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.identity.conftest import person  # noqa: F401  # a fixture


@pytest.fixture
async def control(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, control_settings: ControlSettings
) -> AsyncIterator[Control]:
    """With the check of filters that the command passes in."""
    async with serving(migrated_url, tmp_path, control_settings, check_filters, tenants=tenants) as control:
        yield control


async def purge(database: Database, batch: int = 3) -> None:
    """As the service does it, in many small batches."""
    await Purger(database, batch=batch, pause_s=0).poll_once()


async def erase_telemetry(database: Database) -> int:
    """Stands in for gateways: completes what they would erase. Returns the number of erasures."""
    completed = 0
    while True:
        async with database.write() as connection:
            lease = await leases.claim(connection, "gateway", datetime.now(UTC))
            if lease is None:
                return completed
            assert await leases.complete(connection, lease, {"spans": 1}, datetime.now(UTC))
        completed += 1
